#include "host/launcher/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "host/launcher/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* A controller that dies more often than that within a minute is not started again. */
#define DEATHS_MAX     10u
#define DEATHS_SECONDS 60

/* How often it is looked whether the log has become too large. */
#define LOG_SECONDS 10

static int begin_controller(Launcher *launcher, Problem *problem);

/* ---- the end of a controller ---- */

static void end(Launcher *launcher, int status)
{
    loop_stop(launcher->loop, status);
}

static bool dies_too_often(Launcher *launcher)
{
    uint64_t now = clock_now();

    if (now - launcher->counted_since > DEATHS_SECONDS * NSEC_PER_SEC) {
        launcher->counted_since = now;
        launcher->deaths = 0;
    }
    return ++launcher->deaths > DEATHS_MAX;
}

static void describe(int status, char *ret, size_t size)
{
    if (WIFSIGNALED(status))
        snprintf(ret, size, "it was killed by signal %d", WTERMSIG(status));
    else
        snprintf(ret, size, "it ended with status %d", WEXITSTATUS(status));
}

/* Disks that are still being made belong to sessions that the next one sweeps away. */
static void begin_again(Launcher *launcher, const char *why)
{
    log_error("controller ended, starting another", "reason=%s", why);
    worker_wait(launcher->makers);
    if (launcher->engine)
        wards_orphan(&launcher->wards);
    if (begin_controller(launcher, &launcher->problem) < 0)
        end(launcher, -EPROTO);
}

static void judge(Launcher *launcher)
{
    int status = launcher->status;
    char why[64];

    describe(status, why, sizeof(why));
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        end(launcher, 0);
    else if (launcher->problem.code != ERR_NONE)
        end(launcher, -EPROTO);
    else if (!launcher->ready)
        end(launcher,
            problem_set(&launcher->problem, ERR_INTERNAL, "the controller could not begin: %s", why));
    else if (launcher->stopping)
        end(launcher,
            problem_set(&launcher->problem, ERR_INTERNAL, "the controller did not end in order: %s", why));
    else if (dies_too_often(launcher))
        end(launcher,
            problem_set(&launcher->problem, ERR_INTERNAL,
                        "the controller has died more than %u times within a minute; its log says why",
                        DEATHS_MAX));
    else
        begin_again(launcher, why);
}

/* It is over when the process has ended and all that it said has been read. */
static void judge_if_over(Launcher *launcher)
{
    if (!launcher->rpc.file.loop && !launcher->child.file.loop)
        judge(launcher);
}

static void on_exit_of_controller(LoopChild *child, int status)
{
    Launcher *launcher = container_of(child, Launcher, child);

    launcher->status = status;
    judge_if_over(launcher);
}

static void on_lost(Rpc *rpc, int error)
{
    Launcher *launcher = container_of(rpc, Launcher, rpc);

    if (error != -EPIPE)
        log_error("controller killed", "reason=it sent what none may, or did not read: %s", strerror(-error));
    rpc_close(rpc);
    if (launcher->child.file.loop)
        kill(launcher->child.pid, SIGKILL);
    judge_if_over(launcher);
}

static const RpcEvents rpc_events = {launcher_on_message, on_lost};

/* ---- its beginning ---- */

/* Nothing of the launcher's is left to it but the lock: as long as it lives nobody else may begin. */
static _Noreturn void become_controller(const Launcher *launcher, int socket, pid_t parent)
{
    const LauncherConfig *config = launcher->config;
    int fds[] = {socket, config->paths->lock}, first = STDERR_FILENO + 1;
    sigset_t none;

    for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
        fds[i] = fcntl(fds[i], F_DUPFD_CLOEXEC, 512);
        if (fds[i] < 0)
            _exit(1);
    }
    for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
        dup3(fds[i], first + (int)i, O_CLOEXEC);
    close_range((unsigned)first + ARRAY_SIZE(fds), ~0u, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    _exit(config->controller(config->userdata, first));
}

static int begin_controller(Launcher *launcher, Problem *problem)
{
    pid_t parent = getpid(), pid;
    int ends[2], r = rpc_pair(ends);

    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "no socket for the controller: %s", strerror(-r));
    pid = fork();
    if (pid == 0)
        become_controller(launcher, ends[1], parent);
    r = -errno;
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return problem_set(problem, ERR_INTERNAL, "no process for the controller: %s", strerror(-r));
    }
    launcher->begun = false;
    r = rpc_open(&launcher->rpc, launcher->loop, ends[0], &rpc_events);
    if (r == 0)
        r = loop_child_add(launcher->loop, &launcher->child, pid, on_exit_of_controller);
    if (r < 0) {
        kill(pid, SIGKILL);
        return problem_set(problem, ERR_INTERNAL, "the controller cannot be looked after: %s", strerror(-r));
    }
    return 0;
}

/* ---- the launcher's own ---- */

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    Launcher *launcher = container_of(signals, Launcher, signals);

    launcher->stopping = true;
    if (launcher->child.file.loop)
        kill(launcher->child.pid, SIGTERM);
}

static int watch_log(Launcher *launcher);

static void on_log_due(LoopTimer *timer)
{
    Launcher *launcher = container_of(timer, Launcher, log_timer);

    if (log_rotate())
        launcher_say_log(launcher);
    watch_log(launcher);
}

/* The controller writes to the file, and has no right to begin another. */
static int watch_log(Launcher *launcher)
{
    if (!log_has_file())
        return 0;
    return loop_timer_set(launcher->loop, &launcher->log_timer, clock_now() + LOG_SECONDS * NSEC_PER_SEC,
                          on_log_due);
}

static int watch_signals(Launcher *launcher)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return loop_signals_add(launcher->loop, &launcher->signals, &set, on_signal);
}

/* What the controller works in; above them it makes nothing. */
static int make_directory(const LauncherConfig *config, int parent, const char *name)
{
    struct stat st;

    if ((mkdirat(parent, name, 0700) < 0 && errno != EEXIST) ||
        fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (st.st_uid == config->user)
        return 0;
    return fchownat(parent, name, config->user, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

static int make_directories(const Launcher *launcher)
{
    static const char *const names[] = {"sessions", "outputs", "removed", "ended"};
    int r = make_directory(launcher->config, launcher->sources.runtime, SEAM_LINKS);

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(names); i++)
        r = make_directory(launcher->config, launcher->sources.state, names[i]);
    return r;
}

static int begin(Launcher *launcher, Problem *problem)
{
    const Paths *paths = launcher->config->paths;
    int r = loop_new(&launcher->loop);

    if (r == 0)
        r = watch_signals(launcher);
    if (r == 0)
        r = watch_log(launcher);
    if (r == 0)
        r = worker_new(&launcher->makers, launcher->loop, MAKER_THREADS, 0);
    if (r == 0)
        r = sources_open(&launcher->sources, paths->state_dir, paths->runtime_dir);
    if (r == 0)
        r = make_directories(launcher);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot begin: %s", strerror(-r));
    return begin_controller(launcher, problem);
}

static void finish(Launcher *launcher)
{
    const Paths *paths = launcher->config->paths;
    char path[PATH_MAX];

    rpc_close(&launcher->rpc);
    loop_timer_cancel(&launcher->log_timer);
    worker_free(launcher->makers);
    if (launcher->engine && wards_leave_all(&launcher->wards))
        launcher->engine->ops->close(launcher->engine);
    unix_socket_deinit(&launcher->clients);
    if (launcher->signals.file.loop)
        loop_signals_remove(&launcher->signals);
    sources_close(&launcher->sources);
    loop_free(launcher->loop);
    snprintf(path, sizeof(path), "%s/" SEAM_LINKS, paths->runtime_dir);
    rmdir(path);
    rmdir(paths->runtime_dir);
}

int launcher_run(const LauncherConfig *config, Problem *problem)
{
    static Launcher launcher; /* what cannot be ended in order is still known */
    int r;

    launcher = (Launcher){.config = config, .clients = UNIX_SOCKET_NULL, .sources = SOURCES_NULL};
    r = begin(&launcher, problem);
    if (r == 0)
        r = loop_run(launcher.loop);
    if (r < 0 && launcher.problem.code != ERR_NONE)
        *problem = launcher.problem;
    finish(&launcher);
    return r;
}
