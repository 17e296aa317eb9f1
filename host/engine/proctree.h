/* The processes below one, from /proc. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

#define PROCTREE_MAX 1024

/* Fills ret with `first` and its descendants, parents before children; returns how many there are. */
size_t proctree_list(pid_t first, pid_t ret[PROCTREE_MAX]);

/* Bytes in RAM of all of them together; shared pages count once for each. */
int proctree_memory(pid_t first, uint64_t *ret_bytes);
