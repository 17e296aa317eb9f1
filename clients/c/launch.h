/* Programs that this one starts beside itself; and a controller, as tmux starts its server. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Runs `limpetd --detach` for `socket` and waits until it says that a controller answers there, its own or
 * one that was first. 0, -EPROTO with the problem, which has limpetd's own words, or -ENOMEM. `deadline`:
 * clock_now(). */
int launch_controller(const char *socket, uint64_t deadline, Problem *problem);

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
