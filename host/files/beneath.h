/* Opening things below a directory whose contents hostile code controls and may be changing right now.
 *
 * Every path is resolved by openat2() so that it cannot leave the directory, follow a link of any kind, or
 * cross into another filesystem. There is no weaker way to fall back to: O_NOFOLLOW guards only the last
 * component, and checking before opening loses the race. */
#pragma once

#include <dirent.h>
#include <sys/stat.h>
#include <sys/types.h>

#include "proto/base/base.h"

/* Returns whether this kernel can do it (Linux 5.6, and no filter that hides openat2). The controller does
 * not serve where it cannot. */
bool beneath_supported(void);

/* Opens `path` below `dirfd`. The descriptor (close-on-exec), or a negative errno: -ELOOP for a symbolic
 * link anywhere on the way, -EXDEV for a way out or another filesystem, -EAGAIN when the tree kept moving. */
int beneath_open(int dirfd, const char *path, int flags, mode_t mode);

/* A handle (O_PATH) on whatever is at `path`, and what it is. Opens nothing, so that nothing blocks and no
 * device notices; a symbolic link at the end is found as such. */
int beneath_find(int dirfd, const char *path, struct stat *ret_stat);

/* Opens the regular file behind a handle for reading: that very file, whatever its path names by now.
 * Never waits: -EWOULDBLOCK when someone holds a lease on it. */
int beneath_read(int handle);

/* Both in one. -EISDIR for a directory, -ELOOP for a symbolic link, -ENXIO for FIFOs, sockets, devices. */
int beneath_open_regular(int dirfd, const char *path, struct stat *ret_stat);

/* Makes the directories of `path` that are missing and returns a handle (O_PATH) on the last one. New ones
 * get exactly `mode`, uid and gid ((uid_t)-1 and (gid_t)-1 leave ours, as does who may not give them away).
 * An empty path is `dirfd` itself. */
int beneath_mkdirs(int dirfd, const char *path, mode_t mode, uid_t uid, gid_t gid);

/* Opens a directory for reading its entries. 0 and a stream to be closed, or a negative errno as above. */
int beneath_open_list(int dirfd, const char *path, DIR **ret);

/* "/proc/self/fd/N", through which calls that know only paths reach what a handle holds. */
#define FD_PATH_SIZE 32
const char *fd_path(char buffer[FD_PATH_SIZE], int fd);
