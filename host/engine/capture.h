/* Capturing the output of a short program, or the text of a small file. Blocking; for start-up and
 * --check. */
#pragma once

#include "proto/base/buf.h"

/* Runs argv and appends what it prints on standard output, at most the limit of `out`. Returns its exit code,
 * -ETIMEDOUT after `seconds` (it is killed), or another negative errno. */
int capture_program(const char *const argv[], double seconds, Buf *out);

/* The text of a file of at most `limit` bytes, ended with '\0'; to be freed. */
int capture_file(const char *path, size_t limit, char **ret);
