/* Writes the memory of a frozen copy to a file, from which the loader makes it anew in another container
 * (guest/memory). */
#pragma once

#include "proto/base/base.h"

/* The file's name, in a directory of saved variables. */
#define KEEP_NAME "memory"

/* In the frozen copy, which has one thread. 0, or a negative errno with *ret_why, and there is no file. 1 in
 * a process that has become the copy: it has a channel as *ret_channel and no other descriptor of the
 * interpreter's. */
int keep(int directory, const char **ret_why, int *ret_channel);
