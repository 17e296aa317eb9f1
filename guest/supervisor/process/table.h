/* The table of all processes. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

typedef struct Process {
    pid_t pid, parent, session;
    bool dying;          /* its first thread has ended, or is about to because it was killed */
    bool awake;          /* its first thread runs, or can be woken by any signal */
    bool stopped;        /* its first thread stands until SIGCONT */
    bool marked, spared; /* free for whoever reads the table */
} Process;

/* All processes, read one after the other: no picture of a single moment. */
typedef struct ProcessTable {
    Process *items; /* by pid */
    size_t n, capacity;
    size_t missed; /* gone before they could be read */
} ProcessTable;

void table_deinit(ProcessTable *table);

/* Reads all processes; what was in the table goes. 0 or a negative errno. */
int table_read(ProcessTable *table);

/* NULL when it is not in the table. */
Process *table_find(const ProcessTable *table, pid_t pid);

/* Returns whether `process` descends from `ancestor`; a process is no descendant of itself. */
bool table_descends(const ProcessTable *table, const Process *process, pid_t ancestor);

/* Returns whether the process has that supplementary group. */
bool process_has_group(pid_t pid, gid_t group);

/* Reads one process. 0 or a negative errno. */
int process_read(Process *ret, pid_t pid);
