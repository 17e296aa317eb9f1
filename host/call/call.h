/* Call: one run of code, or of a command, from the request to the stored record. A run_id is executed at most
 * once: asked again while it runs the asker joins, afterwards it gets the same record.
 *
 * Records are kept so: the last LIMIT_STORED_RUNS of a session as long as it lives, and for
 * STORED_RUN_SECONDS after its end; all together within a budget of bytes, the oldest going first. */
#pragma once

#include <uthash.h>

#include "host/link/request.h"
#include "host/session/session.h"
#include "proto/ask_mode.h"

typedef struct Call Call;

/* The questions of a cell to the client that runs it. The controller looks into neither question nor answer.
 * A question waits here until it is answered, so that a client that joins the call later gets it. */
typedef struct Asks {
    AskMode mode;     /* what its supervisor is told */
    Request *request; /* the one of Call.joined that is asked, or NULL */
    List waiting;     /* questions, in the order they came */
    size_t waiting_count;
    uint64_t asked; /* questions in all */
    List in_asking; /* Calls.asking */
} Asks;

/* Every call that runs or is stored, and what they share. */
typedef struct Calls {
    Loop *loop;
    Call *by_id;  /* uthash by CallKey */
    List by_age;  /* stored ones, oldest first */
    List orphans; /* stored ones whose session is gone, in the order they expire */
    List streams; /* those with a stream */
    List asking;  /* those whose questions somebody has joined to answer */
    List waited;  /* those whose end was asked for with `result` */
    size_t bytes; /* of all stored records */
    LoopTimer timer;
    void (*ended)(const Call *call); /* one has; before anybody is told. May be NULL */
} Calls;

/* Key of the table of calls: an id is that of the user who chose it. */
typedef struct CallKey {
    uid_t user;
    char run_id[LIMIT_RUN_ID + 1];
} CallKey;

struct Call {
    GuestRequest to_guest; /* TURN_OVER: it is stored */
    Calls *all;
    union {
        CallKey key;
        struct {
            uid_t user; /* whose session it ran in */
            char run_id[LIMIT_RUN_ID + 1];
        };
    };
    char *code; /* until it is over; of a command its program, encoded */
    size_t code_size;
    uint64_t code_hash;      /* to tell when an id is used again for something else */
    double timeout;          /* seconds */
    bool rolls_back;         /* when it does not end `ok` */
    bool last;               /* its session ends with it */
    bool adopted;            /* an earlier controller sent it */
    bool resent;             /* the connection broke while it was sent */
    List joined;             /* Requests to be answered with the record */
    List starting;           /* Requests of `start`, to be answered once it runs in the background */
    bool started;            /* it does, or has */
    List asked;              /* Requests of `result`, to be answered with {run_id, record} */
    Asks asks;               /* questions of the cell */
    Request *stream;         /* the one of `joined` that wants output as it comes, or NULL */
    uint64_t unacknowledged; /* output events the stream has not returned credit for */
    List in_streams;         /* Calls.streams */
    List in_waited;          /* Calls.waited */
    Buf record;              /* the encoded map, once it is over */
    UT_hash_handle by_id;
    List in_session;  /* Session.stored, then Calls.orphans */
    List by_age;      /* Calls.by_age */
    uint64_t expires; /* clock_now() nanoseconds, once the session is gone */
    LoopTimer stuck;  /* of a command: its supervisor must answer before */
};

/* Sets up the lists; the loop, and whom to tell, are their owner's. */
void calls_init(Calls *all);
void calls_deinit(Calls *all);

/* ---- its life ---- */

/* Makes a call of a session that does not close. NULL when out of memory. `code` is copied. */
Call *call_new(Calls *all, const GuestRequestOps *kind, Session *session, const char *run_id, Text code,
               double timeout);
/* Makes a call that an earlier controller sent: its code is not known, only the hash of it. */
Call *call_adopt(Calls *all, const GuestRequestOps *kind, Session *session, const char *run_id,
                 uint64_t code_hash);

/* Stores what an earlier controller's session answered that has ended, until `expires`, which is not before
 * that of those restored already. 0 or -ENOMEM. */
int call_restore(Calls *all, uid_t user, const char *run_id, uint64_t code_hash, Text record,
                 uint64_t expires);

Call *call_find(const Calls *all, uid_t user, const char *run_id);
bool call_is_same(const Call *call, Text code);
static inline bool call_is_over(const Call *call)
{
    return call->to_guest.state == REQUEST_OVER;
}

/* The request is answered when the call ends, at once if it has. With `stream` it gets events until then, and
 * questions unless `asks` is ASK_NOBODY. */
void call_join(Call *call, Request *request, bool stream, AskMode asks);
void call_ask(Call *call, Request *request, double timeout);
/* The request is answered once the call has started, or has failed to. */
void call_await_start(Call *call, Request *request);
void call_note_started(Call *call);

/* The record, encoded; stores the call under its session's list `stored`, answers everybody, and has it
 * written down: the answers leave when the loop turns, and so what a client has been told no other controller
 * tells differently. */
void call_end(Call *call, Buf *record);

/* Answers everybody with an error; the call is forgotten, so the id may be used again. */
void call_fail(Call *call, const Problem *problem);

/* Frees one that has not ended, answering nobody: the next controller will. */
void call_forget(Call *call);

/* Passes an event on to whoever streams. Returns how much credit the guest may have back at once, because
 * nobody reads. */
unsigned call_event(Call *call, MessageKind kind, Text body);

/* A client read `count` output events of the run request `id`. */
void calls_credit(Calls *all, Peer peer, uint64_t id, const msgpack_object_map *body);

/* A client's connection has ended: nobody reads its streams any more. */
void calls_client_gone(Calls *all, Peer peer);

/* The session of these stored calls has ended: they go after STORED_RUN_SECONDS. */
void calls_orphan(Calls *all, List *stored);
void calls_expire(Calls *all);

/* ---- its execution ---- */

extern const GuestRequestOps call_turn_ops;    /* of code: one after the other */
extern const GuestRequestOps command_turn_ops; /* of commands, which run beside these and each other */
extern const GuestRequestOps process_turn_ops; /* the same, in the background: until they end by themselves */

/* Queues it; ERR_BUSY when too many wait. */
int call_queue(Call *call, Problem *problem);
/* An earlier controller sent it, and it runs, or has ended while nobody listened. */
void call_resume(Call *call, uint64_t number);

/* The call of a session that runs, or NULL. */
Call *call_running(const Session *session);

/* Ends whatever it does: interrupts it when it runs, answers it when it waits. Whether it was there. */
bool call_interrupt(Call *call);

/* Gives the supervisor back credit for output events of one that was SENT. */
void call_grant(const Call *call, unsigned count);

/* Its supervisor must answer within as long as it may take from now on. */
void call_watch(const Call *call);

/* The last call of a session that is to close, and does nothing: what is registered for the end of Python is
 * run. Whether it has begun. */
bool call_last(Calls *all, Session *session);

/* ---- its questions ---- */

/* The supervisor of the running call passes a question on. -EPROTO with the problem set when no honest one
 * does. */
int asks_question(Call *call, const msgpack_object_map *body, Problem *problem);

/* A client's answer to a question of the run request `id`; one that nobody waits for is ignored. */
void asks_answer(Calls *all, Peer peer, uint64_t id, const msgpack_object_map *body);

/* The call is being interrupted: its supervisor's time counts although questions wait. */
void asks_interrupt(Call *call);
