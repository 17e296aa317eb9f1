/* Giving up the supervisor's powers. */
#pragma once

#include <sys/types.h>

/* For the child that becomes the interpreter: no supplementary group, `uid` as every user and group id, no
 * capability of any set, no way to gain one; then verifies it. 0 or a negative errno. */
int identity_drop(uid_t uid);
