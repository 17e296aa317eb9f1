/* The engine that runs an OCI runtime itself, with no daemon. */
#include <dirent.h>
#include <errno.h>
#include <linux/keyctl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "host/engine/attach.h"
#include "host/engine/cgroup.h"
#include "host/engine/check.h"
#include "host/engine/engine.h"
#include "host/engine/image.h"
#include "host/engine/oci_container.h"
#include "host/engine/oci_spec.h"
#include "host/engine/profile.h"
#include "host/engine/rootless.h"
#include "host/engine/runtime.h"
#include "host/engine/userns.h"
#include "host/engine/view.h"
#include "proto/base/log.h"

/* ---- what the host has to have ---- */

/* Refuses a host that could not enforce what a container is promised. *ret_swap_limit: swap can be limited.
 */
static int oci_check_host(bool *ret_swap_limit, Problem *problem)
{
    CgroupSupport support = {0};

    if (geteuid() != 0)
        return problem_set(problem, ERR_INTERNAL, "no user namespace was entered for the engine oci");
    if (*profile_architecture() == '\0')
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "there is no system call filter for the processor of this machine");
    cgroup_support(&support);
    if (!rootless_entered() && (!support.memory || !support.pids || !support.cpu))
        return problem_set(
            problem, ERR_ENGINE_ERROR,
            "this host cannot limit memory, processes and CPU with control groups; see limpetd "
            "--check");
    if (!check_has_seccomp())
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "the kernel cannot filter system calls (CONFIG_SECCOMP_FILTER)");
    *ret_swap_limit = !rootless_entered() && support.swap;
    return rlimits_check(problem);
}

static void check_userns(const Check *check, const EngineConfig *config, const Runtime *runtime)
{
    Problem problem = PROBLEM_NULL;

    if (geteuid() != 0)
        check_say(check, FINDING_OK, "user namespace", NULL,
                  "process 1 of a sandbox is one of your subordinate ids on the host");
    else if (strcmp(config->userns, "off") == 0)
        check_say(check, FINDING_OK, "user namespace", NULL, "turned off: sandboxes have none of their own");
    else if (userns_check(config, runtime, &problem) < 0)
        check_say(check, FINDING_WARN, "user namespace", NULL,
                  "process 1 of a sandbox is uid 0 on the host, too: %s", problem.text);
    else
        check_say(check, FINDING_OK, "user namespace", NULL, "process 1 of a sandbox is uid %u on the host",
                  SUPERVISOR_UID);
}

/* Ordinary users are told nothing: their namespace, which decides, is made when limpetd starts. */
static void check_clock(const Check *check, const Runtime *runtime)
{
    ContainerClock clock;
    int r = geteuid() == 0 ? container_clock_open(&clock, runtime) : 1;

    if (r < 0)
        check_say(check, FINDING_WARN, "clock", "use Linux 6.1 or newer with runc or crun",
                  "containers have the monotonic clock of the machine (%s), and the memory of saved sessions "
                  "does not fit after a restart",
                  strerror(-r));
    if (r != 0)
        return;
    check_say(check, FINDING_OK, "clock", NULL,
              "containers have a monotonic clock of their own, the same on every machine");
    container_clock_close(&clock);
}

static void check_runtime(const Check *check, const EngineConfig *config)
{
    Problem problem = PROBLEM_NULL;
    Runtime runtime;

    if (runtime_init(&runtime, NULL, config->oci_runtime, "", &problem) < 0) {
        check_say(check, FINDING_FAIL, "runtime", "install runc or crun, or set the option oci_runtime", "%s",
                  problem.text);
        return;
    }
    if (runtime_is_dated(&runtime))
        check_say(check, FINDING_WARN, "runtime",
                  "install runc 1.2.8, 1.3.3 or newer, or a distribution package with the fixes",
                  "%s %s (%s) lacks the fixes of CVE-2025-31133, CVE-2025-52565 and CVE-2025-52881",
                  runtime.name, runtime.version, runtime.path);
    else
        check_say(check, FINDING_OK, "runtime", NULL, "%s %s (%s)", runtime.name, runtime.version,
                  runtime.path);
    check_userns(check, config, &runtime);
    check_clock(check, &runtime);
    runtime_deinit(&runtime);
}

static void check_image(const Check *check, const EngineConfig *config)
{
    char *rootfs _cleanup_(freep) = NULL;
    Problem problem = PROBLEM_NULL;

    if (image_find(config, "", &rootfs, &problem) < 0)
        check_say(check, FINDING_FAIL, "image", "limpet image build", "%s", problem.text);
    else
        check_say(check, FINDING_OK, "image", NULL, "%s", rootfs);
}

/* Returns whether this is root. */
static bool check_rights(const Check *check)
{
    Problem problem = PROBLEM_NULL;

    if (geteuid() == 0)
        check_say(check, FINDING_OK, "privileges", NULL, "running as root");
    else if (rootless_check(&problem) < 0)
        check_say(check, FINDING_FAIL, "privileges", "or run limpetd as root, or use the engine docker", "%s",
                  problem.text);
    else
        check_say(check, FINDING_OK, "privileges", NULL,
                  "running as uid %u, in a user namespace of your subordinate ids", geteuid());
    return geteuid() == 0;
}

/* EngineOps.check */
static void oci_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                      void *userdata)
{
    Check check = {report, userdata};
    Problem problem = PROBLEM_NULL;
    bool root = check_rights(&check);

    check_runtime(&check, config);
    if (root) {
        check_kernel(&check);
    } else {
        check_say(&check, FINDING_WARN, "limits", "run limpetd as root where code may use up the machine",
                  "memory is limited for the interpreter alone, and cpus is not limited");
        check_filters(&check);
    }
    if (rlimits_check(&problem) < 0)
        check_say(&check, FINDING_FAIL, "core dumps",
                  "start limpetd with a hard limit for core files of at least 1, or with CAP_SYS_RESOURCE",
                  "%s", problem.text);
    check_image(&check, config);
}

/* ---- bundles ---- */

/* The file is there to be mounted over: a runtime would make it in the image where it is missing. */
static bool has_resolver(const char *rootfs)
{
    char path[PATH_MAX];
    struct stat st;

    snprintf(path, sizeof(path), "%s/etc/resolv.conf", rootfs);
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && access("/etc/resolv.conf", R_OK) == 0;
}

static int write_bundle(OciContainer *container, const ContainerSpec *spec, const char *rootfs,
                        const char *data_dir, const char *view)
{
    OciEngine *oci = oci_engine_of(container);
    char cgroup[PATH_MAX], *config _cleanup_(freep) = NULL;
    bool host_network = strcmp(spec->network, "host") == 0;
    char image[PATH_MAX];
    bool mapped = oci->userns.map >= 0 && userns_path(&oci->userns, rootfs, image) == 0;
    OciParams params = {
        .spec = spec,
        .rootfs = mapped ? image : rootfs,
        .userns = mapped,
        .data_dir = data_dir,
        .view = view,
        .cgroup = cgroup,
        .architecture = profile_architecture(),
        .recursive_readonly = oci->runtime.kind != RUNTIME_RUNSC,
        .limits = oci->limits,
        .swap_limit = oci->swap_limit,
        .resolver = host_network && has_resolver(rootfs),
    };
    int r;

    oci_container_cgroup(container, cgroup);
    r = oci_spec_make(&params, &config);
    if (r < 0)
        return r;
    return bundle_write(container->bundle, config);
}

/* Behind what it sees at /data. */
static int describe(OciContainer *container, const ContainerSpec *spec, const char *rootfs, Problem *problem)
{
    const char *runtime_dir = oci_engine_of(container)->config.runtime_dir;
    bool own_kernel = oci_engine_of(container)->runtime.kind == RUNTIME_RUNSC; /* it knows the limits */
    char data[PATH_MAX] = "", view[PATH_MAX] = "";
    int r = spec->data < 0 ? 0 : data_mount(data, runtime_dir, spec->name, spec->data);

    if (r < 0)
        return data_refuse(r, problem);
    if (!own_kernel)
        r = view_make(view, runtime_dir, spec);
    if (r == 0)
        r = write_bundle(container, spec, rootfs, data, view);
    if (r == 0)
        return 0;
    view_remove(runtime_dir, spec->name);
    data_unmount(runtime_dir, spec->name);
    return problem_set(problem, ERR_INTERNAL, "cannot write the container description %s: %s",
                       container->bundle, strerror(-r));
}

static int oci_create(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                      void *userdata, Container **ret, Problem *problem)
{
    OciEngine *oci = container_of(engine, OciEngine, engine);
    char *rootfs _cleanup_(freep) = NULL;
    OciContainer *container;
    int r;

    if (strcmp(spec->network, "none") != 0 && strcmp(spec->network, "host") != 0)
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "the engine oci does not support the network '%s'; use none or host, or the engine docker",
            spec->network);
    r = image_find(&oci->config, spec->image, &rootfs, problem);
    if (r < 0)
        return r;
    container = oci_container_new(oci, spec->name);
    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (oci->limits)
        cgroup_move_expected();
    snprintf(container->network, sizeof(container->network), "%s", spec->network);
    r = describe(container, spec, rootfs, problem);
    if (r < 0) {
        oci_container_free(container);
        return r;
    }
    container->container.events = *events;
    container->container.userdata = userdata;
    oci_container_run(container);
    *ret = &container->container;
    return 0;
}

static int oci_adopt(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events, void *userdata,
                     Container **ret, Problem *problem)
{
    OciContainer *container = oci_container_new(container_of(engine, OciEngine, engine), spec->name);

    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    snprintf(container->network, sizeof(container->network), "%s", spec->network);
    container->container.events = *events;
    container->container.userdata = userdata;
    oci_container_adopt(container);
    *ret = &container->container;
    return 0;
}

static void oci_leave(Container *container)
{
    oci_container_free(container_of(container, OciContainer, container));
}

static int check_attachable(OciContainer *container, Problem *problem)
{
    if (oci_engine_of(container)->runtime.kind == RUNTIME_RUNSC)
        return attach_refuse(problem, "runsc runs the container in its own kernel");
    if (container->stage != OCI_RUNNING || container->removing ||
        !oci_container_has(container, container->first.pid))
        return attach_too_late(problem);
    return 0;
}

static int oci_attach_data(Container *base, int data, const AttachDone *attached, Problem *problem)
{
    OciContainer *container = container_of(base, OciContainer, container);
    int r = check_attachable(container, problem);

    return r < 0 ? r : attach_data(container->first.file.fd, data, true, problem);
}

static int oci_attach_packages(Container *base, const char *name, const AttachDone *attached,
                               Problem *problem)
{
    OciContainer *container = container_of(base, OciContainer, container);
    int r = check_attachable(container, problem);

    return r < 0 ? r
                 : attach_packages(container->first.file.fd, oci_engine_of(container)->config.state_dir, name,
                                   problem);
}

static int oci_memory(Container *base, uint64_t *ret_bytes, uint64_t *ret_oom_kills)
{
    return cgroup_read_memory(&container_of(base, OciContainer, container)->cgroups.memory, ret_bytes,
                              ret_oom_kills);
}

static int oci_time(Container *base, uint64_t *ret_nsec)
{
    return cgroup_read_time(&container_of(base, OciContainer, container)->cgroups.cpuacct, ret_nsec);
}

static int oci_set_idle(Container *base, bool idle)
{
    return cgroup_set_idle(&container_of(base, OciContainer, container)->cgroups.cpu, idle);
}

static ContainerGroups oci_groups(Container *base)
{
    return cgroups_named(&container_of(base, OciContainer, container)->cgroups);
}

/* ---- sweeping: what an earlier process left is adopted to be removed ---- */

static void sweep_one_less(void *userdata)
{
    OciSweep *sweep = userdata;

    if (--sweep->left == 0)
        sweep->done(sweep->userdata, sweep->total);
}

static void on_sweep_idle(LoopIdle *idle)
{
    sweep_one_less(container_of(idle, OciSweep, idle));
}

static bool is_ours(void *userdata, const char *name)
{
    const OciEngine *oci = userdata;
    const OciContainer *container;

    list_foreach (container, &oci->containers, OciContainer, link)
        if (strcmp(container->name, name) == 0)
            return true;
    return false;
}

static void sweep_bundle(OciEngine *oci, const char *name)
{
    OciContainer *container;

    if (*name == '.' || is_ours(oci, name) || !(container = oci_container_new(oci, name)))
        return;
    container->removing = true;
    container->container.events.removed = sweep_one_less;
    container->container.userdata = &oci->sweep;
    oci->sweep.total++;
    oci->sweep.left++;
    oci_container_adopt(container);
}

static void oci_sweep(Engine *engine, void (*done)(void *userdata, unsigned removed), void *userdata)
{
    OciEngine *oci = container_of(engine, OciEngine, engine);
    DIR *bundles = opendir(oci->bundles);
    struct dirent *entry;

    attach_sweep(oci->config.runtime_dir, is_ours, oci);
    oci->sweep = (OciSweep){.left = 1, .done = done, .userdata = userdata};
    while (bundles && (entry = readdir(bundles)))
        sweep_bundle(oci, entry->d_name);
    if (bundles)
        closedir(bundles);
    loop_idle_add(oci->loop, &oci->sweep.idle, on_sweep_idle);
}

/* ---- the engine ---- */

static int make_directories(OciEngine *oci, char *root, size_t size, Problem *problem)
{
    const char *runtime_dir = oci->config.runtime_dir;

    if ((size_t)snprintf(root, size, "%s/oci", runtime_dir) >= size ||
        (size_t)snprintf(oci->bundles, sizeof(oci->bundles), "%s/bundles", runtime_dir) >=
            sizeof(oci->bundles))
        return problem_set(problem, ERR_BAD_REQUEST, "the path of the runtime directory is too long");
    if ((mkdir(root, 0700) < 0 && errno != EEXIST) || (mkdir(oci->bundles, 0700) < 0 && errno != EEXIST))
        return problem_set(problem, ERR_INTERNAL, "cannot create directories in %s: %s", runtime_dir,
                           strerror(errno));
    return 0;
}

/* Without root a sandbox has one in any case: its uid 0 would be the user otherwise. */
static int open_userns(OciEngine *oci, Problem *problem)
{
    Problem reason = PROBLEM_NULL;

    oci->userns = USERNS_NULL;
    if (rootless_entered())
        return userns_open(&oci->userns, &oci->config, &oci->runtime, problem);
    if (strcmp(oci->config.userns, "off") != 0 &&
        userns_open(&oci->userns, &oci->config, &oci->runtime, &reason) < 0)
        log_warn("sandboxes have no user namespace of their own", "reason=%s", reason.text);
    return 0;
}

/* Containers share it, see oci_container_run(): they get none of the keys of whoever started this. A kernel
 * without keys has nothing to share. */
static void join_empty_keyring(void)
{
    syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL);
}

static int oci_open(Loop *loop, const EngineConfig *config, Engine **ret, Problem *problem)
{
    OciEngine *oci _cleanup_(freep) = calloc(1, sizeof(*oci));
    char root[PATH_MAX];
    int r;

    if (!oci)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    oci->engine.ops = &engine_oci;
    oci->loop = loop;
    oci->config = *config;
    list_init(&oci->containers);
    oci->limits = !rootless_entered();
    r = oci_check_host(&oci->swap_limit, problem);
    if (r == 0)
        r = make_directories(oci, root, sizeof(root), problem);
    if (r == 0)
        r = runtime_init(&oci->runtime, loop, config->oci_runtime, root, problem);
    if (r < 0)
        return r;
    oci->runtime.groupless = !oci->limits;
    join_empty_keyring();
    r = open_userns(oci, problem);
    if (r < 0) {
        runtime_deinit(&oci->runtime);
        return r;
    }
    r = container_clock_open(&oci->clock, &oci->runtime);
    if (r < 0)
        log_info("containers have the clock of the machine", "reason=%s", strerror(-r));
    *ret = &take(oci)->engine;
    return 0;
}

static void oci_close(Engine *engine)
{
    OciEngine *oci = container_of(engine, OciEngine, engine);
    loop_idle_remove(&oci->sweep.idle);
    runtime_deinit(&oci->runtime);
    userns_close(&oci->userns);
    container_clock_close(&oci->clock);
    free(oci);
}

/* A limit of the system on processes of one user holds where groups do not: each container has its own users.
 */
static unsigned oci_not_enforced(const Engine *engine)
{
    return container_of(engine, OciEngine, engine)->limits ? 0 : LIMIT_ON_MEMORY | LIMIT_ON_CPUS;
}

static const char *oci_image(Engine *engine, const char *name)
{
    OciEngine *oci = container_of(engine, OciEngine, engine);

    image_resolve(&oci->config, name, oci->image, sizeof(oci->image));
    return oci->image;
}

const EngineOps engine_oci = {
    .name = "oci",
    .isolates = true,
    .peer_is_first_process = true,
    .open = oci_open,
    .close = oci_close,
    .create = oci_create,
    .adopt = oci_adopt,
    .remove = oci_container_remove,
    .leave = oci_leave,
    .attach_data = oci_attach_data,
    .attach_packages = oci_attach_packages,
    .sweep = oci_sweep,
    .memory = oci_memory,
    .time = oci_time,
    .set_idle = oci_set_idle,
    .groups = oci_groups,
    .not_enforced = oci_not_enforced,
    .image = oci_image,
    .check = oci_check,
};
