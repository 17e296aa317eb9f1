/* The numbers that a directory of /proc lists, of threads or descriptors, without memory of an allocator. */
#pragma once

#include "proto/base/base.h"

/* Calls `found` with each, until it returns a negative value, which is returned then. 0 or a negative errno.
 */
int numbers_each(const char *directory, int (*found)(void *userdata, int number), void *userdata);
