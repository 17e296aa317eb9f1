/* Launcher: the part of limpetd that keeps root's rights. It makes and removes containers, mounts, and the
 * processes that do all the rest, the controller and the files worker, which it starts again when one of them
 * dies. It reads nothing that a client or a guest has written, and what they ask for only as request.h has
 * it.
 */
#pragma once

#include <sys/types.h>

#include "host/config/paths.h"
#include "host/engine/engine.h"
#include "host/privilege/helper.h"

/* The processes that it starts are helpers: each asks it for what it may over HELPER_FD. Where one cannot
 * begin it says why there, and ends. */
#define CONTROLLER_PROGRAM "limpet-controller"
#define FILES_PROGRAM      "limpet-files"

enum {
    LAUNCHER_OTHER_FD = HELPER_FD + 1, /* to the other of the two */
    LAUNCHER_LOCK_FD,                  /* as long as one lives nobody else may begin */
    LAUNCHER_FDS = 2,
};

typedef struct LauncherConfig {
    const Options *options;
    const Paths *paths;
    EngineConfig engine;
    char *const *environment;      /* of the controller and the files worker, with our options */
    Account user;                  /* of both processes */
    Account egress;                /* of the egress process */
    Account net;                   /* of the process that holds the network */
    void (*ready)(void *userdata); /* the controller serves, for the first time */
    void *userdata;
} LauncherConfig;

/* Serves until it is told to end. 0, or negative with the problem set. */
int launcher_run(const LauncherConfig *config, Problem *problem);
