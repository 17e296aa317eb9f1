/* Session: a name, a container, and the calls that run in it one at a time.
 *
 *   STARTING ── container started and guest said hello ──► READY ── close, ttl, container gone ──► CLOSING
 * ──► freed └───────────────── could not be started ──────────────────────────────────────────────────►┘ */
#pragma once

#include <uthash.h>

#include "host/call.h"
#include "host/controller.h"
#include "host/engine/engine.h"
#include "host/files/artifacts.h"
#include "host/files/sessiondir.h"
#include "host/guest.h"
#include "host/session_options.h"

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

struct Session {
    Controller *controller;
    char name[LIMIT_SESSION_NAME + 1];
    char instance[17]; /* names this life of the session */
    SessionState state;
    bool ephemeral;
    SessionOptions options;

    SessionDir directory;
    Artifacts *artifacts;      /* of /session/artifacts */
    Artifacts *work_artifacts; /* of /work/artifacts, ephemeral ones only */
    ArtifactList *published;   /* by the call that is ending */

    Container *container;
    char container_name[64];
    bool container_started;
    bool guest_ready;
    Guest *guest;
    LoopTimer start_timer;

    Call *running;
    Buf executed; /* what the guest said of it, while its artifacts are published */
    List queue;   /* Call.in_session */
    size_t queued;
    LoopTimer watchdog; /* the guest must answer the running call before */
    List stored;        /* Call.in_session, oldest first */
    size_t stored_count;

    uint64_t execution_count;
    uint64_t epoch;
    uint64_t oom_kills; /* by the kernel, in this container so far */
    double created;     /* Unix seconds */
    uint64_t used;      /* clock_now() of the last call's end */
    LoopTimer idle_timer;

    List openers;   /* Requests waiting for READY */
    List resetters; /* Requests waiting for the guest's reply */
    List waiters;   /* SessionWaiter */
    List closers;   /* Requests waiting for the end */
    UT_hash_handle by_name;
};

/* Begins a session; it is in the table from now on, STARTING. `options` is taken over. */
int session_start(Session **ret, Controller *controller, const char *name, bool ephemeral,
                  const char *output_id, SessionOptions *options, Problem *problem);

/* The request is answered when the session is READY, or has failed. */
void session_wait_open(Session *session, Request *request);

/* Queues a call; ERR_BUSY when too many wait. */
int session_run(Session *session, Call *call, Problem *problem);

/* Ends whatever the call does: interrupts it when it runs, answers it when it waits. Whether it was there. */
bool session_interrupt(Session *session, Call *call);

/* Gives the guest back credit for output events of the running call. */
void session_grant(Session *session, const Call *call, unsigned count);

void session_reset(Session *session, Request *request);

/* Ends the session: a running call ends as `failed`, waiting ones with SessionClosed. `request` may be NULL.
 */
void session_close(Session *session, Request *request, const char *reason);

/* Calls waiter->on_gone once the session is; it is CLOSING. */
void session_wait_gone(Session *session, SessionWaiter *waiter);

const char *session_status(const Session *session);
