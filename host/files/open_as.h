/* Opening a file of the host with the rights of one of its users: what they may not read or write cannot be
 * reached, whatever its path becomes meanwhile. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

/* Opens the absolute path as that user does, with the groups that the user database has for them; as this
 * process does where it cannot become anybody else. Regular files and directories only: nothing else is
 * opened, so that no device notices and nothing waits. Links are followed as the user may follow them, those
 * of /proc excepted, which lead to what this process has open. A directory can be entered, too.
 *
 * The descriptor (close-on-exec), or a negative errno; -ENXIO for what is neither. */
int open_as(uid_t user, const char *path, int flags);

/* Sets the function that opens directories for reading where this process may not itself; it returns as
 * open_as does. NULL, as in the beginning: this process does. To be called before there are other threads. */
void open_as_set(int (*opener)(void *userdata, uid_t user, const char *path), void *userdata);
