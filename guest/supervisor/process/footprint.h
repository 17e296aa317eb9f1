/* Footprint: the memory that a process holds; and what it has used so far. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

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
