/* Sessions: all that are open, by name, and what they share. */
#pragma once

#include "host/session/epitaph.h"
#include "host/pool/pool.h"
#include "host/sandbox/sandboxes.h"

typedef struct Session Session;

/* What the rest of the controller is told of any of them. */
typedef struct SessionsEvents {
    void (*ready)(Session *trunk); /* it is about to be: nobody was told yet */
    void (*branched)(Session *branch);
    /* It is about to be freed. Its Session.stored are somebody else's from then on. */
    void (*gone)(Session *session);
} SessionsEvents;

typedef struct Sessions {
    const Options *options;
    Loop *loop;
    Sandboxes *sandboxes;
    Pool *pool;
    Session *by_name; /* uthash */
    size_t count;
    Epitaphs epitaphs;
    const SessionsEvents *events;
    void *userdata; /* of whoever handles the events */
} Sessions;

/* The session that may be used by that name; one that is closing may not. */
Session *sessions_find(const Sessions *all, Text name);
/* The session that has that name, closing or not. */
Session *sessions_holder(const Sessions *all, Text name);
/* 0 or -ENOMEM. */
int sessions_add(Session *session);
/* Also of one that was not added. */
void sessions_remove(Session *session);

/* name_valid(), or several such names with slashes between: a branch's. */
bool session_path_valid(Text path);
