/* The lock of a set of packages: a requirements file that an installer has written, of which nothing is
 * believed. Pure. */
#pragma once

#include "proto/schema.h"

/* The packages that it names, as an array to be written of MsgPackage. What is no line of a lock is passed
 * over, and so is what would be too many. `lock` has to be there until then. */
Value lock_packages(const Text *lock);

/* Returns whether all of a lock is text that may be passed on. */
bool lock_is_sound(Text lock);
