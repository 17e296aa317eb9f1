/* Sessions: all that are open, by name, and what they share. */
#pragma once

#include "host/session/end_record.h"
#include "host/pool/pool.h"
#include "host/sandbox/sandboxes.h"

typedef struct Session Session;

/* Bounds of all sessions of one user together; 0: as the options say. */
typedef struct UserBounds {
    uint64_t sessions, memory;
} UserBounds;

/* Events of all sessions, told to the rest of the controller, and questions to it. */
typedef struct SessionsEvents {
    void (*ready)(Session *root); /* it is about to be, and whole: nobody was told yet */
    void (*branched)(Session *branch);
    /* A client has brought it back to what it was after that call (0: nothing), or given it those of a
     * branch. */
    void (*back)(const Session *session, uint64_t execution_count);
    void (*committed)(const Session *session, uint64_t from);
    /* The session is to have packages before anyone is told that it is open: ends in session_all_ready() or
     * session_fail(), not before this returns. */
    void (*prepare)(Session *root);
    /* Makes the last call of a session that is to close and rests: it runs exit functions and closes the
     * sandbox. False: there is no such call. */
    bool (*closes)(Session *root);
    /* Finds the bounds set for a user. False: none are. */
    bool (*bounds)(void *userdata, uid_t user, UserBounds *ret);
    /* The session is READY again, or (`failure` is not NULL) is not: those who are in Session.asleep go
     * on. */
    void (*woken)(Session *root, const Problem *failure);
    /* Requests that waited until it is settled who has a name go on. */
    void (*settled)(void *userdata, List *waiting);
    /* The session is about to be freed. Its Session.stored are somebody else's from then on. */
    void (*gone)(Session *session);
} SessionsEvents;

typedef struct Sessions {
    const Options *options;
    Loop *loop;
    Sandboxes *sandboxes;
    Pool *pool;
    Session *by_name; /* uthash by SessionKey */
    size_t count;
    size_t saved; /* of these */
    EndRecords end_records;
    const SessionsEvents *events;
    void *userdata; /* of whoever handles the events */
} Sessions;

/* Key of the table of sessions: each user has names of their own. */
typedef struct SessionKey {
    uid_t user;
    char name[LIMIT_SESSION_PATH + 1];
} SessionKey;
