/* Launcher: the part of limpetd that keeps root's rights. It makes and removes containers, mounts, and the
 * processes that do all the rest, the controller and the files worker, which it starts again when one of them
 * dies. It reads nothing that a client or a guest has written, and what they ask for only as demand.h has it.
 */
#pragma once

#include <sys/types.h>

#include "host/config/paths.h"
#include "host/engine/engine.h"
#include "host/privilege/drop.h"

typedef struct LauncherConfig {
    const Options *options;
    const Paths *paths;
    EngineConfig engine;
    uid_t user;     /* of the controller */
    Account egress; /* of the egress process */
    Account net;    /* of the process that holds the network */
    /* Each in a process of its own: gives up its rights, asks the launcher for what it may over the first
     * socket, and the other of the two over the second, and returns the exit status. */
    int (*controller)(void *userdata, int launcher, int files_worker);
    int (*files_worker)(void *userdata, int launcher, int controller);
    void (*ready)(void *userdata); /* it serves, for the first time */
    void *userdata;
} LauncherConfig;

/* Serves until it is told to end. 0, or negative with the problem set. */
int launcher_run(const LauncherConfig *config, Problem *problem);
