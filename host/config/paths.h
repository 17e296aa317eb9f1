/* Where the controller keeps things, and that it is the only one to do so. */
#pragma once

#include "host/config/options.h"

typedef struct Paths {
    char *state_dir;   /* absolute, 0700 */
    char *runtime_dir; /* absolute, 0700: this controller's part of the runtime directory */
    char *socket;      /* where clients connect */
    char *guest;       /* the limpet-guest program for the local engine */
    char owner[17];    /* names this state directory on container labels */
    int lock;          /* held as long as the controller lives */
} Paths;

#define PATHS_NULL ((Paths){.lock = -1})

/* Works out the directories and makes them. */
int paths_init(Paths *paths, const Options *options, Problem *problem);
void paths_deinit(Paths *paths);

/* Takes the state directory for this process. 0; -EWOULDBLOCK when another controller holds it, and problem
 * says which one. */
int paths_lock(Paths *paths, Problem *problem);
