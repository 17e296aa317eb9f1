#include "host/launcher/launcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "host/launcher/internal.h"
#include "host/net/authorized.h"
#include "proto/base/clock.h"
#include "proto/base/fdio.h"
#include "proto/base/log.h"
#include "proto/base/program.h"

/* ---- the door of the network ---- */

/* The door of the process that holds the network is open as long as the launcher serves. That process is
 * given it, its key and the socket that listens: clients that connect meanwhile wait. */
static int launcher_open_net(Launcher *launcher, Problem *problem)
{
    const LauncherConfig *config = launcher->config;

    if (!*config->options->listen)
        return 0;
    return net_door_open(&launcher->door, config->options->listen, config->paths->state_dir,
                         config->paths->authorized_keys, problem);
}

/* Reads the file again, and hands it on. */
static void launcher_read_keys(Launcher *launcher)
{
    Problem problem = PROBLEM_NULL;
    int keys;

    if (launcher->door.listening < 0)
        return;
    keys = authorized_load(launcher->config->paths->authorized_keys, &problem);
    if (keys < 0) {
        log_error("authorized keys not read", "reason=%s", problem.text);
        return;
    }
    close_fd(&launcher->door.keys);
    launcher->door.keys = keys;
    if (launcher->ipc.file.loop)
        ipc_send(&launcher->ipc, LAUNCHER_KEYS, 0, SCHEMA(LauncherMsgNothing), &(LauncherMsgNothing){0},
                 &keys, 1);
}

/* A controller that dies more often than that within a minute is not started again. */
#define DEATHS_MAX     10u
#define DEATHS_SECONDS 60

/* Interval in seconds at which the size of the log is checked. */
#define LOG_SECONDS 10

static int begin_processes(Launcher *launcher, Problem *problem);

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
    helper_kill(&launcher->egress);
    helper_kill(&launcher->net);
    if (launcher->engine)
        containers_orphan(&launcher->containers);
    if (begin_processes(launcher, &launcher->problem) < 0)
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
    else if (!launcher->ready && WIFEXITED(status))
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

/* Judges the end when both processes have ended and all that they said has been read. */
static void judge_if_over(Launcher *launcher)
{
    if (!launcher->ipc.file.loop && !launcher->child.file.loop && !launcher->files.file.loop &&
        !launcher->files_worker.file.loop)
        judge(launcher);
}

/* Neither is of use without the other. Where one ends in order so does the other. */
static void on_exit_of_controller(LoopChild *child, int status)
{
    Launcher *launcher = container_of(child, Launcher, child);

    launcher->status = status;
    if (status != 0)
        helper_kill(&launcher->files_worker);
    judge_if_over(launcher);
}

static void on_exit_of_files_worker(LoopChild *child, int status)
{
    Launcher *launcher = container_of(child, Launcher, files_worker);

    if (status != 0)
        helper_kill(&launcher->child);
    judge_if_over(launcher);
}

static void lose(Launcher *launcher, Ipc *ipc, LoopChild *child, const char *name, int error)
{
    if (error != -EPIPE)
        log_error("process killed", "name=%s reason=it sent what none may, or did not read: %s", name,
                  strerror(-error));
    ipc_close(ipc);
    if (error != -EPIPE)
        helper_kill(child);
    judge_if_over(launcher);
}

static void on_lost(Ipc *ipc, int error)
{
    Launcher *launcher = container_of(ipc, Launcher, ipc);

    helper_kill(&launcher->child); /* afterwards there may be another */
    lose(launcher, ipc, &launcher->child, "controller", error);
}

static void on_files_lost(Ipc *ipc, int error)
{
    Launcher *launcher = container_of(ipc, Launcher, files);

    lose(launcher, ipc, &launcher->files_worker, "files worker", error);
}

static const IpcEvents ipc_events = {.message = launcher_on_message, .lost = on_lost};
static const IpcEvents files_events = {.message = launcher_on_files_message, .lost = on_files_lost};

/* ---- their beginning ---- */

/* `other` is its end of what leads to the other process. 0 or a negative errno, with no process. */
static int begin_process(Launcher *launcher, const char *name, int other, LoopChild *child,
                         void (*on_exit)(LoopChild *child, int status), Ipc *ipc, const IpcEvents *events)
{
    const LauncherConfig *config = launcher->config;
    const Helper helper = {
        .name = name,
        .account = &config->user,
        .log_level = config->options->log_level,
        .environment = config->environment,
        .fds = {other, config->paths->lock},
        .n_fds = LAUNCHER_FDS,
    };
    int ends[2], r = ipc_pair(ends);

    if (r < 0)
        return r;
    r = helper_start(&helper, launcher->loop, child, on_exit, ends[1]);
    close(ends[1]);
    if (r < 0)
        close(ends[0]);
    else if ((r = ipc_open(ipc, launcher->loop, ends[0], &ipc_messages, events)) < 0)
        helper_kill(child);
    return r;
}

static int begin_both(Launcher *launcher)
{
    int between[2];
    int r = ipc_pair(between);

    if (r < 0)
        return r;
    r = begin_process(launcher, FILES_PROGRAM, between[0], &launcher->files_worker, on_exit_of_files_worker,
                      &launcher->files, &files_events);
    if (r == 0)
        r = begin_process(launcher, CONTROLLER_PROGRAM, between[1], &launcher->child, on_exit_of_controller,
                          &launcher->ipc, &ipc_events);
    close(between[0]);
    close(between[1]);
    return r;
}

static int begin_processes(Launcher *launcher, Problem *problem)
{
    int r;

    launcher->begun = false;
    r = begin_both(launcher);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "the controller cannot be started: %s", strerror(-r))
                 : 0;
}

/* ---- the launcher's own ---- */

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    Launcher *launcher = container_of(signals, Launcher, signals);

    if (number == SIGHUP) {
        launcher_read_keys(launcher);
        return;
    }
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
    sigaddset(&set, SIGHUP);
    return loop_signals_add(launcher->loop, &launcher->signals, &set, on_signal);
}

#define WATCHES "/proc/sys/fs/inotify/max_user_instances"

/* Lets the files worker watch each session, by an inotify instance of which the kernel gives a user 128. An
 * instance is a descriptor, whose number is bounded. */
static void allow_watches(void)
{
    char *text _cleanup_(freep) = NULL;
    char number[24];
    struct rlimit descriptors;
    int fd _cleanup_(closep) = open(WATCHES, O_WRONLY | O_CLOEXEC);

    if (capture_file(WATCHES, sizeof(number), &text) < 0 || getrlimit(RLIMIT_NOFILE, &descriptors) < 0)
        return;
    unsigned long long set = strtoull(text, NULL, 10), most = MIN(descriptors.rlim_cur, (rlim_t)INT_MAX);
    if (set >= most)
        return;
    snprintf(number, sizeof(number), "%llu", most);
    if (fd < 0 || write_all(fd, number, strlen(number)) < 0)
        log_warn("few sessions are watched", "reason=" WATCHES " is %llu consequence=%s", set,
                 "calls of the others look at every artifact that is there");
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
        r = launcher_make_directories(launcher);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot begin: %s", strerror(-r));
    allow_watches();
    r = launcher_open_net(launcher, problem);
    if (r < 0)
        return r;
    return begin_processes(launcher, problem);
}

static void finish(Launcher *launcher)
{
    const Paths *paths = launcher->config->paths;
    char path[PATH_MAX];

    ipc_close(&launcher->ipc);
    ipc_close(&launcher->files);
    loop_timer_cancel(&launcher->log_timer);
    helper_kill(&launcher->egress);
    helper_kill(&launcher->net);
    net_door_close(&launcher->door);
    worker_free(launcher->makers);
    if (launcher->engine && containers_leave_all(&launcher->containers))
        launcher->engine->ops->close(launcher->engine);
    unix_socket_deinit(&launcher->clients);
    if (launcher->signals.file.loop)
        loop_signals_remove(&launcher->signals);
    sources_close(&launcher->sources);
    loop_free(launcher->loop);
    snprintf(path, sizeof(path), "%s/" LAUNCHER_LINKS, paths->runtime_dir);
    rmdir(path);
    rmdir(paths->runtime_dir);
}

int launcher_run(const LauncherConfig *config, Problem *problem)
{
    static Launcher launcher; /* still reachable when it cannot be ended in order */
    int r;

    launcher = (Launcher){
        .config = config, .clients = UNIX_SOCKET_NULL, .sources = SOURCES_NULL, .door = NET_DOOR_NULL};
    r = begin(&launcher, problem);
    if (r == 0)
        r = loop_run(launcher.loop);
    if (r < 0 && launcher.problem.code != ERR_NONE)
        *problem = launcher.problem;
    finish(&launcher);
    return r;
}
