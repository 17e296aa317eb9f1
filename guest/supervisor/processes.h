/* The processes below the supervisor. The calling process must be process 1 of a pid namespace or a child
 * subreaper, so that orphans become its children and a wait without children means that none is left. */
#pragma once

#include <sys/resource.h>
#include <sys/types.h>

#include "proto/base/base.h"

typedef void (*ProcessesReaped)(void *context, pid_t pid, int status, const struct rusage *usage);

/* Reaps the children that have ended, without waiting. -ECHILD when there is no child left, otherwise 0. */
int processes_reap(ProcessesReaped reaped, void *context);

/* Kills every descendant, also those that are born meanwhile, and reaps them. SIGCHLD must be blocked; what
 * is pending of it may be taken. 0, or -ETIMEDOUT when some are still there after `limit` nanoseconds (stuck
 * in the kernel: they die when they get out of there). */
int processes_end_all(uint64_t limit, ProcessesReaped reaped, void *context);

/* Whether `pid` is alive and below the calling process. */
bool processes_is_descendant(pid_t pid);
