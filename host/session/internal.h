/* Shared by the files of a session, and included by nobody else. */
#pragma once

#include "host/session/session.h"

/* session.c */
void session_become_ready(Session *session);
void session_set_state(Session *session, SessionState state);
void session_rest(Session *session); /* nothing of it runs: its ttl counts */
void session_start_ttl(Session *session);
void session_fail_openers(Session *session, const Problem *problem);
void session_set_closing(Session *session, const char *reason); /* it opens for nobody any more */

/* Requests and others that wait for the end of sessions that have been freed; told when all is gone. */
typedef struct Farewell {
    List closers;   /* Requests */
    List waiters;   /* SessionWaiter */
    Buf last_words; /* of the trunk, which ends last */
} Farewell;

void session_tell_waiters(List *waiters); /* and empties it */
void farewell_init(Farewell *farewell);
void farewell_tell(Farewell *farewell);
void session_end(Session *session, Farewell *farewell); /* frees it */

/* As the request that opens it is answered. */
void session_write_opened(Session *session, Writer *w);

/* fork.c */
/* The directories of a session that is made are there. */
void session_fork_placed(Session *trunk);

/* idle.c */
/* The trunk was idle for its ttl, and its options say that it is saved then. */
void session_save_idle(Session *trunk);

/* accept.c */
/* Counts the files that a template has left in artifacts as no call's: none runs before that is settled. */
void session_accept_files(Session *trunk);

/* branch.c */
void session_close_branch(Session *branch, const char *reason);
/* Has the supervisor end a branch that no session stands for, or one that is CLOSING. */
void session_drop_branch(Session *trunk, uint64_t branch);

/* former.c: former branches of a trunk, for the checkpoints of them that are still kept */
/* The oldest is forgotten when there are more than there can be checkpoints. */
void former_add(Session *trunk, uint64_t branch, const char *name);
void former_deinit(Session *trunk);
