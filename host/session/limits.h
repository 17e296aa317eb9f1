/* Limits: how many sessions there may be, and what those of a user other than root may be together (options
 * max_sessions, user_sessions, user_memory and user_disk). */
#pragma once

#include "host/session/sessions.h"

/* Checks that one more session with these options, a fork or not, is within them: 0, ERR_LIMIT_REACHED, or
 * ERR_BUSY where the controller has as many as it may have (max_sessions). */
int limits_check(const Sessions *all, uid_t user, bool forked, const SessionOptions *options,
                 Problem *problem);
/* Checks that a saved session may have a container again: as above. */
int limits_check_wake(const Sessions *all, uid_t user, const SessionOptions *options, Problem *problem);
