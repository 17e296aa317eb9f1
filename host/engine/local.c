/* The engine that isolates nothing: the guest runs as a process of the controller's user. For development,
 * and for machines without containers. A guest outlives a crash of its controller; the next one knows it by
 * its command line, which names the link directory. */
#include "host/engine/engine.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "host/engine/check.h"
#include "host/engine/proctree.h"
#include "host/engine/spawn.h"
#include "proto/base/clock.h"

/* How long a guest may take to end its children and itself. */
#define GRACE_SECONDS 2.0

typedef struct LocalEngine {
    Engine engine;
    Loop *loop;
    EngineConfig config;
    LoopIdle sweep_idle;
    void (*sweep_done)(void *userdata, unsigned removed);
    void *sweep_userdata;
    unsigned swept;
} LocalEngine;

typedef struct LocalContainer {
    Container container;
    LoopIdle idle; /* tells of the start, then of the removal */
    LoopTimer timer;
    LoopChild child;
    bool running, removing;
} LocalContainer;

static LocalEngine *engine_of(LocalContainer *container)
{
    return container_of(container->container.engine, LocalEngine, engine);
}

static void finish_removal(LocalContainer *container)
{
    ContainerEvents events = container->container.events;
    void *userdata = container->container.userdata;

    loop_timer_cancel(&container->timer);
    loop_idle_remove(&container->idle);
    free(container);
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
    if (WIFSIGNALED(status))
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

static void on_grace_due(LoopTimer *timer)
{
    kill_tree(container_of(timer, LocalContainer, timer)->child.pid);
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
    kill(container->child.pid, SIGTERM);
    if (loop_timer_set(loop, &container->timer, clock_now() + clock_from_seconds(GRACE_SECONDS),
                       on_grace_due) < 0)
        on_grace_due(&container->timer);
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
    const char *const argv[] = {local->config.guest_path,
                                "--link",
                                spec->link_dir,
                                "--directory",
                                spec->session_dir,
                                "--same-user",
                                NULL};
    pid_t pid;
    int r = spawn(argv, -1, &pid);

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
    LocalContainer *container = calloc(1, sizeof(*container));
    int r;

    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    container->container = (Container){.engine = engine, .events = *events, .userdata = userdata};
    r = start_guest(container, spec);
    if (r < 0) {
        free(container);
        return problem_set(problem, ERR_ENGINE_ERROR, "the guest could not be started: %s", strerror(-r));
    }
    *ret = &container->container;
    return 0;
}

static int local_memory(Container *base, uint64_t *ret_bytes, uint64_t *ret_oom_kills)
{
    LocalContainer *container = container_of(base, LocalContainer, container);
    int r = container->running ? proctree_memory(container->child.pid, ret_bytes) : -ESRCH;

    if (r == 0)
        *ret_oom_kills = 0;
    return r;
}

/* Whether the process was started as "PROGRAM --link RUNTIME_DIR/...", which is how this controller's
 * predecessors on the same runtime directory started theirs. */
static bool is_guest_of_ours(const LocalEngine *local, const char *pid)
{
    char path[64], line[2 * PATH_MAX + 16], wanted[2 * PATH_MAX + 16];
    int fd _cleanup_(closep) = -1;
    int prefix;
    ssize_t n;

    prefix = snprintf(wanted, sizeof(wanted), "%s%c--link%c%s/", local->config.guest_path, 0, 0,
                      local->config.runtime_dir);
    snprintf(path, sizeof(path), "/proc/%.20s/cmdline", pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd < 0 ? -1 : read(fd, line, sizeof(line));
    return prefix < (int)sizeof(wanted) && n > prefix && memcmp(line, wanted, (size_t)prefix) == 0;
}

static unsigned kill_guests_of_others(const LocalEngine *local)
{
    unsigned killed = 0;
    struct dirent *entry;
    DIR *processes = opendir("/proc");

    while (processes && (entry = readdir(processes)))
        if (entry->d_name[0] >= '1' && entry->d_name[0] <= '9' && is_guest_of_ours(local, entry->d_name)) {
            kill_tree((pid_t)atol(entry->d_name));
            killed++;
        }
    if (processes)
        closedir(processes);
    return killed;
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
    local->swept = kill_guests_of_others(local); /* now: this controller has started none of its own yet */
    loop_idle_add(local->loop, &local->sweep_idle, on_sweep_idle);
}

static int find_guest(const EngineConfig *config, Problem *problem)
{
    if (access(config->guest_path, X_OK) == 0)
        return 0;
    return problem_set(
        problem, ERR_ENGINE_ERROR,
        "the guest program %s cannot be executed (%s); install it, or use the engine oci or docker",
        config->guest_path, strerror(errno));
}

static int local_open(Loop *loop, const EngineConfig *config, Engine **ret, Problem *problem)
{
    LocalEngine *local;
    int r = find_guest(config, problem);

    if (r < 0)
        return r;
    local = calloc(1, sizeof(*local));
    if (!local)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    local->engine.ops = &engine_local;
    local->loop = loop;
    local->config = *config;
    *ret = &local->engine;
    return 0;
}

static void local_close(Engine *engine)
{
    LocalEngine *local = container_of(engine, LocalEngine, engine);

    loop_idle_remove(&local->sweep_idle);
    free(local);
}

static const char *local_default_image(Engine *engine)
{
    return "";
}

static void local_check(const EngineConfig *config, void (*report)(void *userdata, const EngineFinding *),
                        void *userdata)
{
    Check check = {report, userdata};
    Problem problem = PROBLEM_NULL;

    if (find_guest(config, &problem) < 0)
        check_say(&check, FINDING_FAIL, "guest", "install limpet-guest next to limpetd", "%s", problem.text);
    else
        check_say(&check, FINDING_OK, "guest", NULL, "%s", config->guest_path);
    check_say(&check, FINDING_WARN, "isolation",
              "use it for code you would run yourself, and otherwise oci or docker",
              "this engine does not isolate: code runs as uid %u of this host", geteuid());
}

const EngineOps engine_local = {
    .name = "local",
    .isolates = false,
    .peer_is_first_process = true,
    .open = local_open,
    .close = local_close,
    .create = local_create,
    .remove = local_remove,
    .sweep = local_sweep,
    .memory = local_memory,
    .default_image = local_default_image,
    .check = local_check,
};
