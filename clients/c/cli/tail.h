/* The end of a log file, which turns into FILE.1 when it is full. */
#pragma once

#include "proto/base/base.h"

/* Prints the last `n` lines of FILE.1 and FILE together: all, or those with "session=SESSION" or one of its
 * branches. With `follow` also what is added from then on, until this program is ended or nobody reads it any
 * more. 0, or a negative errno. */
int tail(const char *path, uint64_t n, const char *session, bool follow);
