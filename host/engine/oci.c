/* The engine that runs an OCI runtime itself, with no daemon. */
#include "host/engine/engine.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "host/engine/bundle.h"
#include "host/engine/cgroup.h"
#include "host/engine/image.h"
#include "host/engine/oci_check.h"
#include "host/engine/oci_spec.h"
#include "host/engine/profile.h"
#include "host/engine/runtime.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* A killed container that has not ended by then is left to the runtime. */
#define KILL_SECONDS 5.0

/* A sweep under way; one at a time. */
typedef struct OciSweep {
    LoopIdle idle;
    unsigned total, left;
    void (*done)(void *userdata, unsigned removed);
    void *userdata;
} OciSweep;

typedef struct OciEngine {
    Engine engine;
    Loop *loop;
    EngineConfig config;
    Runtime runtime;
    bool swap_limit;
    char bundles[PATH_MAX]; /* a directory in here exists as long as the runtime may know its container */
    char image[NAME_MAX];
    List containers;
    OciSweep sweep;
} OciEngine;

typedef enum OciStage {
    OCI_STARTING, /* the runtime is at it */
    OCI_RUNNING,
    OCI_ENDED, /* never came up, or is gone */
    OCI_DELETING,
} OciStage;

typedef struct OciContainer {
    Container container;
    List link;
    OciStage stage;
    bool removing;
    char *name;
    char *bundle, *log, *pid_file; /* paths */
    char network[8];
    RuntimeJob job;
    LoopChild first; /* the container's first process */
    LoopTimer timer;
    MemoryCgroup memory;
} OciContainer;

static OciEngine *engine_of(OciContainer *container)
{
    return container_of(container->container.engine, OciEngine, engine);
}

/* Bundles */

static void container_free(OciContainer *container)
{
    list_remove(&container->link);
    loop_child_remove(&container->first);
    loop_timer_cancel(&container->timer);
    memory_cgroup_deinit(&container->memory);
    free(container->name);
    free(container->bundle);
    free(container->log);
    free(container->pid_file);
    free(container);
}

static OciContainer *container_new(OciEngine *oci, const char *name)
{
    OciContainer *container = calloc(1, sizeof(*container));

    if (!container)
        return NULL;
    container->container.engine = &oci->engine;
    list_append(&oci->containers, &container->link);
    container->name = strdup(name);
    if (!container->name || asprintf(&container->bundle, "%s/%s", oci->bundles, name) < 0 ||
        asprintf(&container->log, "%s/log", container->bundle) < 0 ||
        asprintf(&container->pid_file, "%s/pid", container->bundle) < 0) {
        container_free(container);
        return NULL;
    }
    return container;
}

/* The file is there to be mounted over: a runtime would make it in the image where it is missing. */
static bool has_resolver(const char *rootfs)
{
    char path[PATH_MAX];
    struct stat st;

    snprintf(path, sizeof(path), "%s/etc/resolv.conf", rootfs);
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && access("/etc/resolv.conf", R_OK) == 0;
}

static int write_bundle(OciContainer *container, const ContainerSpec *spec, const char *rootfs)
{
    OciEngine *oci = engine_of(container);
    char cgroup[PATH_MAX], *config _cleanup_(freep) = NULL;
    bool host_network = strcmp(spec->network, "host") == 0;
    OciParams params = {
        .spec = spec,
        .rootfs = rootfs,
        .cgroup = cgroup,
        .architecture = profile_architecture(),
        .recursive_readonly = oci->runtime.kind != RUNTIME_RUNSC,
        .swap_limit = oci->swap_limit,
        .resolver = host_network && has_resolver(rootfs),
    };
    int r;

    snprintf(cgroup, sizeof(cgroup), "/limpet-%s/%s", oci->config.owner, container->name);
    r = oci_spec_make(&params, &config);
    if (r < 0)
        return r;
    return bundle_write(container->bundle, config);
}

/* Removing: kill, wait for the end, have the runtime delete what it knows. */

static void on_deleted(RuntimeJob *job, int status)
{
    OciContainer *container = container_of(job, OciContainer, job);
    ContainerEvents events = container->container.events;
    void *userdata = container->container.userdata;
    char cgroup[PATH_MAX], message[512];

    snprintf(cgroup, sizeof(cgroup), "/limpet-%s/%s", engine_of(container)->config.owner, container->name);
    cgroup_remove(cgroup);
    if (status == 0) {
        bundle_remove(container->bundle);
    } else { /* the bundle stays, for a later sweep to try again */
        runtime_log_message(container->log, message, sizeof(message));
        log_warn("container not deleted", "container=%s status=%d reason=%s", container->name, status,
                 message);
    }
    container_free(container);
    events.removed(userdata);
}

static void delete (OciContainer *container)
{
    OciEngine *oci = engine_of(container);

    container->stage = OCI_DELETING;
    loop_timer_cancel(&container->timer);
    runtime_job_init(&container->job, &oci->runtime, container->log, container->network);
    runtime_job_add(&container->job, "delete");
    runtime_job_add(&container->job, "--force");
    runtime_job_add(&container->job, container->name);
    runtime_job_start(&container->job, on_deleted);
}

static void on_kill_due(LoopTimer *timer)
{
    delete (container_of(timer, OciContainer, timer));
}

static void oci_remove(Container *base)
{
    OciContainer *container = container_of(base, OciContainer, container);
    OciEngine *oci = engine_of(container);

    if (container->removing)
        return;
    container->removing = true;
    if (container->stage == OCI_STARTING)
        return; /* goes on when the runtime is done */
    if (container->stage == OCI_RUNNING &&
        pidfd_send_signal(container->first.file.fd, SIGKILL, NULL, 0) == 0 &&
        loop_timer_set(oci->loop, &container->timer, clock_now() + clock_from_seconds(KILL_SECONDS),
                       on_kill_due) == 0)
        return; /* goes on when it has ended */
    delete (container);
}

/* Running */

static void describe_end(const OciContainer *container, int status, char *ret, size_t size)
{
    uint64_t bytes, kills;

    if (memory_cgroup_read(&container->memory, &bytes, &kills) == 0 && kills > 0)
        snprintf(ret, size,
                 "the container's first process ended; the kernel killed %llu of its processes for want "
                 "of memory",
                 (unsigned long long)kills);
    else if (status >= 0 && WIFSIGNALED(status))
        snprintf(ret, size, "the container's first process was killed by signal %d", WTERMSIG(status));
    else if (status >= 0)
        snprintf(ret, size, "the container's first process ended with exit code %d", WEXITSTATUS(status));
    else
        snprintf(ret, size, "the container's first process ended");
}

static void on_first_exit(LoopChild *child, int status)
{
    OciContainer *container = container_of(child, OciContainer, first);
    Container *base = &container->container;
    char why[160];

    if (container->stage == OCI_DELETING)
        return;
    container->stage = OCI_ENDED;
    if (container->removing) {
        delete (container);
        return;
    }
    describe_end(container, status, why, sizeof(why));
    base->events.gone(base, base->userdata, why);
}

static void fail(OciContainer *container, int status)
{
    Container *base = &container->container;
    const char *runtime = engine_of(container)->runtime.name;
    Problem problem = PROBLEM_NULL;
    char message[512];

    runtime_log_message(container->log, message, sizeof(message));
    if (*message)
        problem_set(&problem, ERR_ENGINE_ERROR, "%s: %s", runtime, message);
    else if (status < 0)
        problem_set(&problem, ERR_ENGINE_ERROR, "%s could not be started: %s", runtime, strerror(-status));
    else if (WIFSIGNALED(status))
        problem_set(&problem, ERR_ENGINE_ERROR, "%s was killed by signal %d while it started the container",
                    runtime, WTERMSIG(status));
    else
        problem_set(&problem, ERR_ENGINE_ERROR, "%s ended with status %d without saying why", runtime,
                    WEXITSTATUS(status));
    container->stage = OCI_ENDED;
    base->events.failed(base, base->userdata, &problem);
}

static void on_run(RuntimeJob *job, int status)
{
    OciContainer *container = container_of(job, OciContainer, job);
    OciEngine *oci = engine_of(container);
    Container *base = &container->container;
    pid_t pid = 0;
    int r = 0;

    if (container->removing) {
        delete (container);
        return;
    }
    if (status == 0)
        r = bundle_read_pid(container->pid_file, &pid);
    if (status == 0 && r == 0)
        r = loop_child_add(oci->loop, &container->first, pid, on_first_exit);
    if (status != 0 || r < 0) {
        fail(container, status != 0 ? status : r);
        return;
    }
    memory_cgroup_init(&container->memory, pid);
    container->stage = OCI_RUNNING;
    base->events.started(base, base->userdata, oci->runtime.kind == RUNTIME_RUNSC ? 0 : pid);
}

static void run(OciContainer *container)
{
    RuntimeJob *job = &container->job;

    runtime_job_init(job, &engine_of(container)->runtime, container->log, container->network);
    runtime_job_add(job, "run");
    runtime_job_add(job, "--detach");
    runtime_job_add(job, "--bundle");
    runtime_job_add(job, container->bundle);
    runtime_job_add(job, "--pid-file");
    runtime_job_add(job, container->pid_file);
    runtime_job_add(job, container->name);
    runtime_job_start(job, on_run);
}

static int oci_create(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                      void *userdata, Container **ret, Problem *problem)
{
    OciEngine *oci = container_of(engine, OciEngine, engine);
    char *rootfs _cleanup_(freep) = NULL;
    OciContainer *container;
    int r;

    if (strcmp(spec->network, "none") != 0 && strcmp(spec->network, "host") != 0)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "the engine oci has no network '%s'; use none or host, or the engine docker",
                           spec->network);
    r = image_find(&oci->config, spec->image, &rootfs, problem);
    if (r < 0)
        return r;
    container = container_new(oci, spec->name);
    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    snprintf(container->network, sizeof(container->network), "%s", spec->network);
    r = write_bundle(container, spec, rootfs);
    if (r < 0) {
        problem_set(problem, ERR_INTERNAL, "cannot write the container's description %s: %s",
                    container->bundle, strerror(-r));
        container_free(container);
        return r;
    }
    container->container.events = *events;
    container->container.userdata = userdata;
    run(container);
    *ret = &container->container;
    return 0;
}

static int oci_memory(Container *base, uint64_t *ret_bytes, uint64_t *ret_oom_kills)
{
    return memory_cgroup_read(&container_of(base, OciContainer, container)->memory, ret_bytes, ret_oom_kills);
}

/* Sweeping: what an earlier process left is removed like a container of our own. */

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

static bool is_ours(OciEngine *oci, const char *name)
{
    OciContainer *container;

    list_foreach (container, &oci->containers, OciContainer, link)
        if (strcmp(container->name, name) == 0)
            return true;
    return false;
}

static void sweep_bundle(OciEngine *oci, const char *name)
{
    OciContainer *container;

    if (*name == '.' || is_ours(oci, name) || !(container = container_new(oci, name)))
        return;
    container->stage = OCI_ENDED;
    container->container.events.removed = sweep_one_less;
    container->container.userdata = &oci->sweep;
    oci->sweep.total++;
    oci->sweep.left++;
    oci_remove(&container->container);
}

static void oci_sweep(Engine *engine, void (*done)(void *userdata, unsigned removed), void *userdata)
{
    OciEngine *oci = container_of(engine, OciEngine, engine);
    DIR *bundles = opendir(oci->bundles);
    struct dirent *entry;

    oci->sweep = (OciSweep){.left = 1, .done = done, .userdata = userdata};
    while (bundles && (entry = readdir(bundles)))
        sweep_bundle(oci, entry->d_name);
    if (bundles)
        closedir(bundles);
    loop_idle_add(oci->loop, &oci->sweep.idle, on_sweep_idle);
}

/* The engine */

static int make_directories(OciEngine *oci, char *root, size_t size, Problem *problem)
{
    const char *runtime_dir = oci->config.runtime_dir;

    if ((size_t)snprintf(root, size, "%s/oci", runtime_dir) >= size ||
        (size_t)snprintf(oci->bundles, sizeof(oci->bundles), "%s/bundles", runtime_dir) >=
            sizeof(oci->bundles))
        return problem_set(problem, ERR_BAD_REQUEST, "the path of the runtime directory is too long");
    if ((mkdir(root, 0700) < 0 && errno != EEXIST) || (mkdir(oci->bundles, 0700) < 0 && errno != EEXIST))
        return problem_set(problem, ERR_INTERNAL, "cannot make directories in %s: %s", runtime_dir,
                           strerror(errno));
    return 0;
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
    r = oci_check_host(&oci->swap_limit, problem);
    if (r == 0)
        r = make_directories(oci, root, sizeof(root), problem);
    if (r == 0)
        r = runtime_init(&oci->runtime, loop, config->oci_runtime, root, problem);
    if (r < 0)
        return r;
    *ret = &take(oci)->engine;
    return 0;
}

static void oci_close(Engine *engine)
{
    OciEngine *oci = container_of(engine, OciEngine, engine);
    char cgroup[PATH_MAX];

    snprintf(cgroup, sizeof(cgroup), "/limpet-%s", oci->config.owner);
    cgroup_remove(cgroup);
    loop_idle_remove(&oci->sweep.idle);
    runtime_deinit(&oci->runtime);
    free(oci);
}

static const char *oci_default_image(Engine *engine)
{
    OciEngine *oci = container_of(engine, OciEngine, engine);

    image_default(&oci->config, oci->image, sizeof(oci->image));
    return oci->image;
}

const EngineOps engine_oci = {
    .name = "oci",
    .isolates = true,
    .peer_is_first_process = true,
    .open = oci_open,
    .close = oci_close,
    .create = oci_create,
    .remove = oci_remove,
    .sweep = oci_sweep,
    .memory = oci_memory,
    .default_image = oci_default_image,
    .check = oci_check,
};
