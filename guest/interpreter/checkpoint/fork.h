/* A fork whose copy is no child of this process but of the supervisor, so that no wait() of a cell sees it
 * and its exit status reaches who asked for it. The supervisor is process 1 or a child subreaper. */
#pragma once

#include "proto/base/base.h"

/* fork(), with all handlers of pthread_atfork(), or, `with_threads` that rest (threads.h), without any: the
 * process id of the copy, 0 in the copy, or a negative errno. To be called with all signals blocked, which
 * they are in the copy too. From its beginning nobody else may reach the copy's memory, not even another
 * process of this user (PR_SET_DUMPABLE), nor may it say any more when the kernel is to end it:
 * `set_oom_score`, unless NULL, says that before. */
pid_t fork_to_supervisor(bool with_threads, void (*set_oom_score)(void));

/* A descriptor of a file of /proc/self that only its owner may open, which a copy is not of its own; or a
 * negative errno. */
int open_own(const char *path);

/* In the copy: waits until `supervisor` is its parent, which is when fork_to_supervisor() has returned in the
 * original, and arranges to be killed when that ends. -ESRCH when it has ended already. */
int fork_adopted(pid_t supervisor);
