/* The environment of the interpreter and of commands: a fixed base, nothing inherited, and what the session's
 * owner set. */
#pragma once

#include "proto/wire.h"

typedef struct Environment {
    char **entries; /* NAME=value each, NULL at the end, as execve wants them */
    size_t n;
} Environment;

/* `set` (may be NULL) maps text to text and wins over the base, and over what says that `port` of the
 * loopback leads to the network (0: none does). How many threads libraries start comes from OMP_NUM_THREADS
 * of this process. Entries that no environment can hold are refused. 0, -EPROTO with a Problem, or -ENOMEM.
 */
int environment_init(Environment *ret, const char *home, uint16_t port, const msgpack_object_map *set,
                     Problem *problem);
/* The same as `of`, and what `set` has wins over that. */
int environment_extend(Environment *ret, const Environment *of, const msgpack_object_map *set,
                       Problem *problem);
/* The same as `of`, with what says that of `port`, where it has no such variables. 0 or -ENOMEM. */
int environment_proxy(Environment *ret, const Environment *of, uint16_t port);
void environment_deinit(Environment *environment);

/* Returns whether the entry is one of those variables. */
bool environment_is_of_proxy(const char *entry);

bool environment_equal(const Environment *one, const Environment *other);

/* Returns whether the change needs a new process: the two differ in a variable that is read only when Python
 * or a library of it starts. */
bool environment_needs_start(const Environment *from, const Environment *to);
