/* Processes outside containers, from /proc: those below one, and those that an earlier controller started,
 * which are known by their command line. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

#define PROCTREE_MAX 1024

/* Fills ret with `first` and its descendants, parents before children; returns how many there are. */
size_t proctree_list(pid_t first, pid_t ret[PROCTREE_MAX]);

/* Bytes in RAM of all of them together; shared pages count once for each. */
int proctree_memory(pid_t first, uint64_t *ret_bytes);

/* Calls `found` for every process of this user that was started with the argument `option` and, behind it, a
 * value that begins with `prefix`. A process that was just forked from such a one and has not yet become
 * another program is not told of. */
void process_find(const char *option, const char *prefix,
                  void (*found)(void *userdata, pid_t pid, const char *value), void *userdata);

/* Returns whether the process is one that process_find would find with just this value. To be asked after a
 * pidfd has been opened, so that it is known whose it is. */
bool process_is(pid_t pid, const char *option, const char *value);
