/* Loop: the one event loop of a process. Level-triggered epoll, timers in a heap behind the epoll timeout,
 * signals through signalfd, child processes through pidfds.
 *
 * Sources are embedded in their owners; a callback reaches its owner with container_of. A callback may
 * remove any source, its own included, and may add new ones. Nothing here allocates after registration. */
#pragma once

#include <signal.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/list.h"

typedef struct Loop Loop;
typedef struct LoopFile LoopFile;
typedef struct LoopTimer LoopTimer;
typedef struct LoopSignals LoopSignals;
typedef struct LoopChild LoopChild;
typedef struct LoopIdle LoopIdle;

int loop_new(Loop **ret);
Loop *loop_free(Loop *loop); /* no source may be registered any more */
DEFINE_CLEANUP(Loop *, loop_free);

/* Dispatches until loop_stop(); returns the code given to it, or a negative errno. */
int loop_run(Loop *loop);
void loop_stop(Loop *loop, int code);

/* Number of the turn: in each, the loop waits once, and tells what was waited for. */
uint64_t loop_turn(const Loop *loop);

/* A descriptor. `events` are EPOLLIN/EPOLLOUT/EPOLLPRI; on_ready may get EPOLLERR and EPOLLHUP besides. The
 * descriptor stays the caller's. */
struct LoopFile {
    void (*on_ready)(LoopFile *file, uint32_t events);
    Loop *loop; /* NULL when not registered */
    int fd;
    uint32_t events;
};
int loop_file_add(Loop *loop, LoopFile *file, int fd, uint32_t events,
                  void (*on_ready)(LoopFile *, uint32_t));
int loop_file_change(LoopFile *file, uint32_t events); /* no system call when nothing changes */
void loop_file_remove(LoopFile *file);                 /* before the descriptor is closed */

/* Returns whether the last wait found the file ready and it has not been told so yet. Events that were there
 * before the wait ended are known from this without asking the kernel again. */
bool loop_file_is_due(const LoopFile *file);

/* A one-shot timer on the monotonic clock. Setting it again moves it. */
struct LoopTimer {
    void (*on_due)(LoopTimer *timer);
    Loop *loop;
    uint64_t due; /* clock_now() nanoseconds */
    size_t index; /* heap position + 1; 0 when not set */
};
int loop_timer_set(Loop *loop, LoopTimer *timer, uint64_t due, void (*on_due)(LoopTimer *));
void loop_timer_cancel(LoopTimer *timer);
static inline bool loop_timer_is_set(const LoopTimer *timer)
{
    return timer->index != 0;
}

/* Blocks the given signals in the process and delivers them as events. They stay blocked after removal. */
struct LoopSignals {
    LoopFile file;
    void (*on_signal)(LoopSignals *signals, int number, pid_t sender);
};
int loop_signals_add(Loop *loop, LoopSignals *signals, const sigset_t *set,
                     void (*on_signal)(LoopSignals *, int, pid_t));
void loop_signals_remove(LoopSignals *signals);

/* The end of a process, by pidfd. For a child of ours it is reaped and `status` is as from waitpid;
 * for another process `status` is -1. */
struct LoopChild {
    LoopFile file;
    pid_t pid;
    void (*on_exit)(LoopChild *child, int status);
};
int loop_child_add(Loop *loop, LoopChild *child, pid_t pid, void (*on_exit)(LoopChild *, int));
void loop_child_remove(LoopChild *child);

/* Called once before the loop next waits; re-arm with loop_idle_add. Adding an armed one does nothing. One
 * that is armed in an idle callback runs in the next round, for which the loop does not sleep. */
struct LoopIdle {
    List link;
    void (*on_idle)(LoopIdle *idle);
    bool armed;
};
void loop_idle_add(Loop *loop, LoopIdle *idle, void (*on_idle)(LoopIdle *));
void loop_idle_remove(LoopIdle *idle);
