/* Limits: what the sessions of a user other than root may be together (options user_sessions, user_memory and
 * user_disk). */
#pragma once

#include "host/session/sessions.h"

/* Whether one more with these options is within them: 0, or ERR_LIMIT_REACHED. */
int limits_check(const Sessions *all, uid_t user, const SessionOptions *options, Problem *problem);
