/* Adopting: a controller takes over the sandboxes of one that was killed. Each journal (journal.h) becomes a
 * Sandbox again, and the engine is asked for its container.
 *
 * Adoption: one sandbox of an earlier controller that is being taken over. It owns the Sandbox until that is
 * READY:
 *
 *   1. what its journal says is in the tables at once, before the first client is served;
 *   2. its supervisor connects again and says how it stands: a call that runs becomes one that can be joined;
 *   3. what it said before that is still on its way, the end of a call above all, comes before the answer to
 *      one question more; then the session is READY and goes on.
 *
 * What is lost on the way, or was not open yet, or was being closed, is closed. Requests about a session that
 * is being adopted wait until it is known what became of it. */
#pragma once

#include "host/call/call.h"
#include "host/session/session.h"

/* Events of adoptions, told to the front, which has the requests that wait. */
typedef struct AdoptingEvents {
    /* An adoption has ended. When the session was lost, `reason` (not "") says why. */
    void (*settled)(void *userdata, List *waiting, const char *reason);
    void (*all_settled)(void *userdata);
} AdoptingEvents;

/* Every adoption there is. */
typedef struct Adopting {
    Sandboxes *sandboxes;
    Sessions *sessions;
    Calls *calls;
    size_t count;
    const AdoptingEvents *events;
    void *userdata;
} Adopting;

typedef struct Adoption {
    Adopting *all;
    uint64_t inquiry; /* number of the question whose answer comes last */
    char lost[256];   /* why an open one ended; "" */
    List waiting;     /* for the end of the adoption. Nothing here looks into them */
} Adoption;

/* The adoption of a session, NULL when it is not being adopted. */
Adoption *adoption_of(const Session *session);

/* The engine that the sessions of an earlier controller are on, which is no other's: NULL when there are
 * none. */
const EngineOps *adopt_engine(const Paths *paths);

/* At start: every journal there is. Then what nobody adopted can be swept away. True when there were
 * containers that an engine was perhaps still making. */
bool adopt_all(Adopting *all);
