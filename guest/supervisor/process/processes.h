/* The processes below the supervisor. The calling process must be process 1 of a pid namespace or a child
 * subreaper, so that orphans become its children and a wait without children means that none is left. */
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "proto/base/base.h"

/* The table of processes. */

typedef struct Process {
    pid_t pid, parent, session;
    bool dying;          /* its first thread has ended, or is about to because it was killed */
    bool awake;          /* its first thread runs, or can be woken by any signal */
    bool stopped;        /* its first thread stands until SIGCONT */
    bool marked, spared; /* free for whoever reads the table */
} Process;

/* Descendants of the calling process, of process 1 all that there are, read one after the other: no picture
 * of a single moment. */
typedef struct ProcessTable {
    Process *items; /* by pid */
    size_t n, capacity;
    size_t missed; /* gone before they could be read */
} ProcessTable;

void table_deinit(ProcessTable *table);

/* Reads them; what was in the table goes. 0 or a negative errno. */
int table_read(ProcessTable *table);

/* Returns whether the process has that supplementary group. */
bool process_has_group(pid_t pid, gid_t group);

/* Returns whether the kernel ends all of this control group where one process has no memory left, as it was
 * at the first call. */
bool processes_end_together(void);

typedef void (*ProcessesReaped)(void *context, pid_t pid, int status, const struct rusage *usage);

/* Reaps the children that have ended, without waiting. -ECHILD when there is no child left, otherwise 0. */
int processes_reap(ProcessesReaped reaped, void *context);

/* Kills every descendant, also those that are born meanwhile, and reaps them. SIGCHLD must be blocked; a
 * pending one may be taken. 0, or -ETIMEDOUT when some are still there after `limit` nanoseconds: those are
 * stuck in the kernel, and die when they get out of it. */
int processes_end_all(uint64_t limit, ProcessesReaped reaped, void *context);

/* The processes that live on when the others end. */
typedef struct ProcessesKeep {
    const pid_t *alone; /* just these */
    size_t alone_count;
    const pid_t *families; /* these, what descends from them, and what is in a session that they lead */
    size_t family_count;
    gid_t mark; /* and those that have this supplementary group; 0: none */
} ProcessesKeep;

/* Kills every descendant but these. None of them runs any more afterwards; they are reaped later. Where
 * they are born as fast as they are found, process 1 stops everyone, so that nothing is born meanwhile; those
 * that are kept run on afterwards. Returns how many were killed, those that had ended and `uncounted` left
 * out; or a negative errno. -ETIMEDOUT: they are born faster than killed, and some may live. */
int processes_end_others(const ProcessesKeep *keep, pid_t uncounted, uint64_t limit);

/* Returns whether `pid` is alive and below the calling process. */
bool processes_is_descendant(pid_t pid);

/* Returns whether `pid` is alive and a child of the calling process. Until that reaps it nobody else gets its
 * number. */
bool processes_is_child(pid_t pid);

/* Waits until `pid`, a child that has been killed, has ended; at most so long. It is not reaped. */
void processes_await_end(pid_t pid, uint64_t limit);

/* The memory that a process holds, and what it has used so far. */

/* Tells CPU seconds and peak memory (bytes) of a living process so far. What cannot be told is left as it
 * was. */
void footprint_used(pid_t pid, double *ret_cpu, uint64_t *ret_peak_memory);

/* Bytes of memory of a process that no file backs. */
typedef struct Footprint {
    uint64_t private; /* shared with no other process */
    uint64_t share;   /* each page divided by the number of processes that share it */
    uint64_t all;
} Footprint;

/* Adds the memory of `pid` to *ret. `uid` is its user and its group. The supervisor becomes that user for the
 * moment, as it may read the maps of nobody else. 0 or a negative errno. */
int footprint_add(Footprint *ret, pid_t pid, uid_t uid);

/* The same of a process whose maps nobody but itself may open, from the file that it has opened. */
int footprint_add_opened(Footprint *ret, int fd);

/* Returns whether `fd` is that file of `pid`, and none whose reading may not end. */
bool footprint_is_opened(int fd, pid_t pid);
