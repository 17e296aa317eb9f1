/* Pool: containers that are ready before anyone asks. A spare is a Sandbox in which everything is up, with
 * its modules imported; its name is of its own and stays that of its directory, and to its journal it is one
 * that is not open yet. A session that is opened takes one of its kind, where there is one: what the kernel
 * was told when the container was made is the same (image, limits, network, for one call or not), and the
 * rest is settled then.
 *
 * Each kind that is in use has a target. It doubles when a session finds none although one was there before,
 * and goes back in minutes without sessions. Spares are made one at a time, when nothing runs.
 *
 * A spare of a template has its files, environment and imports, and its setup code has run: such a kind is of
 * one version of one template. A session of it always comes from a spare, for which it may have to wait. */
#pragma once

#include "host/sandbox/sandbox.h"
#include "host/template/template.h"

typedef struct Pool Pool;

/* Why no spare of a template can be had. */
typedef struct PoolFailure {
    Problem problem;
    Text traceback; /* of its setup code; or absent */
} PoolFailure;

/* Someone who waits for a spare of a template. `done` is told once: there is one (NULL), which somebody else
 * may be the first to claim, or there cannot be. */
typedef struct PoolWaiter PoolWaiter;
struct PoolWaiter {
    List link;
    void (*done)(PoolWaiter *waiter, const PoolFailure *failure);
};

/* The pool as the options say, not yet filled. 0, or negative with the problem set. */
int pool_new(Pool **ret, Sandboxes *sandboxes, Problem *problem);
Pool *pool_free(Pool *pool);

/* Begins to fill it with what sessions without options of their own want. */
void pool_begin(Pool *pool);

/* No spare is made any more; those that there are remain to be closed. */
void pool_stop(Pool *pool);

/* A spare of a template (NULL: of none) becomes READY for that user and name, and whoever owns it now. 0:
 * *ret is NULL when there is none, and the options are as they were; otherwise they are taken over. Negative
 * with the problem set when no spare of the template will do. */
int pool_assign(Sandbox **ret, Pool *pool, Template *tmpl, const SandboxAssignment *assignment,
                SessionOptions *options, const SandboxOwner *owner, Problem *problem);

/* Takes note that an image is open, or cannot be: perhaps one that is being made of a spare's memory. */
void pool_image_opened(Pool *pool, const MemoryImage *image);

/* The memory of spares like such a session, which one without a spare can begin with. NULL: none. */
MemoryImage *pool_memory(const Pool *pool, const SessionOptions *options, bool ephemeral);

/* Has a spare of the template made, for options that are settled, unless one is ready. 0; or negative with
 * the problem set, and the waiter is not told. */
int pool_wait(Pool *pool, Template *tmpl, const SessionOptions *options, bool ephemeral, PoolWaiter *waiter,
              Problem *problem);
/* There is no such template any more: its spares are closed, and who waits for one is told. */
void pool_forget(Pool *pool, const Template *tmpl);

/* Returns the number of spares that are ready. */
size_t pool_ready(const Pool *pool);

/* Returns how many spares could not begin with the memory of their kind. */
uint64_t pool_misfits(const Pool *pool);

/* Closes all spares and makes none for a while, because a session could not be had. Whether there were any.
 */
bool pool_evict(Pool *pool);
/* Returns whether no spare is left, not even one that is closing. */
bool pool_is_empty(const Pool *pool);

/* Bytes of memory of the host that programs can have without swapping, as the kernel estimates; UINT64_MAX
 * when it does not say. */
uint64_t memory_available(void);
