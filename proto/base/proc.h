/* Facts about processes from /proc. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* Reads /proc/PID/`name` once, up to `size` - 1 bytes; `to` is terminated. `pid` 0 is this process. The
 * count, or a negative errno. */
ssize_t proc_read(pid_t pid, const char *name, char *to, size_t size);

typedef struct ProcStat {
    pid_t parent, session;
    bool dying;   /* its first thread has ended, or is about to; for some microseconds after a signal it may
                     seem alive */
    bool awake;   /* its first thread runs, or sleeps so that any signal wakes it */
    bool stopped; /* its first thread stands until SIGCONT */
} ProcStat;

/* 0 or a negative errno: there is no such process. */
int proc_stat(ProcStat *ret, pid_t pid);

/* There is such a process, its first thread has not ended, and nobody has killed it: not from the signal on.
 */
bool proc_is_alive(pid_t pid);

/* Bytes in RAM, and what of them belongs to files or is shared memory. 0 or a negative errno. */
typedef struct ProcMemory {
    uint64_t resident, shared;
} ProcMemory;
int proc_memory(ProcMemory *ret, pid_t pid);

/* Calls `found` for each process, read one after the other: no picture of a single moment. A negative number
 * of it ends that, and is returned; otherwise 0, or a negative errno. */
int proc_each(int (*found)(void *userdata, pid_t pid), void *userdata);

/* The same for the children of one process, whichever of its threads they are of. */
int proc_each_child(pid_t pid, int (*found)(void *userdata, pid_t child), void *userdata);
