/* Parts of the controller. */
#pragma once

#include "host/daemon/controller.h"
#include "host/daemon/egress.h"
#include "host/daemon/net.h"
#include "host/front/front.h"
#include "host/journal/adoption.h"
#include "host/journal/ended.h"
#include "host/privilege/remote.h"
#include "host/sandbox/kept.h"

typedef struct Controller {
    const Options *options;
    Paths *paths;
    ControllerPeers peers; /* until they are talked to */
    Remote *remote;
    EgressChild egress; /* where there is no launcher to start it */
    Net net;            /* clients on other machines */
    Loop *loop;
    LoopSignals signals;
    Sandboxes sandboxes;
    Pool *pool;
    Sessions sessions;
    Calls calls;
    Installs installs;
    Ended ended;       /* sessions, of which records are stored */
    Adopting adopting; /* sessions of an earlier controller */
    Kept *kept;        /* leftovers of ended sessions */
    Templates templates;
    Front front;
    LoopTimer shutdown_timer;
    LoopTimer sweep_timer;
} Controller;

/* Ends the loop when the last sandbox is gone of a controller that shuts down. */
void controller_stop_if_empty(Controller *controller);

/* Events of sandboxes and sessions, told to the controller: their `userdata` is the Controller. */
extern const SandboxesEvents controller_sandboxes_events;
extern const SessionsEvents controller_sessions_events;
