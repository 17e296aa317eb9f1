/* Launcher: the part of limpetd that keeps root's rights. It makes and removes containers, mounts, and the
 * process that does all the rest, the controller, which it starts again when that dies. It reads nothing that
 * a client or a guest has written, and what the controller asks for only as demand.h has it. */
#pragma once

#include <sys/types.h>

#include "host/config/paths.h"
#include "host/engine/engine.h"

typedef struct LauncherConfig {
    const Options *options;
    const Paths *paths;
    EngineConfig engine;
    uid_t user; /* of the controller */
    /* The controller, in a process of its own: gives up its rights, serves what it has to ask the launcher
     * for over the socket, and returns the exit status. */
    int (*controller)(void *userdata, int socket);
    void (*ready)(void *userdata); /* it serves, for the first time */
    void *userdata;
} LauncherConfig;

/* Serves until it is told to end. 0, or negative with the problem set. */
int launcher_run(const LauncherConfig *config, Problem *problem);
