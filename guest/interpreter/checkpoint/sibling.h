/* A fork whose copy is no child of this process but of the supervisor, so that no wait() of a cell sees it
 * and its exit status reaches who asked for it. The supervisor is process 1 or a child subreaper. */
#pragma once

#include "proto/base/base.h"

/* fork(), with all handlers of pthread_atfork(), or, `with_threads` that rest (threads.h), without any: the
 * process id of the copy, 0 in the copy, or a negative errno. To be called with all signals blocked, which
 * they are in the copy too. From its beginning nobody else may reach the copy's memory, not even another
 * process of this user (PR_SET_DUMPABLE), nor may it say any more when the kernel is to end it: `volunteer`,
 * unless NULL, says that before. */
pid_t sibling_fork(bool with_threads, void (*volunteer)(void));

/* A descriptor of a file of /proc/self that only its owner may open, which a copy is not of its own; or a
 * negative errno. */
int sibling_open_own(const char *path);

/* In the copy: waits until `supervisor` is its parent, which is when sibling_fork() has returned in the
 * original, and arranges to be killed when that ends. -ESRCH when it has ended already. */
int sibling_adopted(pid_t supervisor);
