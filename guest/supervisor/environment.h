/* The environment of the interpreter: a fixed base, nothing inherited, and what the session's owner set. */
#pragma once

#include "proto/wire.h"

typedef struct Environment {
    char **entries; /* as execve wants them: NAME=value, NULL at the end */
    size_t n;
} Environment;

/* `set` (may be NULL) maps text to text and wins over the base. Entries that no environment can hold are
 * refused. 0, -EPROTO with a Problem, or -ENOMEM. */
int environment_init(Environment *ret, const char *home, const msgpack_object_map *set, Problem *problem);
void environment_deinit(Environment *environment);
