#include "host/privilege/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "host/ipc/ipc.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Arguments: its name, the process that starts it, whose rights it has ("-": its own), the level of its log,
 * and its own. */
enum { NAME, PARENT, UID, GID, LEVEL, ARGUMENT };

/* Between vfork() and exec: only system calls. */
static _Noreturn __attribute__((noinline)) void become(const Helper *helper, char *const argv[], int socket)
{
    int moved[1 + HELPER_FDS_MAX], n = 1 + (int)helper->n_fds;
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    sigset_t none;

    for (int i = 0; i < n; i++)
        if ((moved[i] = fcntl(i == 0 ? socket : helper->fds[i - 1], F_DUPFD, HELPER_FD + n)) < 0)
            _exit(127);
    for (int i = 0; i < n; i++)
        if (dup2(moved[i], HELPER_FD + i) < 0)
            _exit(127);
    close_range((unsigned)(HELPER_FD + n), ~0u, 0);
    setpriority(PRIO_PROCESS, 0, 0);
    /* Ctrl-C in a terminal and SIGHUP are for whoever starts it. */
    setpgid(0, 0);
    sigaction(SIGHUP, &ignored, NULL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execve(helper->program ? helper->program : "/proc/self/exe", argv,
           helper->environment ? helper->environment : environ);
    _exit(127);
}

static pid_t begin(const Helper *helper, char *const argv[], int socket)
{
    pid_t pid = vfork();

    if (pid == 0)
        become(helper, argv, socket);
    return pid;
}

static pid_t execute(const Helper *helper, int socket)
{
    char parent[16], uid[16] = "-", gid[16] = "-";
    char *const argv[] = {(char *)helper->name,     parent, uid, gid, (char *)helper->log_level,
                          (char *)helper->argument, NULL};

    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    if (helper->account) {
        snprintf(uid, sizeof(uid), "%u", helper->account->uid);
        snprintf(gid, sizeof(gid), "%u", helper->account->gid);
    }
    return begin(helper, argv, socket);
}

static void nothing(LoopChild *child, int status)
{
}

int helper_start(const Helper *helper, Loop *loop, LoopChild *child,
                 void (*on_exit)(LoopChild *child, int status), int socket)
{
    pid_t pid;
    int r;

    if (child->file.loop) { /* asked again, it is gone */
        helper_kill(child);
        return -EBUSY;
    }
    pid = execute(helper, socket);
    r = pid < 0 ? -errno : loop_child_add(loop, child, pid, on_exit ? on_exit : nothing);
    if (r < 0 && pid > 0)
        kill(pid, SIGKILL);
    return r;
}

void helper_kill(LoopChild *child)
{
    if (child->file.loop)
        kill(child->pid, SIGKILL);
}

void helper_end(LoopChild *child)
{
    if (!child->file.loop)
        return;
    helper_kill(child);
    waitpid(child->pid, NULL, 0);
    loop_child_remove(child);
}

/* ---- in it ---- */

int helper_begin(HelperOrders *ret, int argc, char **argv, size_t n_fds, const char *program)
{
    int level = argc == ARGUMENT || argc == ARGUMENT + 1 ? log_level_from_name(argv[LEVEL]) : -EINVAL;

    if (level < 0)
        return level;
    signal(SIGPIPE, SIG_IGN);
    log_setup(program, (LogLevel)level);
    for (int fd = HELPER_FD; fd <= HELPER_FD + (int)n_fds; fd++)
        if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0)
            return -EINVAL;
    *ret = (HelperOrders){
        .parent = (pid_t)strtol(argv[PARENT], NULL, 10),
        .account = {(uid_t)strtoul(argv[UID], NULL, 10), (gid_t)strtoul(argv[GID], NULL, 10)},
        .keeps_account = strcmp(argv[UID], "-") == 0,
        .argument = argv[ARGUMENT],
    };
    return 0;
}

int helper_drop(const HelperOrders *orders, Confinement rights, Problem *problem)
{
    rights.account = orders->account;
    rights.keeps_account = orders->keeps_account;
    return rights_drop(&rights, orders->parent, problem);
}

/* ---- as its client sees it ---- */

#define PAUSE_LEAST (20 * NSEC_PER_MSEC)
#define PAUSE_MOST  (5 * NSEC_PER_SEC)

static void begin_process(HelperProcess *process);

static void on_retry(LoopTimer *timer)
{
    begin_process(container_of(timer, HelperProcess, retry));
}

static void begin_later(HelperProcess *process)
{
    if (clock_now() - process->started > PAUSE_MOST)
        process->pause = PAUSE_LEAST;
    else
        process->pause = MIN(2 * process->pause, PAUSE_MOST);
    loop_timer_set(process->loop, &process->retry, clock_now() + process->pause, on_retry);
}

static void on_lost(Ipc *ipc, int error)
{
    HelperProcess *process = container_of(ipc, HelperProcess, ipc);

    log_error("process ended, starting another", "name=%s reason=%s", process->ops->name, strerror(-error));
    ipc_close(ipc);
    begin_later(process);
}

static int on_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    HelperProcess *process = container_of(ipc, HelperProcess, ipc);

    return process->ops->message ? process->ops->message(process, message, descriptors) : -EBADMSG;
}

static const IpcEvents events = {.message = on_message, .lost = on_lost};

static void begin_process(HelperProcess *process)
{
    int ends[2], r = ipc_pair(ends);

    process->started = clock_now();
    if (r == 0) {
        r = process->start(process->userdata, ends[1]);
        close(ends[1]);
        if (r == 0)
            r = ipc_open(&process->ipc, process->loop, ends[0], &ipc_messages, &events);
        else
            close(ends[0]);
    }
    if (r == 0) {
        process->ops->begun(process);
        return;
    }
    log_error("process not started", "name=%s error=%s", process->ops->name, strerror(-r));
    begin_later(process);
}

void helper_process_init(HelperProcess *process, const HelperProcessOps *ops, Loop *loop,
                         HelperProcessStarter *start, void *userdata)
{
    *process =
        (HelperProcess){.ops = ops, .loop = loop, .start = start, .userdata = userdata, .pause = PAUSE_LEAST};
}

void helper_process_deinit(HelperProcess *process)
{
    loop_timer_cancel(&process->retry);
    ipc_close(&process->ipc);
}

void helper_process_want(HelperProcess *process)
{
    if (!helper_process_is_there(process) && !loop_timer_is_set(&process->retry))
        begin_process(process);
}
