/* Steps of a child of the supervisor before it executes a program. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* Drops every capability and every way to gain one; `uid` becomes every user id and `gid` every group id,
 * `mark` (0: none) the only supplementary group, which nobody without powers loses again. All is verified
 * afterwards. 0 or a negative errno. */
int child_drop_powers(uid_t uid, gid_t gid, gid_t mark);

/* None is blocked, as a program expects it. The supervisor ignores none, and what it handles execve()
 * forgets. */
void child_unblock_signals(void);
