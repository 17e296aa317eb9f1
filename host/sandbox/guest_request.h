/* GuestRequest: what a supervisor is asked, from when it waits to be sent until it is answered. Each is
 * embedded in what it is about: a call, an order on the variables, a query about files or processes.
 *
 *   WAITING ── its turn comes ──► PREPARING ── sent ──► SENT ── the supervisor's answer ──► ANSWERED ──► over
 *      └───────────────────── sent before its turn comes ─────►┘
 *
 * Its lane says for what it waits. An AsyncStep is what it has going on outside the loop: a publication, a
 * copy of files. It has at most one. A request that ends first detaches it: the step then belongs to nobody,
 * and whoever made it frees it when it completes. */
#pragma once

#include "proto/base/buf.h"
#include "proto/base/list.h"
#include "proto/base/problem.h"
#include "proto/wire.h"

typedef struct Sandbox Sandbox;
typedef struct Session Session;
typedef struct GuestRequest GuestRequest;

typedef enum GuestLane {
    LANE_EXCLUSIVE, /* one at a time, in the order asked for: all that uses the variables */
    LANE_PROGRAM,   /* all at once, beside those: commands and processes */
    /* Queries, as many at once as their lane takes, so that none that takes long holds up those of another
     * lane. An answer that is lost with the connection does not come again: they fail. */
    LANE_SHORT,
    LANE_WATCH,   /* for what happens to files */
    LANE_PROCESS, /* for what a process writes or reads, or for a port */
} GuestLane;

typedef enum GuestRequestState {
    REQUEST_WAITING,
    REQUEST_PREPARING, /* its step comes first */
    REQUEST_SENT,      /* the supervisor has it */
    REQUEST_ANSWERED,  /* and has said how it ended; a step may follow */
    REQUEST_OVER,
} GuestRequestState;

typedef struct GuestRequestOps {
    bool outlives_session; /* goes on when its session is closed while it runs */
    /* Returns whether its session may end for idleness although the request goes on; NULL: it may not. */
    bool (*is_idle)(const GuestRequest *request);
    /* Its turn has come, and the supervisor takes it: it runs, until sandbox_take_out(). Not of a query,
     * whose body is sent. */
    void (*start)(GuestRequest *request);
    /* Handles a message about the request while it is SENT. -EPROTO with the problem set when no honest
     * supervisor sends it. */
    int (*message)(GuestRequest *request, const Message *message, Problem *problem);
    /* The connection broke while it was SENT, and the supervisor does not name it among its commands. NULL:
     * the supervisor says again how it ended, and a query fails. */
    void (*cut_off)(GuestRequest *request);
    /* Ends the request, as its sandbox cannot be had. */
    void (*fail)(GuestRequest *request, const Problem *problem);
    /* Its session ends; ends it. NULL, here and below: it fails. */
    void (*end)(GuestRequest *request, const char *reason);
    /* Its sandbox is left to the next controller; frees it. */
    void (*leave)(GuestRequest *request);
} GuestRequestOps;

typedef struct AsyncStep {
    GuestRequest *request; /* NULL once detached */
} AsyncStep;

struct GuestRequest {
    List link; /* Sandbox.waiting of its lane while it waits, Sandbox.programs or Sandbox.queries */
    const GuestRequestOps *ops;
    GuestLane lane;
    Sandbox *sandbox;
    Session *session; /* that it is of: nothing here looks into it. NULL once that is gone, and of a query */
    GuestRequestState state;
    bool interrupted; /* the supervisor was asked to end it */
    uint64_t number;  /* of its message to the supervisor, once it is sent */
    MessageKind kind; /* of that, where guest_request_send() sends it */
    Buf body;         /* its body: an encoded map */
    AsyncStep *step;  /* NULL: none */
};

static inline void guest_request_init(GuestRequest *request, const GuestRequestOps *ops, GuestLane lane,
                                      Sandbox *sandbox, Session *session)
{
    list_init(&request->link);
    request->ops = ops;
    request->lane = lane;
    request->sandbox = sandbox;
    request->session = session;
}

/* Gives it a number and sends kind and body: it is SENT. 0 or a negative errno. */
int guest_request_send(GuestRequest *request);

static inline void async_step_attach(AsyncStep *step, GuestRequest *request)
{
    step->request = request;
    request->step = step;
}

static inline void async_step_detach(AsyncStep *step)
{
    if (step->request)
        step->request->step = NULL;
    step->request = NULL;
}

static inline void guest_request_detach_step(GuestRequest *request)
{
    if (request->step)
        async_step_detach(request->step);
}
