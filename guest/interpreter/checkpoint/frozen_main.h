/* The life of a frozen copy: it waits on its channel, runs no Python, and forks when it is to be brought
 * back. */
#pragma once

#include <signal.h>

#include "guest/channel.h"
#include "guest/interpreter/checkpoint/openfiles.h"
#include "guest/interpreter/checkpoint/sharedmemory.h"
#include "proto/base/base.h"

/* Sends `checkpointed`, without Python and while nothing else is on the channel. 0 or a negative errno.
 * `error` is 0 or the negative errno of what kept a copy from being made; `why` says it better, or is empty.
 */
int send_checkpointed(uint64_t id, int error, const char *why);

/* A copy's knowledge of the interpreter it was made from. */
typedef struct CheckpointInfo {
    Notes notes;
    OpenFiles files;
    SharedMemory shared;
    sigset_t mask;     /* signals that were blocked */
    pid_t supervisor;  /* whose child it is to be */
    bool ends_first;   /* before the interpreter, where memory runs out */
    bool with_threads; /* that rest in it */
    bool alone;        /* what it shares nobody else has: it has only just become the copy */
} CheckpointInfo;

/* Descriptors that come with `restore`, in this order; the last may be missing. */
enum { RESTORE_CHANNEL, RESTORE_OUT, RESTORE_ERR, RESTORE_RINGS };

/* A `restore` message, with which a copy is brought back. */
typedef struct Restore {
    uint64_t id;        /* of the message */
    uint8_t bytes[256]; /* of it: unpacking allocates */
    size_t size;
    int fds[CHANNEL_FDS];
} Restore;

/* In a fork of a frozen copy, which becomes an interpreter that runs cells (resume.c): takes the descriptors
 * of `restore` and says `ready`. 0 or a negative errno. */
int resume(CheckpointInfo *copied, const Restore *restore);

/* With all signals blocked. Takes the channel, says `frozen` with the id of the `checkpoint`, and returns in
 * each process that is brought back, whose threads rest; in the frozen copy it never does. Nothing here may
 * allocate (threads.h). */
void frozen_serve(CheckpointInfo *copied, uint64_t id, int channel, Restore *ret);
