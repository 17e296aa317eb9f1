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
    List uploads;          /* ClientUpload; see ops/files.c */
    List pieces;           /* PiecesOfPeer; see ops/pieces.c */
    List parked;           /* Requests: until all adoptions are settled */
    /* Ends all sessions, or leaves them to the next controller. */
    void (*shutdown)(void *userdata, bool keep);
    void *userdata;
} Front;

/* Sets up the lists. The other members are their owner's. */
void front_init(Front *front);

/* Begins to serve clients: on a socket that listens already and is its own from now on, or (-1) on one it
 * makes. 0, or negative with the problem set. */
int front_open(Front *front, Loop *loop, int listening, Problem *problem);

/* ---- requests that wait ---- */

/* Has a request wait with its message, in that list (NULL: in none). It is charged to its user as long.
 * False, and the request has failed, where there is no memory. */
bool front_park(Request *request, List *list, const msgpack_object_map *body);

/* A request that was parked, and is in no list any more, is handled as if it had come now; or fails, where
 * `failure` is not NULL or the controller ends. */
void front_resume(Front *front, Request *request, const Problem *failure);
/* The same of all in a list. Those that are parked there meanwhile are not among them. */
void front_resume_all(Front *front, List *list, const Problem *failure);

/* Events of adoptions, for which requests wait: userdata is the Front. */
extern const AdoptingEvents front_adopting_events;

/* ---- packages that nobody asked for with `install` ---- */

/* The supervisor passes on what some process of pip in a session wants, which the session's option `pip`
 * allows or not; it is told what comes of it with that id. */
void pip_asked(Front *front, Sandbox *sandbox, uint64_t id, Text packages);
/* Installs what the session's options name, before anyone is told that it is open. Ends in
 * session_all_ready() or session_fail(), later. */
void prepare_session(Front *front, Session *root);
