/* The records of sessions that have ended, and their end_records, in ended/INSTANCE below the state
 * directory, for the STORED_RUN_SECONDS they may still be asked for: a controller that is started meanwhile
 * gives the same answers. Those of all sessions together are bounded; the oldest go first. */
#pragma once

#include "host/call/call.h"

typedef struct Ended {
    const Paths *paths;
    Loop *loop;
    Calls *calls;
    EndRecords *end_records;
    List files; /* in the order they expire */
    uint64_t bytes;
    LoopTimer timer;
} Ended;

/* Sets up the list. The members before it are its owner's. */
void ended_init(Ended *ended);
void ended_deinit(Ended *ended); /* the files stay */

/* Keeps what is stored of a session that is about to be freed. */
void ended_keep(Ended *ended, const Session *session);

/* Loads what earlier controllers kept, when all sessions have been adopted. */
void ended_load(Ended *ended);
