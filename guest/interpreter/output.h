/* Standard output and error on their way to the supervisor. */
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include "guest/interpreter/pyref.h"
#include "guest/ring.h"

/* A stream's way out: a ring of nearly 64 KB before a descriptor. What is in it is flushed when it is half
 * full, and when asked. Knows nothing of Python and needs no GIL: calls that may wait are to be made without
 * it.
 *
 * The ring is shared with the supervisor (guest/ring.h), which looks into it while a call runs, so that what
 * is in it streams, and outlives this process. A flush then is a mark in the descriptor. A child has a ring
 * of its own instead: a flush writes what is in it, and the end of a line is flushed as well.
 *
 * Two locks, so that no byte waits for a slow reader: `lock` guards the end of the ring where it is filled
 * and is never held over a system call; `turn` is the right to write to the descriptor, a semaphore because
 * waiting for one ends with EINTR when a signal comes. */

typedef struct Sink {
    int fd;
    pthread_mutex_t lock;
    sem_t turn;
    Ring *ring;
    bool shared; /* the supervisor takes what is in it */
    _Atomic uint64_t
        marked; /* the descriptor has been told of what is before it; belongs to who has the turn */
} Sink;

/* Standard output and standard error. */
extern Sink sinks[2];

/* Once, before any other thread. `rings`, which is taken, is the memory shared with the supervisor, if it is.
 * Also arranges that a fork leaves both sides whole: everything is flushed before it, and the child has rings
 * of its own. 0 or -ENOMEM. */
int sinks_init(int out_fd, int err_fd, int rings);

/* In a copy of the interpreter that is to go on as one: the same, with nothing in the rings. */
void sinks_share(int rings);

/* Around a copy of the process that takes its other threads along: flushes, and lets nobody write until it is
 * over. In the copy, `leave` parts with the rings of the original, and `enter` takes others, if there are
 * any, and lets go. */
void sinks_hold(void);
void sinks_let_go(void);
void sinks_leave(void);
void sinks_enter(int rings);

/* In a child of this process, which a fork of the C library makes by itself: rings of its own, and no locks
 * held.
 */
void sinks_begin_child(void);

/* Takes all of it if there is room, never waiting for the descriptor. */
bool sink_append(Sink *sink, const void *bytes, size_t n);

/* Flushes both, whatever signals come; what cannot be written because nobody reads any more is dropped. */
void sinks_flush(void);

/* The supervisor is about to be told that the call is over, and takes what is in the rings then: waits until
 * nobody writes, and flushes only what is not shared. */
void sinks_hand_over(void);

/* Once, when Python's faulthandler is there: what was printed before a fatal signal comes before the
 * traceback that it writes. */
void sinks_mark_before_crashes(void);

/* `_limpet.Stream`, what is below sys.stdout and sys.stderr: a stream of bytes that puts them into a sink,
 * and cannot be closed. */

/* Adds the type, and `stdout` and `stderr`, to the module `_limpet`. */
int stream_add(PyObject *module);

/* The stream object of descriptor 1 or 2; borrowed, NULL before `_limpet` was imported. */
PyObject *stream_object(int fd);

/* Flushes both. -1 with an exception when a signal handler raised. */
int stream_flush_all(void);
