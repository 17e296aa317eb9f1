/* Installs: packages for sessions that run. What was resolved before is taken from the store; otherwise an
 * Installer resolves and fetches it, once for all who ask for the same at that time. Installs of one session
 * go one after the other, for each adds to what the last has left. */
#pragma once

#include "host/install/installer.h"

typedef struct Installs {
    Sandboxes *sandboxes;
    List wanted;     /* Install, in the order they were asked for */
    List installers; /* Installer.link */
    LoopTimer trim_timer;
    bool trimming;
    void (*installed)(
        Sandbox *sandbox); /* its packages are others now: to be written down before anyone is told */
    /* Names of sets that sandboxes yet to be made are promised, from 0 on; NULL: no more. */
    const char *(*promised)(const void *userdata, size_t i);
    const void *userdata; /* of the last */
} Installs;

/* Sets up the lists. The other members are their owner's. */
void installs_init(Installs *all);
/* No sandbox is left. */
void installs_deinit(Installs *all);

typedef struct Installed {
    Text lock;
    bool cached;
    double seconds;
} Installed;

/* Events of an install. One of `done` and `failed` is told, once, and not before install_begin() has
 * returned. */
typedef struct InstallEvents {
    /* NULL: nobody listens. `body` is the same, encoded */
    void (*output)(void *userdata, const MsgOutput *output, Text body);
    void (*done)(void *userdata, const Installed *installed);
    void (*failed)(void *userdata, const Problem *problem, Text log);
} InstallEvents;

typedef struct InstallOrder {
    Text requirements; /* of a requirements file */
    double timeout;    /* seconds */
    bool fresh;        /* nothing has run in the session: what its image has may be replaced */
} InstallOrder;

/* Installs in a session's sandbox, which may end meanwhile. 0, or negative with the problem set and nothing
 * begun.
 */
int install_begin(Installs *all, Sandbox *sandbox, const InstallOrder *order, const InstallEvents *events,
                  void *userdata, Problem *problem);
