/* The engine that isolates nothing: the guest runs as a process of the controller's user. For development,
 * and for machines without containers. A guest outlives a crash of its controller; the next one knows it by
 * its command line, which names the link directory. */
#include "host/engine/engine.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "host/engine/attach.h"
#include "host/engine/check.h"
#include "host/engine/processes.h"
#include "host/engine/profile.h"
#include "proto/base/clock.h"
#include "proto/base/program.h"

/* Time for a guest to end its children and itself. */
#define GRACE_SECONDS 2.0

#define LINK_OPTION "--link"

/* A guest that was there when this controller began. */
typedef struct FormerGuest {
    List link;
    pid_t pid;
    char link_dir[];
} FormerGuest;

typedef struct LocalEngine {
    Engine engine;
    Loop *loop;
    EngineConfig config;
    List containers;
    List former; /* FormerGuest, from the first adoption to the first sweep */
    bool looked;
    LoopIdle sweep_idle;
    void (*sweep_done)(void *userdata, unsigned removed);
    void *sweep_userdata;
    unsigned swept;
} LocalEngine;

typedef struct LocalContainer {
    Container container;
    List link;
    LoopIdle idle; /* tells of the start, then of the removal */
    LoopTimer timer;
    LoopChild child;
    bool running, removing;
    char packages[PATH_MAX]; /* where its guest looks for them: a link */
} LocalContainer;

static LocalEngine *engine_of(LocalContainer *container)
{
    return container_of(container->container.engine, LocalEngine, engine);
}

static LocalContainer *container_new(LocalEngine *local, const ContainerSpec *spec,
                                     const ContainerEvents *events, void *userdata)
{
    LocalContainer *container = calloc(1, sizeof(*container));

    if (!container)
        return NULL;
    snprintf(container->packages, sizeof(container->packages), "%s/.limpet/packages", spec->session_dir);
    container->container = (Container){.engine = &local->engine, .events = *events, .userdata = userdata};
    list_append(&local->containers, &container->link);
    return container;
}

static void container_free(LocalContainer *container)
{
    list_remove(&container->link);
    loop_timer_cancel(&container->timer);
    loop_idle_remove(&container->idle);
    loop_child_remove(&container->child);
    free(container);
}

static void finish_removal(LocalContainer *container)
{
    ContainerEvents events = container->container.events;
    void *userdata = container->container.userdata;

    container_free(container);
    events.removed(userdata);
}

static void on_removal_idle(LoopIdle *idle)
{
    finish_removal(container_of(idle, LocalContainer, idle));
}

static void on_exit_of_guest(LoopChild *child, int status)
{
    LocalContainer *container = container_of(child, LocalContainer, child);
    Container *base = &container->container;
    char why[80];

    container->running = false;
    if (container->removing) {
        finish_removal(container);
        return;
    }
    if (status < 0) /* of an earlier controller: not our child */
        snprintf(why, sizeof(why), "the guest ended");
    else if (WIFSIGNALED(status))
        snprintf(why, sizeof(why), "the guest was killed by signal %d", WTERMSIG(status));
    else
        snprintf(why, sizeof(why), "the guest ended with exit code %d", WEXITSTATUS(status));
    base->events.gone(base, base->userdata, why);
}

/* The guest first, so that it starts nothing new for what dies. */
static void kill_tree(pid_t guest)
{
    pid_t pids[PROCTREE_MAX];
    size_t count = proctree_list(guest, pids);

    for (size_t i = 0; i < count; i++)
        kill(pids[i], SIGKILL);
}

/* The pid of a guest that is not our child may have been given away; its pidfd tells. */
static bool signal_guest(const LocalContainer *container, int number)
{
    return pidfd_send_signal(container->child.file.fd, number, NULL, 0) == 0;
}

static void on_grace_due(LoopTimer *timer)
{
    LocalContainer *container = container_of(timer, LocalContainer, timer);

    if (signal_guest(container, 0))
        kill_tree(container->child.pid);
}

static void local_remove(Container *base)
{
    LocalContainer *container = container_of(base, LocalContainer, container);
    Loop *loop = engine_of(container)->loop;

    if (container->removing)
        return;
    container->removing = true;
    loop_idle_remove(&container->idle);
    if (!container->running) {
        loop_idle_add(loop, &container->idle, on_removal_idle);
        return;
    }
    signal_guest(container, SIGTERM);
    if (loop_timer_set(loop, &container->timer, clock_now() + clock_from_seconds(GRACE_SECONDS),
                       on_grace_due) < 0)
        on_grace_due(&container->timer);
}

static void local_leave(Container *base)
{
    container_free(container_of(base, LocalContainer, container));
}

static void on_started_idle(LoopIdle *idle)
{
    LocalContainer *container = container_of(idle, LocalContainer, idle);
    Container *base = &container->container;

    if (container->running)
        base->events.started(base, base->userdata, container->child.pid);
}

static int start_guest(LocalContainer *container, const ContainerSpec *spec)
{
    LocalEngine *local = engine_of(container);
    char threads[64], packages[PATH_MAX + 32], asks[PATH_MAX + 32];
    const char *const argv[] = {"/usr/bin/env",
                                threads,
                                packages,
                                asks,
                                local->config.guest_path,
                                "--link",
                                spec->link_dir,
                                "--directory",
                                spec->session_dir,
                                "--same-user",
                                NULL};
    pid_t pid;
    int r;

    snprintf(packages, sizeof(packages), "PYTHONUSERBASE=%s", container->packages);
    snprintf(asks, sizeof(asks), "LIMPET_PIP=%s/pip", spec->link_dir);
    profile_threads_text(threads, sizeof(threads), spec->cpus);
    r = spawn(argv, -1, &pid);
    if (r < 0)
        return r;
    r = loop_child_add(local->loop, &container->child, pid, on_exit_of_guest);
    if (r < 0) {
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        return r;
    }
    container->running = true;
    loop_idle_add(local->loop, &container->idle, on_started_idle);
    return 0;
}

static int local_create(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                        void *userdata, Container **ret, Problem *problem)
{
    LocalContainer *container =
        container_new(container_of(engine, LocalEngine, engine), spec, events, userdata);
    int r;

    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = start_guest(container, spec);
    if (r < 0) {
        container_free(container);
        return problem_set(problem, ERR_ENGINE_ERROR, "cannot start the guest: %s", strerror(-r));
    }
    *ret = &container->container;
    return 0;
}

/* ---- adopting: the processes are looked through once for all ---- */

static void remember_guest(void *userdata, pid_t pid, const char *link_dir)
{
    LocalEngine *local = userdata;
    size_t size = strlen(link_dir) + 1;
    FormerGuest *guest = malloc(sizeof(*guest) + size);

    if (!guest)
        return;
    guest->pid = pid;
    memcpy(guest->link_dir, link_dir, size);
    list_append(&local->former, &guest->link);
}

static void forget_guests(LocalEngine *local)
{
    FormerGuest *guest;

    list_foreach (guest, &local->former, FormerGuest, link) {
        list_remove(&guest->link);
        free(guest);
    }
    local->looked = false;
}

/* Its pid may have been given to another process since; not any more once it is watched. */
static void watch_guest(LocalContainer *container, const FormerGuest *guest)
{
    if (loop_child_add(engine_of(container)->loop, &container->child, guest->pid, on_exit_of_guest) < 0)
        return;
    container->running = process_is(guest->pid, LINK_OPTION, guest->link_dir);
    if (!container->running)
        loop_child_remove(&container->child);
}

static void find_guest(LocalContainer *container, const char *link_dir)
{
    LocalEngine *local = engine_of(container);
    FormerGuest *guest;

    if (!local->looked)
        process_find(LINK_OPTION, "/", remember_guest, local);
    local->looked = true;
    list_foreach (guest, &local->former, FormerGuest, link)
        if (!container->running && strcmp(guest->link_dir, link_dir) == 0)
            watch_guest(container, guest);
}

static void on_missing_idle(LoopIdle *idle)
{
    Container *base = &container_of(idle, LocalContainer, idle)->container;
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_ENGINE_ERROR, "the guest of the previous controller has ended");
    base->events.failed(base, base->userdata, &problem);
}

static int local_adopt(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                       void *userdata, Container **ret, Problem *problem)
{
    LocalEngine *local = container_of(engine, LocalEngine, engine);
    LocalContainer *container = container_new(local, spec, events, userdata);

    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    find_guest(container, spec->link_dir);
    loop_idle_add(local->loop, &container->idle, container->running ? on_started_idle : on_missing_idle);
    *ret = &container->container;
    return 0;
}

static int local_attach_data(Container *base, int data, const AttachDone *attached, Problem *problem)
{
    return attach_refuse(problem, "the engine local has no /data");
}

/* Takes the place of the one before at once, for all who look. The first time there is the empty directory
 * that a guest makes. */
static int replace_link(const char *target, const char *link)
{
    char new[PATH_MAX], empty[PATH_MAX];

    if ((size_t)snprintf(new, sizeof(new), "%s.new", link) >= sizeof(new) ||
        (size_t)snprintf(empty, sizeof(empty), "%s.old", link) >= sizeof(empty))
        return -ENAMETOOLONG;
    unlink(new);
    if (symlink(target, new) < 0)
        return -errno;
    if (rename(new, link) == 0)
        return 0;
    return rename(link, empty) < 0 || rename(new, link) < 0 ? -errno : 0;
}

static int local_attach_packages(Container *base, const char *name, const AttachDone *attached,
                                 Problem *problem)
{
    LocalContainer *container = container_of(base, LocalContainer, container);
    const char *state_dir = engine_of(container)->config.state_dir;
    char path[PACKAGES_PATH_SIZE], target[PATH_MAX];
    int set _cleanup_(closep) = packages_open(state_dir, name, problem);
    int r = set < 0 ? set : 0;

    packages_path(path, name);
    if (r == 0 && (size_t)snprintf(target, sizeof(target), "%s/%s", state_dir, path) < sizeof(target))
        r = replace_link(target, container->packages);
    return r < 0 && set >= 0
               ? problem_set(problem, ERR_ENGINE_ERROR, "cannot link packages: %s", strerror(-r))
               : r;
}

static int local_memory(Container *base, uint64_t *ret_bytes, uint64_t *ret_oom_kills)
{
    LocalContainer *container = container_of(base, LocalContainer, container);
    int r = container->running ? 0 : -ESRCH;

    if (r == 0 && ret_bytes)
        r = proctree_memory(container->child.pid, ret_bytes);
    if (r == 0 && ret_oom_kills)
        *ret_oom_kills = 0;
    return r;
}

static int local_time(Container *base, uint64_t *ret_nsec)
{
    return -EOPNOTSUPP;
}

static int local_set_idle(Container *base, bool idle)
{
    return -EOPNOTSUPP;
}

static ContainerGroups local_groups(Container *base)
{
    return (ContainerGroups){0};
}

/* Sweeping: guests of this controller's predecessors on the same runtime directory, which is where their link
 * directories are. */

static bool is_ours(LocalEngine *local, pid_t pid)
{
    LocalContainer *container;

    list_foreach (container, &local->containers, LocalContainer, link)
        if (container->running && container->child.pid == pid)
            return true;
    return false;
}

static void sweep_found(void *userdata, pid_t pid, const char *link_dir)
{
    LocalEngine *local = userdata;

    if (is_ours(local, pid))
        return;
    kill_tree(pid);
    local->swept++;
}

static void kill_guests_of_others(LocalEngine *local)
{
    char links[PATH_MAX];

    forget_guests(local);
    local->swept = 0;
    if ((size_t)snprintf(links, sizeof(links), "%s/", local->config.runtime_dir) < sizeof(links))
        process_find(LINK_OPTION, links, sweep_found, local);
}

static void on_sweep_idle(LoopIdle *idle)
{
    LocalEngine *local = container_of(idle, LocalEngine, sweep_idle);

    local->sweep_done(local->sweep_userdata, local->swept);
}

static void local_sweep(Engine *engine, void (*done)(void *userdata, unsigned removed), void *userdata)
{
    LocalEngine *local = container_of(engine, LocalEngine, engine);

    local->sweep_done = done;
    local->sweep_userdata = userdata;
    kill_guests_of_others(local);
    loop_idle_add(local->loop, &local->sweep_idle, on_sweep_idle);
}

static int check_guest(const EngineConfig *config, Problem *problem)
{
    if (access(config->guest_path, X_OK) == 0)
        return 0;
    return problem_set(
        problem, ERR_ENGINE_ERROR,
        "cannot execute the guest program %s (%s); install it, or use the engine oci or docker",
        config->guest_path, strerror(errno));
}

static int local_open(Loop *loop, const EngineConfig *config, Engine **ret, Problem *problem)
{
    LocalEngine *local;
    int r = check_guest(config, problem);

    if (r < 0)
        return r;
    local = calloc(1, sizeof(*local));
    if (!local)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    local->engine.ops = &engine_local;
    local->loop = loop;
    local->config = *config;
    list_init(&local->containers);
    list_init(&local->former);
    *ret = &local->engine;
    return 0;
}

static void local_close(Engine *engine)
{
    LocalEngine *local = container_of(engine, LocalEngine, engine);

    loop_idle_remove(&local->sweep_idle);
    forget_guests(local);
    free(local);
}

static const char *local_image(Engine *engine, const char *name)
{
    return name;
}

static void local_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                        void *userdata)
{
    Check check = {report, userdata};
    Problem problem = PROBLEM_NULL;

    if (check_guest(config, &problem) < 0)
        check_say(&check, FINDING_FAIL, "guest", "install limpet-guest next to limpetd", "%s", problem.text);
    else
        check_say(&check, FINDING_OK, "guest", NULL, "%s", config->guest_path);
    check_say(&check, FINDING_WARN, "isolation",
              "use it only for code that you would run yourself; otherwise use oci or docker",
              "this engine does not isolate: code runs as uid %u of this host", geteuid());
}

static unsigned local_not_enforced(const Engine *engine)
{
    return LIMIT_ON_MEMORY | LIMIT_ON_CPUS | LIMIT_ON_PIDS;
}

const EngineOps engine_local = {
    .name = "local",
    .isolates = false,
    .peer_is_first_process = true,
    .open = local_open,
    .close = local_close,
    .create = local_create,
    .adopt = local_adopt,
    .remove = local_remove,
    .leave = local_leave,
    .attach_data = local_attach_data,
    .attach_packages = local_attach_packages,
    .sweep = local_sweep,
    .memory = local_memory,
    .time = local_time,
    .set_idle = local_set_idle,
    .groups = local_groups,
    .not_enforced = local_not_enforced,
    .image = local_image,
    .check = local_check,
};
