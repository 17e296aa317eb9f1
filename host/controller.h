/* Controller: owns everything that lives as long as limpetd does. */
#pragma once

#include "host/files/worker.h"
#include "host/link/router.h"
#include "host/options.h"
#include "host/paths.h"
#include "proto/base/list.h"
#include "proto/base/loop.h"

typedef struct Engine Engine;
typedef struct Session Session;
typedef struct Call Call;
typedef struct Guest Guest;

/* Every call that runs or is stored. */
typedef struct Calls {
    Call *by_id;  /* uthash by run_id */
    List by_age;  /* stored ones, oldest first */
    List orphans; /* stored ones whose session is gone, in the order they expire */
    List streams; /* those with a stream */
    size_t bytes; /* of all stored records */
    LoopTimer timer;
} Calls;

typedef struct Controller {
    const Options *options;
    const Paths *paths;
    Loop *loop;
    void *link_context;
    Router *clients;
    Router *guests;
    Guest *guests_by_peer; /* uthash */
    List guests_all;       /* Guest */
    Engine *engine;
    Worker *worker;
    Session *sessions; /* uthash by name */
    size_t session_count;
    Calls calls;
    uint64_t last_number; /* of a request to a guest */
    LoopSignals signals;
    LoopTimer shutdown_timer;
    bool closing;
    List shutdown_waiters; /* Request */
} Controller;

/* Serves until told to stop; `ready` is called once clients can connect. The process's exit status is the
 * return value: 0, or negative with problem filled when it could not begin. */
int controller_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
                   Problem *problem);

/* Ends every session, then the loop. */
void controller_shutdown(Controller *controller);

/* A session is gone: the last one ends a controller that is shutting down. */
void controller_session_gone(Controller *controller);
