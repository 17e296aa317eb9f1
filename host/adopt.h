/* Adopting: a controller takes over the sandboxes of one that was killed. Each journal (journal.h) becomes a
 * Sandbox again, and the engine is asked for its container:
 *
 *   1. what the journal says is in the tables at once, before the first client is served; the session is
 * STARTING;
 *   2. its supervisor connects again and says how it stands: a call that runs becomes one that can be joined;
 *   3. what it said before that is still on its way, the end of a call above all, comes before the answer to
 *      one question more; then the session is READY and goes on.
 *
 * What is lost on the way, or was not open yet, or was being closed, is closed. Requests about a session that
 * is being adopted wait until it is known what became of it (adopt_wait.h). */
#pragma once

#include "host/guest_hello.h"
#include "host/record.h"
#include "host/sandbox.h"

/* Of one sandbox, from its journal until it is READY or freed. */
typedef struct Adoption {
    bool open;        /* clients have been told of the session, and none has asked to close it */
    uint64_t inquiry; /* number of the question whose answer comes last */
    char lost[256];   /* why an open one ended; "" */
    List waiting;     /* Deferred, of adopt_wait.c */
} Adoption;

/* The engine that the sessions of an earlier controller are on, which is no other's: NULL when there are
 * none. */
const EngineOps *adopt_engine(const Controller *controller);

/* At start: every journal there is. Then what nobody adopted can be swept away. True when there were
 * containers that an engine was perhaps still making. */
bool adopt_all(Controller *controller);

/* The supervisor of an adopted sandbox has connected and been welcomed; its branches are as it says. */
void adopt_hello(Sandbox *sandbox, const GuestHello *hello);

/* It says how a call ended that does not run here: one that ended while no controller listened runs now, and
 * its end is to be handled. */
void adopt_executed(Sandbox *sandbox, const MsgExecuted *executed, uint64_t number);

/* A reply or error of it; whether it was what the adoption waits for. `checkpoints` has then been answered
 * with `body`, or with an error (NULL). */
bool adopt_answered(Sandbox *sandbox, uint64_t number, const msgpack_object_map *body);

/* It is READY: the adoption is over. */
void adopt_settle(Sandbox *sandbox);

/* It ends: why is told to those who waited for an open one. */
void adopt_lose(Sandbox *sandbox, const char *reason);

/* It is gone and about to be freed; the Adoption is the caller's, for adopt_forget when it has been freed. */
Adoption *adopt_take(Sandbox *sandbox);
void adopt_forget(Controller *controller, Adoption *adoption);
