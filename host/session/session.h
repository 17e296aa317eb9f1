/* Session: what clients see: a name, live variables, and the calls on them. The root session lives in a
 * Sandbox of its own, which it owns; its branches, made of it, live there with it. */
#pragma once

#include <uthash.h>

#include "host/link/request.h"
#include "host/sandbox/sandbox.h"
#include "host/session/sessions.h"

typedef enum SessionState {
#define SESSION_STATE(state, awaits) SESSION_##state,
#include "host/session/session_states.def"
} SessionState;

struct Session {
    Sessions *all;
    Sandbox *sandbox;
    union {
        SessionKey key;
        struct {
            uid_t user; /* whose it is, and nobody else's */
            char name[LIMIT_SESSION_PATH + 1];
        };
    };
    char instance[INSTANCE_SIZE]; /* names this life of the session; the root session's is its sandbox's */
    SessionState state;
    bool announced;  /* someone has been told that it was created */
    bool hidden;     /* an earlier controller had told nobody of it, or nobody needs it: it only ends */
    uint64_t branch; /* its number to the guest; 0: the root session */
    char language[LIMIT_LANGUAGE + 1]; /* of a context; empty: Python */
    char *cwd;                         /* of a context: where it began; NULL: /session */

    List branches; /* Session.in_branches: of a root session, itself first and then its branches */
    List in_branches;
    List closed_branches; /* ClosedBranch, the oldest first: of a root session */

    List stored; /* ended calls, the oldest first. Nothing here looks into them */
    size_t stored_count;

    uint64_t execution_count;
    uint64_t epoch;
    double created; /* Unix seconds */
    uint64_t used;  /* clock_now() of the last request's end */
    LoopTimer idle_timer;

    List openers; /* Requests waiting for READY */
    List waiters; /* Requests waiting until it is settled who has the name: it is gone altogether, or whole */
    List closers; /* Requests waiting for the end */
    Buf last_words; /* what those are answered with: an encoded map; empty: nothing */
    List asleep;    /* Requests waiting until one that is SAVED is woken */
    uint64_t load;  /* number of the message whose answer it waits for while it is SAVED */
    Buf unreported; /* SAVED: what its next supervisor has to tell, an encoded map; empty: nothing */
    UT_hash_handle by_name;
};

/* ---- by name ---- */

/* The session that the user may use by that name; one that is closing may not be used. */
Session *sessions_find(const Sessions *all, uid_t user, Text name);
/* The session that has that name, closing or not. */
Session *sessions_holder(const Sessions *all, uid_t user, Text name);
/* 0 or -ENOMEM. */
int sessions_add(Session *session);

/* name_valid(), or several such names with slashes between: a branch's. */
bool session_path_valid(Text path);

/* ---- its life ---- */

/* Begins a session in a sandbox of its own; it is in the table from now on, STARTING, or READY where it has a
 * spare. `options` is taken over. -EAGAIN, and no problem, when it is to be one of a template (NULL: of none)
 * and no spare of that is ready: there may be after pool_wait(). */
int session_start(Session **ret, Sessions *all, const SandboxAssignment *assignment, Template *tmpl,
                  SessionOptions *options, Problem *problem);

/* Makes a session that is in no table and no sandbox yet. NULL when out of memory. */
Session *session_new(Sessions *all, uid_t user, const char *name);
Session *session_free(Session *session); /* one that nobody was told of */
/* Makes the session the root session of that sandbox. */
void session_move_in(Session *session, Sandbox *sandbox);

/* The owner of a sandbox that is a session's. */
extern const SandboxOwner session_owner;

/* For other owners that have a root session: what the supervisor has and what is known here are made the
 * same. */
void session_match(Session *root, const GuestHello *hello);
void session_all_ready(Session *root);
/* The same, once it has the packages that its options ask for. */
void session_prepare(Session *root);
/* Tells those who wait for a session why it cannot be had, and ends it. */
void session_fail(Session *root, const Problem *problem);

/* The request is answered when the session is READY, or has failed. */
void session_wait_open(Session *session, Request *request);

/* Ends the session: a running call ends as `failed`, waiting ones with SessionClosed. `request` may be
 * NULL. The root session takes its branches with it. */
void session_close(Session *session, Request *request, const char *reason);
/* Ends one that rests as a program ends: its exit functions are called first. False, and nothing done, for
 * any other. */
bool session_close_gently(Session *root, const char *reason);

/* Returns whether the session is CLOSING, or being restored. */
bool session_is_unsettled(const Session *session);

/* ---- being restored: Sandbox.restorer ---- */

/* Marks a session that has all that was saved: it stays, whatever becomes of the client that has restored it.
 * Does nothing about a branch, or a session that was not being restored. */
void session_made_whole(Session *session);
/* Ends those that it was restoring. */
void sessions_restorer_gone(Sessions *all, Peer restorer);

/* ---- on disk ---- */

/* Has one that is SAVED woken, for those in Session.asleep; it may be being woken already.
 * SessionsEvents.woken follows, perhaps before this returns. */
void session_wake(Session *root);
/* A controller before us has saved it. */
void session_restore_saved(Session *root);

/* Saves it now, as when it has been idle for its ttl: after what runs or waits. The request is answered once
 * it is SAVED, or why it is not. */
void session_sleep(Session *root, Request *request);

/* The same for nobody. False where it cannot be: nothing is done then. */
bool session_save(Session *root);

/* Returns whether the session is SAVED, and nobody wakes it. */
bool session_is_asleep(const Session *session);

/* `starting`, `idle`, `running` or `closing`. */
const char *session_status(const Session *session);
bool session_is_busy(const Session *session); /* something of it runs or waits */

/* Sets the problem that is told to those who meant the session once it ends for that reason. */
void session_closed_problem(const Session *session, const char *reason, Problem *ret);

/* Notes that the session begins to end, or cannot be had any more, and forgets an earlier one of that
 * name. */
void session_note_end(const Session *session, const char *reason);
/* Returns what was noted of this life of the session; NULL when a client closed it, or nothing was noted. */
const EndRecord *session_end_record(const Session *session);

/* Notes the counts of the session's variables: they only grow. */
void session_note(Session *session, uint64_t execution_count, uint64_t epoch);

/* Words that the next supervisor of a saved session has to tell; absent: none. */
Value session_unreported(const Session *root);
/* 0 or -ENOMEM. */
int session_keep_unreported(Session *root, const Value *said);

/* ---- what it is asked ---- */

/* ERR_BUSY when too many wait. */
int session_check_queue(const Session *session, Problem *problem);

/* ---- its branches ---- */

/* Begins a branch of `origin`, whose own name is `name`; it is in the table from now on, STARTING until it
 * becomes ready or ends. */
int session_start_branch(Session **ret, Session *origin, Text name, Problem *problem);

/* Likewise a context of that language, absent for Python, which begins in `cwd`, absent for /session. */
int session_start_context(Session **ret, Session *origin, Text name, Text language, Text cwd,
                          Problem *problem);
/* The name of a language that is asked for by its name or an alias, in capitals or not; of one that is not
 * known here the name as it is, as an image may have more. Absent for Python. */
Text language_name(Text asked);
/* 0 or -ENOMEM. */
int session_set_place(Session *session, Text language, Text cwd);

/* The supervisor has made it. */
void session_branch_made(Session *branch, uint64_t execution_count, uint64_t epoch);

/* Its variables are gone, or never were: what waits for it ends for that reason, and it is freed; unless its
 * whole sandbox ends, which does the same. */
void session_end_branch(Session *branch, const Problem *problem);

/* Makes a branch that an earlier controller had. NULL when out of memory. */
Session *session_restore_branch(Session *root, uint64_t branch, const char *name);
/* Removes a restored branch that has ended since. */
void session_forget_branch(Session *branch);

/* The session of a branches that has this number, 0 for the root session; NULL when none has. */
Session *session_find_branch(const Session *root, uint64_t branch);

/* The name of a branch, also of one that is closed and of which checkpoints may be kept. */
#define BRANCH_NAME_SIZE (LIMIT_SESSION_PATH + 24)
const char *session_branch_name(const Session *root, uint64_t branch, char buffer[static BRANCH_NAME_SIZE]);
