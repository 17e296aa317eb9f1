/* A bundle: the directory an OCI runtime takes a container's description from, and leaves its pid and log in.
 */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* Makes the directory with config.json in it; nothing is left after a failure. */
int bundle_write(const char *bundle, const char *config);
void bundle_remove(const char *bundle);

/* The pid in a file that a runtime wrote. */
int bundle_read_pid(const char *path, pid_t *ret);
