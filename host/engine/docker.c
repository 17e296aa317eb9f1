/* The engine that asks a Docker Engine. Never exec, cp, logs or attach: those let a hostile container at the
 * daemon. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>

#include "host/engine/attach.h"
#include "host/engine/check.h"
#include "host/engine/docker_container.h"
#include "host/engine/docker_http.h"
#include "host/engine/docker_json.h"
#include "host/engine/engine.h"
#include "host/engine/view.h"
#include "proto/base/log.h"

#define DOCKER_REPOSITORY    "limpet" /* of our images */
#define DOCKER_DEFAULT_IMAGE "default"

#define CALL_SECONDS 20.0

static int negotiate(const EngineConfig *config, unsigned *ret_minor, Problem *problem)
{
    char version[16];
    int r = docker_http_negotiate(config->docker_socket, version, ret_minor);

    if (r == -EPROTONOSUPPORT)
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "the Docker Engine on %s speaks API %s; Limpet needs 1.%u or newer (Docker 19.03)",
                           config->docker_socket, version, DOCKER_API_LEAST);
    if (r < 0)
        return problem_set(
            problem, ERR_ENGINE_ERROR,
            "no Docker Engine answers on %s; start it (systemctl start docker), give this user access to the "
            "socket, or set the option docker_socket or engine",
            config->docker_socket);
    return 0;
}

static int ask_info(const EngineConfig *config, unsigned minor, DockerInfo *ret, Problem *problem)
{
    char path[32], message[256];
    Buf body = BUF_NULL;
    long status;
    int r = 0;

    snprintf(path, sizeof(path), "/v1.%u/info", minor);
    status = docker_http_get(config->docker_socket, path, CALL_SECONDS, &body, NULL);
    if (status != 200 || docker_json_info((const char *)buf_head(&body), body.size, ret) < 0) {
        docker_json_message((const char *)buf_head(&body), body.size, message, sizeof(message));
        r = problem_set(problem, ERR_ENGINE_ERROR, "docker: GET /info: %s",
                        status < 0 ? strerror((int)-status) : message);
    }
    buf_deinit(&body);
    return r;
}

/* Settles the API version, 1.*ret_minor. ENGINE_ERROR in problem when there is no engine, when no version is
 * common to both, or when it could not enforce what a container is promised. */
static int docker_connect(const EngineConfig *config, unsigned *ret_minor, Problem *problem)
{
    DockerInfo info = {0};
    int r = negotiate(config, ret_minor, problem);

    if (r == 0)
        r = ask_info(config, *ret_minor, &info, problem);
    if (r < 0)
        return r;
    if (!info.seccomp || !info.memory_limit || !info.pids_limit)
        return problem_set(
            problem, ERR_ENGINE_ERROR,
            "the Docker Engine on %s cannot %s, so its containers would not isolate as they must; "
            "see limpetd --check",
            config->docker_socket,
            !info.seccomp        ? "filter system calls"
            : !info.memory_limit ? "limit memory"
                                 : "limit processes");
    return 0;
}

static bool is_dated(const char *version)
{
    unsigned major, minor, patch;

    if (sscanf(version, "%u.%u.%u", &major, &minor, &patch) != 3)
        return false;
    return major < 29 || (major == 29 && (minor < 5 || (minor == 5 && patch < 1)));
}

static void check_info(const Check *check, const DockerInfo *info)
{
    if (is_dated(info->version))
        check_say(check, FINDING_WARN, "version",
                  "update to 29.5.1 or newer, or to a distribution package with the fixes",
                  "Docker Engine %s lacks the fixes of CVE-2026-41567 and related problems", info->version);
    else
        check_say(check, FINDING_OK, "version", NULL, "Docker Engine %s", info->version);
    check_say(check, FINDING_OK, "cgroups", NULL, "version %s, driver %s", info->cgroup_version,
              info->cgroup_driver);
    if (!info->memory_limit || !info->pids_limit)
        check_say(check, FINDING_FAIL, "cgroups", "enable the memory and pids controllers for the engine",
                  "the engine cannot limit %s", info->memory_limit ? "processes" : "memory");
    if (!info->swap_limit)
        check_say(check, FINDING_WARN, "cgroups", "boot with swapaccount=1, or turn swap off",
                  "swap is not counted: a container may use swap on top of its memory");
    if (info->seccomp)
        check_say(check, FINDING_OK, "seccomp", NULL, "the engine filters system calls");
    else
        check_say(check, FINDING_FAIL, "seccomp", "use an engine and a kernel with seccomp",
                  "the engine cannot filter system calls");
    if (info->live_restore)
        check_say(check, FINDING_OK, "live restore", NULL, "sessions outlive a restart of the engine");
    else
        check_say(check, FINDING_WARN, "live restore",
                  "set \"live-restore\": true in /etc/docker/daemon.json",
                  "a restart of the engine ends every session");
}

/* Writes the name of an image as the Docker Engine knows it: ours are tags of DOCKER_REPOSITORY, and named by
 * the tag alone everywhere in Limpet; a name with a colon, slash or at sign is the Docker Engine's own. */
static void docker_image_reference(char *ret, size_t size, const char *image)
{
    snprintf(ret, size, "%s%s", strpbrk(image, ":/@") ? "" : DOCKER_REPOSITORY ":", image);
}

static void check_image(const Check *check, const EngineConfig *config, unsigned minor)
{
    const char *image = *config->image ? config->image : DOCKER_DEFAULT_IMAGE;
    char path[512], reference[256];
    Buf body = BUF_NULL;
    long status;

    docker_image_reference(reference, sizeof(reference), image);
    snprintf(path, sizeof(path), "/v1.%u/images/%s/json", minor, reference);
    status = docker_http_get(config->docker_socket, path, CALL_SECONDS, &body, NULL);
    buf_deinit(&body);
    if (status == 200)
        check_say(check, FINDING_OK, "image", NULL, "%s", reference);
    else
        check_say(check, FINDING_FAIL, "image", "limpet image build", "the engine has no image %s",
                  reference);
}

/* EngineOps.check */
static void docker_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                         void *userdata)
{
    Check check = {report, userdata};
    Problem problem = PROBLEM_NULL;
    DockerInfo info = {0};
    unsigned minor = 0;

    if (negotiate(config, &minor, &problem) < 0) {
        check_say(&check, FINDING_FAIL, "socket", "start the Docker Engine, or use the engine oci", "%s",
                  problem.text);
        return;
    }
    check_say(&check, FINDING_OK, "socket", NULL, "%s answers; API 1.%u", config->docker_socket, minor);
    if (ask_info(config, minor, &info, &problem) < 0)
        check_say(&check, FINDING_FAIL, "engine", "see the log of the engine", "%s", problem.text);
    else
        check_info(&check, &info);
    check_scheduling(&check);
    check_image(&check, config, minor);
}

static bool image_is_valid(const char *image)
{
    if (!isalnum((unsigned char)*image) || strlen(image) >= DOCKER_NAME_SIZE)
        return false;
    for (; *image; image++)
        if (!isalnum((unsigned char)*image) && !strchr("._:/@-", *image))
            return false;
    return true;
}

/* Names are the daemon's tags, which are not asked for. */
static const char *docker_image(Engine *engine, const char *name)
{
    const char *configured = container_of(engine, DockerEngine, engine)->config.image;

    return *name ? name : *configured ? configured : DOCKER_DEFAULT_IMAGE;
}

static int docker_create(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                         void *userdata, Container **ret, Problem *problem)
{
    DockerEngine *docker = container_of(engine, DockerEngine, engine);
    const char *image = docker_image(engine, spec->image);
    char *body _cleanup_(freep) = NULL, data[PATH_MAX] = "", view[PATH_MAX];
    char reference[DOCKER_NAME_SIZE + sizeof(DOCKER_REPOSITORY)];
    DockerContainer *container;
    int r;

    if (!image_is_valid(image))
        return problem_set(problem, ERR_BAD_REQUEST, "'%s' is not a valid image name", image);
    docker_image_reference(reference, sizeof(reference), image);
    if (spec->data >= 0 && (r = data_mount(data, docker->config.runtime_dir, spec->name, spec->data)) < 0)
        return data_refuse(r, problem);
    r = view_make(view, docker->config.runtime_dir, spec);
    if (r < 0) {
        data_unmount(docker->config.runtime_dir, spec->name);
        return problem_set(problem, ERR_INTERNAL, "cannot write files in %s: %s", docker->config.runtime_dir,
                           strerror(-r));
    }
    r = docker_json_create(spec, reference, data, view, docker->api_minor, &body);
    container =
        r == 0 ? docker_container_new(docker, spec->name, spec->session_dir, spec->scratch_dir) : NULL;
    if (!container) {
        view_remove(docker->config.runtime_dir, spec->name);
        data_unmount(docker->config.runtime_dir, spec->name);
        return problem_set(problem, ERR_INTERNAL, "out of memory, or a path that is not UTF-8");
    }
    container->container.events = *events;
    container->container.userdata = userdata;
    if (docker_container_start(container, body) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    *ret = &container->container;
    return 0;
}

static int docker_adopt(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                        void *userdata, Container **ret, Problem *problem)
{
    DockerContainer *container = docker_container_new(container_of(engine, DockerEngine, engine), spec->name,
                                                      spec->session_dir, spec->scratch_dir);

    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    container->container.events = *events;
    container->container.userdata = userdata;
    if (docker_container_adopt(container) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    *ret = &container->container;
    return 0;
}

#define SCOPE_SIZE (sizeof(((DockerState *)NULL)->id) + sizeof("docker-.scope"))

/* Returns the name of the control group of a container where the daemon leaves these to systemd; otherwise
 * the container's id is the name. */
static const char *scope_of(const DockerState *state, char ret[static SCOPE_SIZE])
{
    snprintf(ret, SCOPE_SIZE, "docker-%s.scope", state->id);
    return ret;
}

/* Returns whether the process is in the control group that the daemon made for the container. */
static bool is_in_container(const DockerState *state)
{
    char scope[SCOPE_SIZE];

    return *state->id && (cgroup_has_process(state->id, state->pid) ||
                          cgroup_has_process(scope_of(state, scope), state->pid));
}

/* The daemon may be on another machine, where its pids mean nothing here, and a pid may have been given to
 * another process since. */
static int docker_attach_data(Container *base, int data, const AttachDone *attached, Problem *problem)
{
    DockerContainer *container = container_of(base, DockerContainer, container);
    bool recursive =
        container_of(base->engine, DockerEngine, engine)->api_minor >= DOCKER_API_RECURSIVE_READONLY;
    int process _cleanup_(closep) = pidfd_open(container->state.pid, 0);

    if (process < 0 || !is_in_container(&container->state))
        return attach_refuse(problem, "its first process is not on this host");
    return attach_data(process, data, recursive, problem);
}

static int docker_attach_packages(Container *base, const char *name, const AttachDone *attached,
                                  Problem *problem)
{
    DockerContainer *container = container_of(base, DockerContainer, container);
    int process _cleanup_(closep) = pidfd_open(container->state.pid, 0);

    if (process < 0 || !is_in_container(&container->state))
        return attach_refuse(problem, "its first process is not on this host");
    return attach_packages(process, container_of(base->engine, DockerEngine, engine)->config.state_dir, name,
                           problem);
}

static int docker_memory(Container *base, uint64_t *ret_bytes, uint64_t *ret_oom_kills)
{
    return cgroup_read_memory(&container_of(base, DockerContainer, container)->cgroups.memory, ret_bytes,
                              ret_oom_kills);
}

static int docker_time(Container *base, uint64_t *ret_nsec)
{
    return cgroup_read_time(&container_of(base, DockerContainer, container)->cgroups.cpuacct, ret_nsec);
}

/* Only what is known to be the container's may be set: see docker_attach_data. */
static bool owns_group(const DockerContainer *container, const Cgroup *cpu)
{
    char scope[SCOPE_SIZE];

    return *container->state.id && (cgroup_is_called(cpu, container->state.id) ||
                                    cgroup_is_called(cpu, scope_of(&container->state, scope)));
}

static int docker_set_idle(Container *base, bool idle)
{
    DockerContainer *container = container_of(base, DockerContainer, container);
    const Cgroup *cpu = &container->cgroups.cpu;

    return owns_group(container, cpu) ? cgroup_set_idle(cpu, idle) : -ESRCH;
}

static ContainerGroups docker_groups(Container *base)
{
    DockerContainer *container = container_of(base, DockerContainer, container);
    ContainerGroups groups = cgroups_named(&container->cgroups);

    if (!owns_group(container, &container->cgroups.cpu))
        groups.idle = NULL;
    return groups;
}

/* ---- sweeping: what an earlier process left is removed like a container of our own ---- */

static void sweep_one_less(void *userdata)
{
    DockerSweep *sweep = userdata;

    if (--sweep->left == 0)
        sweep->done(sweep->userdata, sweep->total);
}

static void on_sweep_idle(LoopIdle *idle)
{
    sweep_one_less(container_of(idle, DockerSweep, idle));
}

static bool is_ours(void *userdata, const char *name)
{
    const DockerEngine *docker = userdata;
    DockerContainer *container;

    list_foreach (container, &docker->containers, DockerContainer, link)
        if (strcmp(container->name, name) == 0)
            return true;
    return false;
}

/* Only what is below the state directory can be a mount of ours. */
static const char *own_directory(DockerEngine *docker, const char *directory)
{
    size_t length = strlen(docker->config.state_dir);

    return directory && strncmp(directory, docker->config.state_dir, length) == 0 && directory[length] == '/'
               ? directory
               : NULL;
}

static void sweep_found(void *userdata, const char *name, const char *session_dir, const char *tmp_dir)
{
    DockerEngine *docker = userdata;
    char scratch_dir[PATH_MAX] = "", *last;
    DockerContainer *container;

    if (strlen(name) >= DOCKER_NAME_SIZE || is_ours(docker, name))
        return;
    snprintf(scratch_dir, sizeof(scratch_dir), "%s", tmp_dir ? tmp_dir : "");
    last = strrchr(scratch_dir, '/');
    if (last)
        *last = '\0';
    container = docker_container_new(docker, name, own_directory(docker, session_dir),
                                     own_directory(docker, scratch_dir));
    if (!container)
        return;
    container->made = true;
    container->container.events.removed = sweep_one_less;
    container->container.userdata = &docker->sweep;
    docker->sweep.total++;
    docker->sweep.left++;
    docker_container_remove(&container->container);
}

static void on_listed(void *userdata, const DockerReply *reply)
{
    DockerEngine *docker = userdata;
    Problem problem = PROBLEM_NULL;

    docker->sweep.call = NULL;
    if (reply->status != 200 || docker_json_list(reply->body, reply->size, sweep_found, docker) < 0) {
        docker_explain(docker, reply, &problem);
        log_warn("containers not listed", "reason=%s", problem.text);
    }
    sweep_one_less(&docker->sweep);
}

static void docker_sweep(Engine *engine, void (*done)(void *userdata, unsigned removed), void *userdata)
{
    DockerEngine *docker = container_of(engine, DockerEngine, engine);
    char path[DOCKER_PATH_SIZE];

    attach_sweep(docker->config.runtime_dir, is_ours, docker);
    docker->sweep = (DockerSweep){.left = 1, .done = done, .userdata = userdata};
    /* filters={"label":["limpet.owner=OWNER"]} */
    snprintf(
        path, sizeof(path),
        "/v1.%u/containers/json?all=true&filters=%%7B%%22label%%22%%3A%%5B%%22limpet.owner%%3D%s%%22%%5D%%7D",
        docker->api_minor, docker->config.owner);
    if (docker_http_start(docker->http, "GET", path, NULL, DOCKER_CALL_SECONDS, on_listed, docker,
                          &docker->sweep.call) < 0)
        loop_idle_add(docker->loop, &docker->sweep.idle, on_sweep_idle);
}

/* ---- the engine ---- */

static int docker_open(Loop *loop, const EngineConfig *config, Engine **ret, Problem *problem)
{
    DockerEngine *docker _cleanup_(freep) = calloc(1, sizeof(*docker));
    int r;

    if (!docker)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    docker->engine.ops = &engine_docker;
    docker->loop = loop;
    docker->config = *config;
    list_init(&docker->containers);
    r = docker_connect(config, &docker->api_minor, problem);
    if (r < 0)
        return r;
    if (docker_http_new(loop, config->docker_socket, &docker->http) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    *ret = &take(docker)->engine;
    return 0;
}

static void docker_close(Engine *engine)
{
    DockerEngine *docker = container_of(engine, DockerEngine, engine);

    docker_http_free(docker->http);
    loop_idle_remove(&docker->sweep.idle);
    free(docker);
}

const EngineOps engine_docker = {
    .name = "docker",
    .isolates = true,
    .peer_is_first_process = true,
    .open = docker_open,
    .close = docker_close,
    .create = docker_create,
    .adopt = docker_adopt,
    .remove = docker_container_remove,
    .leave = docker_container_leave,
    .attach_data = docker_attach_data,
    .attach_packages = docker_attach_packages,
    .sweep = docker_sweep,
    .memory = docker_memory,
    .time = docker_time,
    .set_idle = docker_set_idle,
    .groups = docker_groups,
    .image = docker_image,
    .check = docker_check,
};
