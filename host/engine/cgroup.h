/* Control groups, version 1, 2 and hybrid, as far as engines need them: the memory of a container, and the
 * directories that a runtime leaves behind. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* Where the memory of a container is counted. The directory is looked up once, while its first process lives.
 */
typedef struct MemoryCgroup {
    char *directory; /* NULL: unknown */
    bool unified;    /* version 2 */
} MemoryCgroup;

int memory_cgroup_init(MemoryCgroup *memory, pid_t pid);
void memory_cgroup_deinit(MemoryCgroup *memory);
/* Bytes in use, and how many processes the kernel has killed for want of memory. */
int memory_cgroup_read(const MemoryCgroup *memory, uint64_t *ret_bytes, uint64_t *ret_kills);

/* The pure part of memory_cgroup_init: from the texts of /proc/PID/cgroup and /proc/self/mountinfo. */
int memory_cgroup_find(const char *cgroup, const char *mountinfo, MemoryCgroup *ret);

/* Whether a process is in the group `name` or one below it, wherever that is. Asked while a pidfd of it is
 * held and has not ended, so that the answer is about that process. */
bool cgroup_has_process(const char *name, pid_t pid);

/* Kills what is in the group `path` ("/limpet-x/y") of every hierarchy, and removes it. Best effort: a group
 * whose processes are still dying stays. */
void cgroup_remove(const char *path);

typedef struct CgroupSupport {
    unsigned version; /* 1, 2, or 0: none is mounted; hybrid counts as 1 */
    bool memory, pids, cpu;
    bool swap; /* a limit on swap can be set */
} CgroupSupport;
int cgroup_support(CgroupSupport *ret);
