/* Controller: owns everything that lives as long as limpetd does. */
#pragma once

#include "host/config/options.h"
#include "host/config/paths.h"

/* Serves until told to stop; `ready` is called once clients can connect. `launcher` is a socket to who has
 * root's rights, the controller's from now on; -1: what they are needed for is done here. The process's exit
 * status is the return value: 0, or negative with problem filled when it could not begin. */
int controller_run(const Options *options, Paths *paths, int launcher, void (*ready)(void *userdata),
                   void *userdata, Problem *problem);
