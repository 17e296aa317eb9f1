/* The engine for a controller in a pod: another container of the pod runs the one guest there is, and
 * somebody else, such as a kubelet, starts that container and has mounted the places of the session in it.
 * The guest waits until CURRENT in the directory of links leads to the directory of its session. There it
 * opens ALIVE, a pipe that nobody writes to: whoever holds the other end is told by the kernel when the guest
 * is gone, and a controller that takes over finds out whether it still lives. Where ENDED is, no session
 * comes any more: a guest that starts then ends by itself, as a signal that reaches process 1 too early is
 * lost. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "host/engine/attach.h"
#include "host/engine/check.h"
#include "host/engine/engine.h"
#include "host/engine/proof.h"
#include "proto/base/base.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define CURRENT ".current"
#define ENDED   ".ended"
#define ALIVE   "alive"

#define GUEST_GONE "the container of the guest has ended"

#define LOOK_NSEC (20 * NSEC_PER_MSEC)

static void say_reached(const Proof *proof, Problem *problem)
{
    problem_set(problem, ERR_ENGINE_ERROR,
                "this pod can connect to %s, so the network of its session would not be 'none': set a "
                "NetworkPolicy without egress that the cluster enforces, or network_proof = trust",
                proof->address);
}

typedef struct PodEngine {
    Engine engine;
    Loop *loop;
    EngineConfig config;
    Proof proof; /* goes on while guests start */
    LoopTimer prove;
    LoopIdle sweep_idle;
    void (*sweep_done)(void *userdata, unsigned removed);
    void *sweep_userdata;
    char ended[PATH_MAX]; /* path of ENDED; empty: no guest was shown a session */
} PodEngine;

typedef struct PodContainer {
    Container container;
    char alive[PATH_MAX], current[PATH_MAX];
    LoopFile file;  /* our end of the pipe, from when the guest is there */
    LoopTimer look; /* for the guest, and at the network */
    bool started, lost;
    LoopIdle idle; /* tells of what was found, or of the removal */
} PodContainer;

static PodEngine *engine_of(const PodContainer *container)
{
    return container_of(container->container.engine, PodEngine, engine);
}

static void container_free(PodContainer *container)
{
    loop_timer_cancel(&container->look);
    loop_idle_remove(&container->idle);
    if (container->file.loop)
        loop_file_remove(&container->file);
    close_fd(&container->file.fd);
    free(container);
}

/* ---- the guest ---- */

static void on_guest_gone(LoopFile *file, uint32_t events)
{
    PodContainer *container = container_of(file, PodContainer, file);
    Container *base = &container->container;

    loop_file_remove(file);
    container->lost = true;
    if (container->started)
        base->events.gone(base, base->userdata, GUEST_GONE);
}

/* Returns whether the guest is there. */
static bool meet_guest(PodContainer *container)
{
    int fd = open(container->alive, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);

    if (fd < 0)
        return false;
    container->file.fd = fd;
    return loop_file_add(engine_of(container)->loop, &container->file, fd, 0, on_guest_gone) == 0;
}

static void fail(PodContainer *container, const Problem *problem)
{
    container->container.events.failed(&container->container, container->container.userdata, problem);
}

/* Code runs once the guest is there and nothing is reached. */
static void on_look_due(LoopTimer *timer)
{
    PodContainer *container = container_of(timer, PodContainer, look);
    PodEngine *pod = engine_of(container);
    Container *base = &container->container;
    bool there = container->file.loop || container->lost || meet_guest(container);
    Problem problem = PROBLEM_NULL;

    if (proof_look(&pod->proof) == REACH_SOMETHING) {
        say_reached(&pod->proof, &problem);
        fail(container, &problem);
    } else if (container->lost) {
        problem_set(&problem, ERR_ENGINE_ERROR, GUEST_GONE);
        fail(container, &problem);
    } else if (there && pod->proof.reach == REACH_NOTHING) {
        container->started = true;
        base->events.started(base, base->userdata, 0);
    } else {
        loop_timer_set(pod->loop, timer, clock_now() + LOOK_NSEC, on_look_due);
    }
}

/* ---- making ---- */

static int container_new(PodContainer **ret, PodEngine *pod, const ContainerSpec *spec,
                         const ContainerEvents *events, void *userdata, Problem *problem)
{
    const int parent = (int)(strrchr(spec->link_dir, '/') - spec->link_dir);
    PodContainer *container = calloc(1, sizeof(*container));

    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    container->container = (Container){.engine = &pod->engine, .events = *events, .userdata = userdata};
    container->file.fd = -1;
    snprintf(container->alive, PATH_MAX, "%s/" ALIVE, spec->link_dir);
    snprintf(container->current, PATH_MAX, "%.*s/" CURRENT, parent, spec->link_dir);
    snprintf(pod->ended, PATH_MAX, "%.*s/" ENDED, parent, spec->link_dir);
    unlink(pod->ended);
    *ret = container;
    return 0;
}

/* Refuses what was settled with the pod, or what none has. */
static int check_spec(const PodEngine *pod, const ContainerSpec *spec, Problem *problem)
{
    const EngineConfig *config = &pod->config;

    if (spec->memory != config->memory || spec->cpus != config->cpus)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "memory and cpus of a session in a pod are those of the pod: %llu bytes and %g; "
                           "leave them out, or use a pod that has what you need",
                           (unsigned long long)config->memory, config->cpus);
    if (strcmp(spec->image, config->image) != 0)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "the image of a session in a pod is that of the pod; leave image out");
    if (strcmp(spec->network, "none") != 0)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a session in a pod has the network 'none'; leave network out");
    if (spec->data >= 0)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a session in a pod has no data directory; use put to bring files along");
    return 0;
}

/* CURRENT is relative, as the guest has the directory at another path. */
static int show_to_guest(const PodContainer *container, const ContainerSpec *spec, Problem *problem)
{
    if (mkfifo(container->alive, 0400) == 0 && (unlink(container->current) == 0 || errno == ENOENT) &&
        symlink(strrchr(spec->link_dir, '/') + 1, container->current) == 0)
        return 0;
    return problem_set(problem, ERR_ENGINE_ERROR, "cannot show the guest its session in %s: %s",
                       spec->link_dir, strerror(errno));
}

static int pod_create(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                      void *userdata, Container **ret, Problem *problem)
{
    PodEngine *pod = container_of(engine, PodEngine, engine);
    PodContainer *container = NULL;
    int r = check_spec(pod, spec, problem);

    if (r == 0)
        r = container_new(&container, pod, spec, events, userdata, problem);
    if (!container)
        return r;
    r = show_to_guest(container, spec, problem);
    if (r < 0) {
        container_free(container);
        return r;
    }
    loop_timer_set(pod->loop, &container->look, clock_now(), on_look_due);
    *ret = &container->container;
    return 0;
}

static int pod_adopt(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events, void *userdata,
                     Container **ret, Problem *problem)
{
    PodEngine *pod = container_of(engine, PodEngine, engine);
    PodContainer *container = NULL;
    int r = container_new(&container, pod, spec, events, userdata, problem);

    if (!container)
        return r;
    container->lost = !meet_guest(container);
    loop_timer_set(pod->loop, &container->look, clock_now(), on_look_due);
    *ret = &container->container;
    return 0;
}

/* ---- its end ---- */

static void on_removed_idle(LoopIdle *idle)
{
    PodContainer *container = container_of(idle, PodContainer, idle);
    ContainerEvents events = container->container.events;
    void *userdata = container->container.userdata;

    container_free(container);
    events.removed(userdata);
}

/* Whoever runs the guest ends it, together with the pod. */
static void pod_remove(Container *base)
{
    PodContainer *container = container_of(base, PodContainer, container);

    loop_timer_cancel(&container->look);
    loop_idle_remove(&container->idle);
    if (container->file.loop)
        loop_file_remove(&container->file);
    unlink(container->current);
    unlink(container->alive);
    loop_idle_add(engine_of(container)->loop, &container->idle, on_removed_idle);
}

static void pod_leave(Container *base)
{
    container_free(container_of(base, PodContainer, container));
}

static void on_sweep_idle(LoopIdle *idle)
{
    PodEngine *pod = container_of(idle, PodEngine, sweep_idle);

    pod->sweep_done(pod->sweep_userdata, 0);
}

static void pod_sweep(Engine *engine, void (*done)(void *userdata, unsigned removed), void *userdata)
{
    PodEngine *pod = container_of(engine, PodEngine, engine);

    pod->sweep_done = done;
    pod->sweep_userdata = userdata;
    loop_idle_add(pod->loop, &pod->sweep_idle, on_sweep_idle);
}

/* ---- what a controller cannot do to another container ---- */

static int pod_attach_data(Container *base, int data, const AttachDone *attached, Problem *problem)
{
    return attach_refuse(problem, "it is another one of the pod");
}

static int pod_attach_packages(Container *base, const char *name, const AttachDone *attached,
                               Problem *problem)
{
    return problem_set(problem, ERR_ENGINE_ERROR,
                       "a session in a pod has the packages of its image; build an image with them");
}

static int pod_memory(Container *base, uint64_t *ret_bytes, uint64_t *ret_oom_kills)
{
    return -EOPNOTSUPP;
}

static int pod_time(Container *base, uint64_t *ret_nsec)
{
    return -EOPNOTSUPP;
}

static int pod_set_idle(Container *base, bool idle)
{
    return -EOPNOTSUPP;
}

static ContainerGroups pod_groups(Container *base)
{
    return (ContainerGroups){0};
}

static unsigned pod_not_enforced(const Engine *engine)
{
    return LIMIT_ON_PIDS;
}

static const char *pod_image(Engine *engine, const char *name)
{
    return name;
}

/* ---- the engine ---- */

static void on_prove_due(LoopTimer *timer)
{
    PodEngine *pod = container_of(timer, PodEngine, prove);

    if (proof_look(&pod->proof) == REACH_UNKNOWN)
        loop_timer_set(pod->loop, timer, clock_now() + LOOK_NSEC, on_prove_due);
    else if (pod->proof.reach == REACH_SOMETHING)
        log_error("no session is served", "reason=this pod can connect to %s", pod->proof.address);
}

static int pod_open(Loop *loop, const EngineConfig *config, Engine **ret, Problem *problem)
{
    PodEngine *pod = calloc(1, sizeof(*pod));

    if (!pod)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    pod->engine.ops = &engine_pod;
    pod->loop = loop;
    pod->config = *config;
    if (strcmp(config->network_proof, "trust") == 0)
        pod->proof.reach = REACH_NOTHING;
    else
        proof_begin(&pod->proof);
    loop_timer_set(loop, &pod->prove, clock_now(), on_prove_due);
    *ret = &pod->engine;
    return 0;
}

static void pod_close(Engine *engine)
{
    PodEngine *pod = container_of(engine, PodEngine, engine);
    int fd = *pod->ended ? open(pod->ended, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444) : -1;

    close_fd(&fd);
    loop_timer_cancel(&pod->prove);
    proof_end(&pod->proof);
    loop_idle_remove(&pod->sweep_idle);
    free(pod);
}

/* Blocks for some seconds at most. */
static bool is_closed(const EngineConfig *config, Problem *problem)
{
    const struct timespec moment = {.tv_nsec = LOOK_NSEC};
    Proof proof = {.n = 0};

    if (strcmp(config->network_proof, "trust") == 0)
        return true;
    proof_begin(&proof);
    while (proof_look(&proof) == REACH_UNKNOWN)
        nanosleep(&moment, NULL);
    if (proof.reach == REACH_SOMETHING)
        say_reached(&proof, problem);
    proof_end(&proof);
    return proof.reach == REACH_NOTHING;
}

static void pod_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                      void *userdata)
{
    Check check = {report, userdata};
    Problem problem = PROBLEM_NULL;

    if (!getenv("KUBERNETES_SERVICE_HOST"))
        check_say(&check, FINDING_OK, "pod", NULL, "not in a pod, where this engine is for");
    else if (!is_closed(config, &problem))
        check_say(&check, FINDING_FAIL, "network", NULL, "%s", problem.text);
    else
        check_say(&check, FINDING_OK, "network", NULL,
                  "neither the cluster's DNS nor its API server answers");
}

const EngineOps engine_pod = {
    .name = "pod",
    .isolates = true,
    .peer_is_first_process = false,
    .single = true,
    .open = pod_open,
    .close = pod_close,
    .create = pod_create,
    .adopt = pod_adopt,
    .remove = pod_remove,
    .leave = pod_leave,
    .attach_data = pod_attach_data,
    .attach_packages = pod_attach_packages,
    .sweep = pod_sweep,
    .memory = pod_memory,
    .time = pod_time,
    .set_idle = pod_set_idle,
    .groups = pod_groups,
    .not_enforced = pod_not_enforced,
    .image = pod_image,
    .check = pod_check,
};
