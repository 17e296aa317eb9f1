/* Writes the memory of a frozen copy to a file or a pipe. From the file, the loader makes it anew in another
 * container (guest/memory). */
#pragma once

#include "proto/base/base.h"

/* The file's name, in a directory. */
#define KEEP_NAME "memory"

/* In the frozen copy, which has one thread; to a file in the directory `place`, or to the pipe that it is.
 * `shares`: without what is in the memory image that it has begun with, which is to be there as well then. 0,
 * or a negative errno with *ret_why, and there is no file. 1 in a process that has become the copy: it has a
 * channel as *ret_channel and no other descriptor of the interpreter's. */
int keep(int place, bool shares, const char **ret_why, int *ret_channel);
