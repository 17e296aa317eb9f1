/* Leftovers: what ended sessions and earlier controllers have left goes. */
#pragma once

#include "host/sandbox/sandboxes.h"

/* RetentionTimer: what ended sessions leave is looked over now and then, and what is too old or too much of
 * it goes (options keep_for and keep_size). Nothing of a session that is open does. Sessions that are saved
 * have the same bounds, and end where they are beyond them. */
typedef struct RetentionTimer RetentionTimer;

/* Begins to: after the sessions of an earlier controller were adopted. NULL when out of memory. */
RetentionTimer *retention_timer_begin(const Sandboxes *all);
/* A session has ended, or is saved: it is looked soon. NULL will do. */
void retention_timer_wake(RetentionTimer *kept);
RetentionTimer *retention_timer_end(RetentionTimer *kept);

/* ---- of an earlier controller: what nobody has adopted ---- */

/* The directories in which supervisors connect. */
void sweep_links(const Sandboxes *all);

/* Containers, then directories that no container has mounted any more. */
void sweep_sandboxes(Sandboxes *all);
