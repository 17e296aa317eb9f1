/* Starting programs that share nothing with this process: a session of their own, default signals, no raised
 * priority, any processor, the limit of descriptors that this process began with, and no descriptor but 0, 1
 * and 2. Capturing their output, or the text of a small
 * file, blocks. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/buf.h"

/* Lets this process, and those of its own that it starts, have as many descriptors as the hard limit allows.
 */
void raise_descriptor_limit(void);

/* argv[0] is an absolute path. Standard output goes to `stdout_fd`, or nowhere when that is -1; standard
 * input and error are /dev/null. A program that cannot be executed ends with status 127. */
int spawn(const char *const argv[], int stdout_fd, pid_t *ret);

/* Absolute path of a program: `name` itself when it has a slash, otherwise looked for in PATH and in the
 * directories of system programs. -ENOENT. The path is to be freed. */
int spawn_find(const char *name, char **ret);

/* Runs argv and appends what it prints on standard output, at most the limit of `out`. Returns its exit code,
 * -ETIMEDOUT after `seconds` (it is killed), or another negative errno. */
int capture_program(const char *const argv[], double seconds, Buf *out);

/* The text of a file of at most `limit` bytes, ended with '\0'; to be freed. */
int capture_file(const char *path, size_t limit, char **ret);
