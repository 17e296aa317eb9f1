/* Finding processes that an earlier controller started: they are known by their command line. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* Calls `found` for every process of this user that was started with the argument `option` and, behind it, a
 * value that begins with `prefix`. A process that was just forked from such a one and has not yet become
 * another program is not told of. */
void process_find(const char *option, const char *prefix,
                  void (*found)(void *userdata, pid_t pid, const char *value), void *userdata);

/* Returns whether the process is one that process_find would find with just this value. To be asked after a
 * pidfd has been opened, so that it is known whose it is. */
bool process_is(pid_t pid, const char *option, const char *value);
