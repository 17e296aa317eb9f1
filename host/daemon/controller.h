/* Controller: owns everything that lives as long as limpetd does. */
#pragma once

#include "host/config/options.h"
#include "host/config/paths.h"

/* Sockets, the controller's from now on. */
typedef struct ControllerPeers {
    int launcher, files_worker;
} ControllerPeers;

#define CONTROLLER_PEERS_NULL ((ControllerPeers){-1, -1})

/* Gets what the engine needs of a user who is not root: a user namespace (host/engine/rootless.h). Before
 * anything else of this process has begun. 0, or negative with the problem set. */
int controller_claim_rights(const Options *options, Paths *paths, Problem *problem);

/* Serves until told to stop; `ready` is called once clients can connect. `peers` are the processes
 * that have the rights it lacks; NULL: what they are needed for is done here. The process's exit
 * status is the return value: 0, or negative with problem filled when it could not begin. */
int controller_run(const Options *options, Paths *paths, const ControllerPeers *peers,
                   void (*ready)(void *userdata), void *userdata, Problem *problem);
