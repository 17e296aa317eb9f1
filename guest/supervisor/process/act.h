/* Acting as another user for a moment. */
#pragma once

#include <sys/types.h>

/* Makes `uid` the effective user and group. Nobody of that user can reach the supervisor meanwhile: for
 * signals, limits and tracing the real and saved ids count. 0 or a negative errno; act_as_self() follows
 * either way. */
int act_as(uid_t uid);
void act_as_self(void);
