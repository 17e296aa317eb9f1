/* A stream's way out: a 64 KB buffer before a descriptor. It is flushed when full, when asked, and by a
 * thread of its own at most SINK_DELAY after the first byte. Knows nothing of Python and needs no GIL: calls
 * that may wait are to be made without it.
 *
 * Two locks, so that no byte waits for a slow reader: `lock` guards the buffer being filled and is never held
 * over a system call; `turn` is the right to write to the descriptor, a semaphore because waiting for one
 * ends with EINTR when a signal comes. */
#pragma once

#include <pthread.h>
#include <semaphore.h>

#include "proto/base/base.h"

#define SINK_SIZE     (64u << 10)
#define SINK_DELAY_MS 40u

typedef struct Sink {
    int fd;
    pthread_mutex_t lock;
    sem_t turn;
    uint8_t *filling, *leaving; /* SINK_SIZE each; `leaving` belongs to who has the turn */
    size_t filled;
    size_t leaving_at, leaving_size;
} Sink;

/* Standard output and standard error. */
extern Sink sinks[2];

/* Once, before any other thread. Also arranges that a fork leaves both sides whole: everything is flushed
 * before it and the child begins with empty buffers. 0 or -ENOMEM. */
int sinks_init(int out_fd, int err_fd);

/* Takes what there is room for and returns how much that was. Never waits for the descriptor. */
size_t sink_append(Sink *sink, const void *bytes, size_t n);

/* Writes everything out; what cannot be written because nobody reads any more is dropped. 0, or -EINTR after
 * a signal, with the rest kept for the next flush. */
int sink_flush(Sink *sink);

/* The same for both, whatever signals come. */
void sinks_flush(void);
