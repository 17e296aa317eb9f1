/* Controller: owns everything that lives as long as limpetd does. */
#pragma once

#include "host/courtesy.h"
#include "host/files/worker.h"
#include "host/link/listener.h"
#include "host/options.h"
#include "host/paths.h"
#include "proto/base/list.h"
#include "proto/base/loop.h"

typedef struct Engine Engine;
typedef struct Session Session;
typedef struct Call Call;
typedef struct Guest Guest;
typedef struct Kept Kept;
typedef struct Pool Pool;

/* Every call that runs or is stored. */
typedef struct Calls {
    Call *by_id;  /* uthash by run_id */
    List by_age;  /* stored ones, oldest first */
    List orphans; /* stored ones whose session is gone, in the order they expire */
    List streams; /* those with a stream */
    List asking;  /* those whose questions somebody has joined to answer */
    size_t bytes; /* of all stored records */
    LoopTimer timer;
} Calls;

/* Files with the records of sessions that have ended; see journal_ended.h. */
typedef struct Ended {
    List files; /* in the order they expire */
    uint64_t bytes;
    LoopTimer timer;
} Ended;

typedef struct Controller {
    const Options *options;
    const Paths *paths;
    Loop *loop;
    Listener *clients;
    List guests_all; /* Guest */
    Engine *engine;
    Worker *worker;
    Worker *makers;    /* of disks: somebody waits for them */
    bool has_disks;    /* what a session writes has a file system of its own */
    Session *sessions; /* uthash by name */
    size_t session_count;
    List sandboxes; /* all that are not freed */
    Pool *pool;
    Calls calls;
    Ended ended;
    Courtesies courtesies;
    List epitaphs; /* the oldest first; see epitaph.h */
    size_t epitaph_count;
    Kept *kept;           /* what ended sessions left */
    size_t adopting;      /* sandboxes */
    List adopt_waiting;   /* see adopt_wait.h */
    uint64_t last_number; /* of a request to a guest */
    LoopSignals signals;
    LoopTimer shutdown_timer;
    LoopTimer sweep_timer;
    bool closing;
    List shutdown_waiters; /* Request */
} Controller;

/* Serves until told to stop; `ready` is called once clients can connect. The process's exit status is the
 * return value: 0, or negative with problem filled when it could not begin. */
int controller_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
                   Problem *problem);

/* Ends every session, then the loop. With `keep` those that are open are left to the next controller. */
void controller_shutdown(Controller *controller, bool keep);

/* A session is gone: a controller that is shutting down ends when no sandbox is left. */
void controller_session_gone(Controller *controller);
