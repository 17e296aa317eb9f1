/* Shared by the files of a session, and included by nobody else. */
#pragma once

#include "host/session/session.h"

/* session.c */
void session_tell_ready(Session *session);                    /* those who wait for it */
void session_set_state(Session *session, SessionState state); /* only here a state changes */
void session_start_ttl(Session *session);
void session_fail_openers(Session *session, const Problem *problem);
void session_set_closing(Session *session, const char *reason); /* it opens for nobody any more */

/* Requests that wait for the end of sessions that have been freed; told when all is gone. */
typedef struct CloseReplies {
    List closers;   /* Requests */
    List waiters;   /* Requests: see Session.waiters */
    Buf last_words; /* of the root session, which ends last */
} CloseReplies;

void close_replies_init(CloseReplies *replies);
void close_replies_send(Sessions *all, CloseReplies *replies);
void session_end(Session *session, CloseReplies *replies); /* frees it */

/* As the request that opens it is answered. */
void session_write_opened(Session *session, Writer *w);

/* fork.c */
/* The directories of a session that is made are there. */
void session_fork_placed(Session *root);

/* saved.c */
/* Beginning of the places of variables that were saved: the interpreter removes old ones that were left
 * behind. */
#define SAVED_PLACES "/session/.limpet-saved-"
/* Has the supervisor remove one; nobody waits for that. What stays is replaced the next time. */
void saved_place_remove(Sandbox *sandbox, const char *place);
/* The root session was idle for its ttl, and its options say that it is saved then. */
void session_save_idle(Session *root);
/* Events of one that is SAVED, whose sandbox is WAKING: its supervisor has connected, and says something; it
 * is up, or could not be had. */
void session_load(Session *root);
int session_on_load_message(Session *root, const Message *message, Problem *problem);
void session_on_woken(Session *root);
void session_on_not_woken(Session *root, const Problem *problem);

/* checkpoint_files.c */
/* Counts the files that a template has left in artifacts as no call's: none runs before that is settled. */
void session_accept_files(Session *root);

/* branch.c */
void session_close_branch(Session *branch, const char *reason);
/* Has the supervisor end a branch that no session stands for, or one that is CLOSING. */
void session_drop_branch(Session *root, uint64_t branch);

void closed_branches_deinit(Session *root);
