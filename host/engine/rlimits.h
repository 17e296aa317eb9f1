/* Limits of processes that a container gets, where the controller's own are lower. */
#pragma once

#include <jansson.h>

#include "host/engine/engine.h"

/* Lowers what the array `rlimits` of an OCI configuration asks for to what this process may give. A hard
 * limit above its own needs CAP_SYS_RESOURCE, which sudo and services within containers often lack. */
int rlimits_fit(json_t *rlimits);

/* Refuses a host on which a crash in a container would start a program: the limit that prevents it,
 * RLIMIT_CORE of 1, cannot be set. */
int rlimits_check(Problem *problem);
