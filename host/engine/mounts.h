/* Mounts on the host for engines that take no mount flags. */
#pragma once

#include "proto/base/base.h"

/* Mounts a directory onto itself with nosuid and nodev, which every bind mount made of it then has too. The
 * flags are on the mount before it can be seen, so that they hold in other mount namespaces as well. -EPERM
 * without the right to mount. */
int mounts_restrict(const char *directory);

/* Undoes that. A directory that is no mount point is left alone. */
void mounts_release(const char *directory);
