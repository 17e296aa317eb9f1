/* Pool: containers that are ready before anyone asks. A spare is a Sandbox in which everything is up, with
 * its modules imported; its trunk is a Session in no table, whose name is of its own and stays that of its
 * directory, and to its journal it is one that is not open yet. A session that is opened takes one of its
 * kind, where there is one: what the kernel was told when the container was made is the same (image, limits,
 * network, for one call or not), and the rest is settled then.
 *
 * Each kind that is in use has a target. It doubles when a session finds none although one was there before,
 * and goes back in minutes without sessions. Spares are made one at a time, when nothing runs. */
#pragma once

#include "host/sandbox.h"

typedef struct Pool Pool;

/* The pool as the options say, not yet filled. 0, or negative with the problem set. */
int pool_new(Pool **ret, Controller *controller, Problem *problem);
Pool *pool_free(Pool *pool);

/* Begins to fill it with what sessions without options of their own want. */
void pool_begin(Pool *pool);

/* No spare is made any more; those that there are remain to be closed. */
void pool_stop(Pool *pool);

/* A spare becomes a session of that name, READY and in no table yet; NULL when there is none, and the options
 * are as they were. Otherwise they are taken over. `output_id` as in sandbox_start. */
Session *pool_claim(Pool *pool, const char *name, const char *output_id, SessionOptions *options);

/* How many spares are ready. */
size_t pool_ready(const Pool *pool);

/* Closes all spares and makes none for a while, because a session could not be had. Whether there were any.
 */
bool pool_yield(Pool *pool);
/* Whether no spare is left, not even one that is closing. */
bool pool_is_empty(const Pool *pool);

/* The modules that a spare imports, as an encoded array; and those that it could not. */
void pool_write_imports(Writer *w, const void *sandbox);
void pool_not_imported(Pool *pool, const Value *failed);

/* A spare is ready, or ends without having been claimed. */
void pool_spare_ready(Spare *spare);
void pool_spare_lost(Spare *spare, const char *reason);
