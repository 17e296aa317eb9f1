/* Leftovers: what sessions that have ended leave below the state directory until it is too old or too much:
 * the published copies in sessions/ID/artifacts and outputs/ID. */
#pragma once

#include "host/files/worker.h"
#include "proto/base/base.h"
#include "proto/wire.h"

typedef enum LeftoverKind {
    LEFTOVER_ARTIFACTS, /* sessions/ID/artifacts */
    LEFTOVER_OUTPUT,    /* outputs/ID */
    LEFTOVER_SAVED,     /* all of sessions/ID: it has not ended, and is its owner's to remove */
} LeftoverKind;

typedef struct Leftover {
    LeftoverKind kind;
    char *id;
    uint64_t bytes;
    double ended; /* Unix seconds: when its directory was last changed, which the end of its session does */
    struct {
        uint64_t bytes; /* of those; 0: there is none */
        double changed; /* Unix seconds */
        bool goes;      /* retention_choose() says so */
    } memory;           /* of one that is saved */
} Leftover;

typedef struct Leftovers {
    Leftover *entries;
    size_t n, capacity;
} Leftovers;

/* Adds a session that is saved, since those Unix seconds, with all that its directory takes. 0 or -ENOMEM. */
int leftovers_add_saved(Leftovers *leftovers, const char *state_dir, Text id, double since);

/* Removes the memory of a saved session, whose directory `files` is, unless it has changed since. Returns
 * whether there is none any more. For a worker thread. */
bool leftover_forget_memory(int files, double changed);

/* Lists them, with those of sessions that are still open. For a worker thread. 0 or -ENOMEM. */
int leftovers_find(Leftovers *ret, const char *state_dir);
void leftovers_deinit(Leftovers *leftovers);

/* Removes one: out of the way at once, for good on a worker thread. False, and nothing done, when it has
 * changed since it was found: another session has been there. */
bool leftover_remove(const Leftover *leftover, const char *state_dir, Worker *worker);

typedef struct Retention {
    double keep_for;    /* seconds after the end of the session; 0: for ever */
    uint64_t keep_size; /* bytes of all together; 0: any number */
} Retention;

/* Puts those that are to go first, the oldest first; returns how many. Of the others, as many memories go,
 * the oldest first, as there have to before a session does that is not too old. */
size_t retention_choose(Leftovers *leftovers, const Retention *retention, double now);
