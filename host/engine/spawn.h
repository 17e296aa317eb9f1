/* Starting a program that shares nothing with the controller: its own session, default signals, no raised
 * priority, any processor, and no descriptor but 0, 1 and 2. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* argv[0] is an absolute path. Standard output goes to `stdout_fd`, or nowhere when that is -1; standard
 * input and error are /dev/null. A program that cannot be executed ends with status 127. */
int spawn(const char *const argv[], int stdout_fd, pid_t *ret);

/* Absolute path of a program: `name` itself when it has a slash, otherwise looked for in PATH and in the
 * directories of system programs. -ENOENT. The path is to be freed. */
int spawn_find(const char *name, char **ret);
