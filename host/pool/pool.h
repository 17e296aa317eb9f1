/* Pool: containers that are ready before anyone asks. A spare is a Sandbox in which everything is up, with
 * its modules imported; its name is of its own and stays that of its directory, and to its journal it is one
 * that is not open yet. A session that is opened takes one of its kind, where there is one: what the kernel
 * was told when the container was made is the same (image, limits, network, for one call or not), and the
 * rest is settled then.
 *
 * Each kind that is in use has a target. It doubles when a session finds none although one was there before,
 * and goes back in minutes without sessions. Spares are made one at a time, when nothing runs. */
#pragma once

#include "host/sandbox/sandbox.h"

typedef struct Pool Pool;

/* The pool as the options say, not yet filled. 0, or negative with the problem set. */
int pool_new(Pool **ret, Sandboxes *sandboxes, Problem *problem);
Pool *pool_free(Pool *pool);

/* Begins to fill it with what sessions without options of their own want. */
void pool_begin(Pool *pool);

/* No spare is made any more; those that there are remain to be closed. */
void pool_stop(Pool *pool);

/* A spare becomes READY for that user, and whoever owns it now; NULL when there is none, and the options are
 * as they were. Otherwise they are taken over. `output_id` as in sandbox_start. */
Sandbox *pool_claim(Pool *pool, uid_t user, const char *name, const char *output_id, SessionOptions *options,
                    const SandboxOwner *owner);

/* How many spares are ready. */
size_t pool_ready(const Pool *pool);

/* Closes all spares and makes none for a while, because a session could not be had. Whether there were any.
 */
bool pool_yield(Pool *pool);
/* Whether no spare is left, not even one that is closing. */
bool pool_is_empty(const Pool *pool);
