/* Call: one run of code, from the request to the stored record. A run_id is executed at most once: asked
 * again while it runs the asker joins, afterwards it gets the same record.
 *
 * Records are kept so: the last LIMIT_STORED_RUNS of a session as long as it lives, and for
 * STORED_RUN_SECONDS after its end; all together within a budget of bytes, the oldest going first. */
#pragma once

#include <uthash.h>

#include "host/asks.h"
#include "host/controller.h"
#include "host/request.h"
#include "host/turn.h"
#include "proto/wire.h"

struct Call {
    Turn turn; /* its session is NULL once that is gone, and the call stored */
    Controller *controller;
    char run_id[LIMIT_RUN_ID + 1];
    char *code; /* until it has been sent */
    size_t code_size;
    uint64_t code_hash;      /* to tell when an id is used again for something else */
    double timeout;          /* seconds */
    bool rolls_back;         /* when it does not end `ok` */
    bool adopted;            /* an earlier controller sent it */
    List joined;             /* Requests to be answered with the record */
    List asked;              /* Requests of `result`, to be answered with {run_id, record} */
    Asks asks;               /* questions of the cell */
    Request *stream;         /* the one of `joined` that wants output as it comes, or NULL */
    uint64_t unacknowledged; /* output events the stream has not returned credit for */
    List in_streams;         /* Calls.streams */
    Buf record;              /* the encoded map, once ended */
    UT_hash_handle by_id;
    List in_session;  /* Session.stored, then Calls.orphans */
    List by_age;      /* Calls.by_age */
    uint64_t expires; /* clock_now() nanoseconds, once the session is gone */
};

void calls_init(Controller *controller);
void calls_deinit(Controller *controller);

/* NULL when out of memory. `code` is copied. */
Call *call_new(Controller *controller, const char *run_id, Text code, double timeout);
/* One that an earlier controller sent, of `session`: its code is not known, only what it hashes to. */
Call *call_adopt(Session *session, const char *run_id, uint64_t code_hash);

/* Stores what an earlier controller's session answered that has ended, until `expires`, which is not before
 * that of those restored already. 0 or -ENOMEM. */
int call_restore(Controller *controller, const char *run_id, uint64_t code_hash, Text record,
                 uint64_t expires);

Call *call_find(Controller *controller, const char *run_id);
bool call_is_same(const Call *call, Text code);
static inline bool call_ended(const Call *call)
{
    return call->record.size > 0;
}

/* The request is answered when the call ends, at once if it has. With `stream` it gets events until then, and
 * questions unless `asks` is ASK_NOBODY. */
void call_join(Call *call, Request *request, bool stream, AskMode asks);
void call_ask(Call *call, Request *request, double timeout);

/* The record, encoded; stores the call under its session's list `stored`, writes that down, and then answers
 * everybody: what a client has been told another controller does not tell differently. */
void call_end(Call *call, Buf *record);

/* Answers everybody with an error; the call is forgotten, so the id may be used again. */
void call_fail(Call *call, const Problem *problem);

/* Frees one that has not ended, answering nobody: the next controller will. */
void call_forget(Call *call);

/* Passes an event on to whoever streams. Returns how much credit the guest may have back at once, because
 * nobody reads. */
unsigned call_event(Call *call, MessageKind kind, Text body);

/* A client read `count` output events of the run request `id`. */
void calls_credit(Controller *controller, Peer peer, uint64_t id, const msgpack_object_map *body);

/* A client's connection has ended: nobody reads its streams any more. */
void calls_client_gone(Controller *controller, Peer peer);

/* The session of these stored calls has ended: they go after STORED_RUN_SECONDS. */
void calls_orphan(Controller *controller, List *stored);
void calls_expire(Controller *controller);

void call_free(Call *call);
