/* Control groups, version 1, 2 and hybrid, as far as engines need them: the memory and the processor time of
 * a container, and the directories that a runtime leaves behind. */
#pragma once

#include <sys/types.h>

#include "host/engine/engine.h"
#include "proto/base/base.h"

/* A group in the hierarchy that has some controller. */
typedef struct Cgroup {
    char *directory; /* NULL: unknown */
    bool unified;    /* version 2 */
} Cgroup;
void cgroup_deinit(Cgroup *cgroup);

/* The pure part of cgroup_init: from the texts of /proc/PID/cgroup and /proc/self/mountinfo. */
int cgroup_find(const char *groups, const char *mountinfo, const char *controller, Cgroup *ret);

/* Returns whether the group's directory has that name. */
bool cgroup_is_called(const Cgroup *cgroup, const char *name);

/* Groups of a container's processes. Looked up once, while its first process lives; one that is not found
 * stays unknown. */
typedef struct Cgroups {
    Cgroup memory, cpu, cpuacct;
} Cgroups;
void cgroups_init(Cgroups *cgroups, pid_t pid);
void cgroups_deinit(Cgroups *cgroups);
ContainerGroups cgroups_named(const Cgroups *cgroups);

/* Bytes in use, and how many processes the kernel has killed for want of memory; NULL: not asked. */
int cgroup_read_memory(const Cgroup *memory, uint64_t *ret_bytes, uint64_t *ret_kills);

/* Nanoseconds that processes of the group have been on a processor. */
int cgroup_read_time(const Cgroup *cpuacct, uint64_t *ret_nsec);

/* Has the group get a processor only when no other group of those it is among wants it, or as usual again. 0,
 * or a negative errno. */
int cgroup_set_idle(const Cgroup *cpu, bool idle);

/* Opens what that writes to, for writing. A descriptor or a negative errno. */
int cgroup_open_idle(const char *directory);

/* Returns whether a process is in the group `name` or one below it, wherever that is. To be asked while a
 * pidfd of it is held and has not ended, so that the answer is about that process. */
bool cgroup_has_process(const char *name, pid_t pid);

/* Kills what is in the group `path` ("/limpet-x/y") of every hierarchy, and removes it. Best effort: a group
 * whose processes are still dying stays. */
void cgroup_remove(const char *path);

typedef struct CgroupSupport {
    unsigned version; /* 1, 2, or 0: none is mounted; hybrid counts as 1 */
    bool memory, pids, cpu;
    bool swap; /* a limit on swap can be set */
    bool idle; /* cgroup_set_idle() */
} CgroupSupport;
void cgroup_support(CgroupSupport *ret);

/* Called when a runtime is about to be started, which will move a process into the container's group. The
 * kernel makes the first such move wait for an RCU grace period, some 10 ms, and spares those that come soon
 * after it. Some other thread makes a move that changes nothing, so that the grace period passes while the
 * runtime is still loading. Returns at once; where it cannot be done, nothing is lost. */
void cgroup_move_expected(void);
