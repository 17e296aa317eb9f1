/* The sources of a Loop that come from processes: signals and the end of children. */
#include "proto/base/loop.h"

#include <errno.h>
#include <sys/pidfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

/* ---- signals ---- */

/* Takes one signal a turn, because the callback may free its owner; epoll is level-triggered and comes
 * again. */
static void on_signalfd(LoopFile *file, uint32_t events)
{
    LoopSignals *signals = container_of(file, LoopSignals, file);
    struct signalfd_siginfo info;

    if (read(file->fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
        signals->on_signal(signals, (int)info.ssi_signo, (pid_t)info.ssi_pid);
}

int loop_signals_add(Loop *loop, LoopSignals *signals, const sigset_t *set,
                     void (*on_signal)(LoopSignals *, int, pid_t))
{
    int fd _cleanup_(closep) = -1;
    int r;

    if (sigprocmask(SIG_BLOCK, set, NULL) < 0)
        return -errno;
    fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (fd < 0)
        return -errno;
    signals->on_signal = on_signal;
    r = loop_file_add(loop, &signals->file, fd, EPOLLIN, on_signalfd);
    if (r == 0)
        take_fd(&fd);
    return r;
}

/* Removes a file whose descriptor the loop owns. */
static void remove_own_file(LoopFile *file)
{
    if (!file->loop)
        return;
    loop_file_remove(file);
    close_fd(&file->fd);
}

void loop_signals_remove(LoopSignals *signals)
{
    remove_own_file(&signals->file);
}

/* ---- child processes ---- */

static int wait_status(const siginfo_t *info)
{
    switch (info->si_code) {
    case CLD_EXITED:
        return (info->si_status & 0xff) << 8;
    case CLD_DUMPED:
        return info->si_status | 0x80;
    default:
        return info->si_status;
    }
}

static void on_pidfd(LoopFile *file, uint32_t events)
{
    LoopChild *child = container_of(file, LoopChild, file);
    siginfo_t info = {0};
    int status = -1;

    if (waitid(P_PIDFD, (id_t)file->fd, &info, WEXITED | WNOHANG) == 0) {
        if (info.si_pid == 0)
            return;
        status = wait_status(&info);
    }
    loop_child_remove(child);
    child->on_exit(child, status);
}

int loop_child_add(Loop *loop, LoopChild *child, pid_t pid, void (*on_exit)(LoopChild *, int))
{
    int fd _cleanup_(closep) = pidfd_open(pid, 0); /* close-on-exec by nature */
    int r;

    if (fd < 0)
        return -errno;
    child->pid = pid;
    child->on_exit = on_exit;
    r = loop_file_add(loop, &child->file, fd, EPOLLIN, on_pidfd);
    if (r == 0)
        take_fd(&fd);
    return r;
}

void loop_child_remove(LoopChild *child)
{
    remove_own_file(&child->file);
}
