/* A session's /data: a directory of the host, as far as its user may read it. */
#pragma once

#include "host/config/paths.h"
#include "proto/fields.h"

/* Opens the directory as the user. A user other than the controller's own gets none with processes of the
 * host or directories of the controller in it: its sandboxed code would have the ids of other sandboxes
 * there. The descriptor, or -EPROTO with the problem set. */
int data_open(const Paths *paths, uid_t user, Text path, Problem *problem);

/* Checks that the directory can be opened now, and puts its canonical path into *ret, to be freed. 0, or
 * negative with the problem set. */
int data_find(char **ret, const Paths *paths, uid_t user, Text path, Problem *problem);
