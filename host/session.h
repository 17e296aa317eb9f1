/* Session: what clients see: a name, live variables, and the calls on them. It lives in a Sandbox, alone or
 * with the branches made of it. */
#pragma once

#include <uthash.h>

#include "host/call.h"
#include "host/controller.h"
#include "host/order.h"
#include "host/sandbox.h"

typedef enum SessionState {
    SESSION_STARTING,
    SESSION_READY,
    SESSION_CLOSING,
} SessionState;

/* Someone who waits for a session to be gone altogether, so that its name is free again. */
typedef struct SessionWaiter SessionWaiter;
struct SessionWaiter {
    List link;
    void (*on_gone)(SessionWaiter *waiter);
};

/* What a name begins with that is no user's: of a session for one call, and of a spare. */
#define PRIVATE_MARK "~"

struct Session {
    Controller *controller;
    Sandbox *sandbox;
    char name[LIMIT_SESSION_PATH + 1];
    char instance[17]; /* names this life of the session */
    SessionState state;
    bool announced;  /* someone has been told that it was created */
    uint64_t branch; /* its number to the guest; 0: the trunk */

    size_t queued; /* of the sandbox's turns */
    List stored;   /* Call.in_session, oldest first */
    size_t stored_count;

    uint64_t execution_count;
    uint64_t epoch;
    double created; /* Unix seconds */
    uint64_t used;  /* clock_now() of the last turn's end */
    LoopTimer idle_timer;

    List openers; /* Requests waiting for READY */
    List waiters; /* SessionWaiter */
    List closers; /* Requests waiting for the end */
    UT_hash_handle by_name;
    List in_sandbox;
};

/* Begins a session in a sandbox of its own; it is in the table from now on, STARTING. `options` is taken
 * over. */
int session_start(Session **ret, Controller *controller, const char *name, const char *output_id,
                  SessionOptions *options, Problem *problem);

/* The request is answered when the session is READY, or has failed. */
void session_wait_open(Session *session, Request *request);

/* Queues a call; ERR_BUSY when too many wait. */
int session_run(Session *session, Call *call, Problem *problem);

/* Queues an order, which is the session's from now on; answers it with ERR_BUSY when too many wait. */
void session_order(Session *session, Order *order);

/* The call that runs, or NULL. */
Call *session_running(const Session *session);

/* Ends whatever the call does: interrupts it when it runs, answers it when it waits. Whether it was there. */
bool session_interrupt(Session *session, Call *call);

/* Gives the guest back credit for output events of the running call. */
void session_grant(Session *session, const Call *call, unsigned count);

/* A reset ends a call of the session that runs, and goes before everything that waits. */
void session_reset(Session *session, Order *order);

/* Begins a branch of `origin`, whose own name is `name`; it is in the table from now on, STARTING until it
 * becomes ready or ends. */
int session_start_branch(Session **ret, Session *origin, Text name, Problem *problem);

/* The supervisor has made it. */
void session_branch_made(Session *branch);

/* Its variables are gone, or never were: what waits for it ends for that reason, and it is freed; unless its
 * whole sandbox ends, which does the same. */
void session_end_branch(Session *branch, const Problem *problem);

/* Ends the session: a running call ends as `failed`, waiting ones with SessionClosed. `request` may be
 * NULL. The trunk takes its branches with it. */
void session_close(Session *session, Request *request, const char *reason);

/* Calls waiter->on_gone once the session is; it is CLOSING. */
void session_wait_gone(Session *session, SessionWaiter *waiter);

/* `starting`, `idle`, `running` or `closing`. */
const char *session_status(const Session *session);
bool session_busy(const Session *session); /* something of it runs or waits */
