/* Disks of sessions for a process that may not make them itself: the launcher does. */
#pragma once

#include "proto/base/loop.h"

/* From now on session_disk.h's are made by the launcher, which serves the other end of that socket, and says
 * where the log is. The descriptor is taken over. 0 or a negative errno. */
int disks_elsewhere(Loop *loop, int socket);
