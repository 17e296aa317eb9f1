/* Programs that this one starts beside itself. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* The environment of the caller, with `setting` as its LIMPET_SOCKET, or without one where that is NULL. The
 * array is to be freed; `setting` must outlive it. NULL when out of memory. */
char **environment_with(char *setting);

/* Starts a program, found in $PATH, in a session of its own, so that Ctrl-C at the terminal is not for it; it
 * has no descriptor or signal mask of ours. `standard` are its three streams, -1: /dev/null. 0 or a negative
 * errno. */
int spawn_apart(pid_t *ret, char *const argv[], char *const env[], const int standard[static 3]);

/* Waits for the end of a child. Its exit status, 128 and the number of the signal that ended it, or a
 * negative errno where nobody can know. */
int spawn_reap(pid_t pid);
