/* Controller: owns everything that lives as long as limpetd does. */
#pragma once

#include "host/config/options.h"
#include "host/config/paths.h"

/* Serves until told to stop; `ready` is called once clients can connect. The process's exit status is the
 * return value: 0, or negative with problem filled when it could not begin. */
int controller_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
                   Problem *problem);
