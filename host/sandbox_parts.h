/* What the parts of a sandbox share among themselves: sandbox.c (life), sandbox_places.c (its directories),
 * sandbox_start.c (its container), sandbox_spare.c (before it is anyone's), sandbox_turns.c (one thing after
 * the other), sandbox_calls.c (calls), sandbox_publish.c (what they leave in artifacts), sandbox_guest.c
 * (messages of the supervisor), and with asks.c, order.c, session.c and session_branch.c. Nobody else
 * includes this. */
#pragma once

#include "host/call.h"
#include "host/order.h"
#include "host/record.h"
#include "host/sandbox.h"
#include "host/session.h"

/* sandbox.c */
void sandbox_become_ready(Sandbox *sandbox); /* when both the container and the guest are */
/* In no table yet; `options` is taken over. NULL when out of memory. */
Sandbox *sandbox_new(Controller *controller, Session *trunk, bool ephemeral, SessionOptions *options);
int sandbox_watch_artifacts(Sandbox *sandbox, Problem *problem);
void sandbox_note_kills(Sandbox *sandbox); /* those that were before now count for no call */
/* The first half of closing it: everything but its container. */
void sandbox_begin_closing(Sandbox *sandbox, const char *reason);
void sandbox_end(Sandbox *sandbox);  /* no container is left: frees all of it */
void sandbox_free(Sandbox *sandbox); /* without its sessions */

/* sandbox_places.c */
/* Begins to make its directories and where its supervisor connects. Where a thread is needed for it `made` is
 * called when they are there, or cannot be (failure is not NULL), unless the sandbox ends before; otherwise
 * it is not, and they are there now. 0, or negative with the problem set. */
int sandbox_make_places(Sandbox *sandbox, const char *output_id,
                        void (*made)(Sandbox *sandbox, const Problem *failure), Problem *problem);

/* sandbox_start.c */
/* As sandbox_start, for one that is new: freed on failure, but for its trunk. */
int sandbox_begin(Sandbox *sandbox, const char *output_id, Problem *problem);
int sandbox_adopt_container(Sandbox *sandbox,
                            Problem *problem); /* it has begun then, as after sandbox_start */
/* The second half of closing it; sandbox_end follows. */
void sandbox_remove_container(Sandbox *sandbox);

/* sandbox_turns.c */
void sandbox_next(Sandbox *sandbox);                    /* starts the next turn when nothing runs */
void sandbox_queue_first(Sandbox *sandbox, Turn *turn); /* before all that wait; starts nothing */
void sandbox_unqueue(Sandbox *sandbox, Turn *turn);     /* one that waits */
void sandbox_set_running(Sandbox *sandbox, Turn *turn); /* NULL: nothing runs */
/* Nothing runs now, as a turn of `session` has ended. */
void sandbox_turn_over(Sandbox *sandbox, Session *session);
/* Ends those of one session, or of all (NULL). An order of one session that runs goes on. */
void sandbox_end_turns(Sandbox *sandbox, const Session *only, const char *reason);
/* Ends an order of that session which runs. */
void sandbox_end_running_order(Sandbox *sandbox, const Session *session, const Problem *problem);
void sandbox_forget_turns(Sandbox *sandbox); /* as they are left to the next controller */
/* The supervisor must answer the running turn within that. */
void sandbox_watch(Sandbox *sandbox, double seconds);
void sandbox_watch_call(Sandbox *sandbox, const Call *call);        /* as long as it may take from now on */
Call *sandbox_running_call(const Sandbox *sandbox);                 /* NULL when none runs */
Order *sandbox_sent_order(const Sandbox *sandbox, uint64_t number); /* by its message; NULL when unknown */
/* One whose answer is waited for, sent before the message of that number; NULL when there is none. */
Order *sandbox_order_sent_before(const Sandbox *sandbox, uint64_t number);

/* sandbox_calls.c */
void sandbox_start_call(Sandbox *sandbox, Call *call);
/* The running one has ended; `artifacts` may be NULL. */
void sandbox_finish_call(Sandbox *sandbox, const MsgExecuted *executed, const ArtifactList *artifacts);
void sandbox_fail_call(Sandbox *sandbox, const Problem *problem);       /* the running one */
void sandbox_lose_call(Call *call, bool ran, const char *reason);       /* its session ends */
void sandbox_grant(Sandbox *sandbox, const Call *call, unsigned count); /* credit for its output */
/* Ends a call that has no more than a reason. */
void sandbox_end_bare(Call *call, const char *status, const char *state, const char *name,
                      const char *message);

/* sandbox_publish.c */
/* The running call has ended, as its supervisor tells: its artifacts are published, then its record is made.
 */
void sandbox_call_executed(Sandbox *sandbox, const Message *message, const MsgExecuted *executed);

/* sandbox_guest.c */
extern const GuestEvents sandbox_guest_events;
int sandbox_send(Sandbox *sandbox, MessageKind kind, uint64_t id); /* a message without fields */

/* session.c */
Session *session_new(Controller *controller, const char *name); /* NULL when out of memory; in no table yet */
void session_become_ready(Session *session);
void session_rest(Session *session); /* nothing of it runs: its ttl counts */
void session_fail_openers(Session *session, const Problem *problem);
void session_set_closing(Session *session, const char *reason); /* it opens for nobody any more */

/* session_branch.c */
void session_close_branch(Session *branch, const char *reason);
/* Has the supervisor end a branch that no session stands for, or one that is CLOSING. */
void sandbox_drop_branch(Sandbox *sandbox, uint64_t branch);

/* Those who wait for the end of sessions that have been freed; told when all is gone. */
typedef struct Farewell {
    List closers; /* Requests */
    List waiters; /* SessionWaiter */
} Farewell;

void farewell_init(Farewell *farewell);
void session_free(Session *session, Farewell *farewell);
void farewell_tell(Farewell *farewell, Controller *controller);
