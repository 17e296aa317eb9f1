/* The text that the kernel tells of one process. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* Reads /proc/PID/`name` once, up to `size` - 1 bytes; `to` is terminated. The count, or a negative errno. */
ssize_t proc_read(pid_t pid, const char *name, char *to, size_t size);
