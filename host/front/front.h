/* Front: the client-facing socket, and what requests are served with. A frame in becomes a Request for an op;
 * nothing else enters here. */
#pragma once

#include "host/journal/adoption.h"
#include "host/call/call.h"
#include "host/install/installs.h"
#include "host/pool/pool.h"
#include "host/session/session.h"
#include "host/template/templates.h"

typedef struct Front {
    const Options *options;
    const Paths *paths;
    Listener *clients;
    Sandboxes *sandboxes;
    Sessions *sessions;
    Calls *calls;
    Adopting *adopting;
    Pool *pool;
    Templates *templates;
    Installs *installs;
    bool shared;           /* the members of a group are let in, too */
    bool closing;          /* nothing is begun any more */
    List shutdown_waiters; /* Requests */
    List uploads;          /* ClientUpload; see ops/put.c */
    List deferred;         /* Deferred: until all adoptions are settled; see defer.h */
    /* Ends all sessions, or leaves them to the next controller. */
    void (*shutdown)(void *userdata, bool keep);
    void *userdata;
} Front;

/* Sets up the lists. The other members are their owner's. */
void front_init(Front *front);

/* Begins to serve clients: on a socket that listens already and is its own from now on, or (-1) on one it
 * makes. 0, or negative with the problem set. */
int front_open(Front *front, Loop *loop, int listening, Problem *problem);
