/* Launch: starts a controller, as tmux starts its server. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/problem.h"

/* Runs `limpetd --detach` for `socket` and waits until it says that a controller answers there, its own or
 * one that was first. 0, -EPROTO with the problem, which has limpetd's own words, or -ENOMEM. `deadline`:
 * clock_now(). */
int launch_controller(const char *socket, uint64_t deadline, Problem *problem);
