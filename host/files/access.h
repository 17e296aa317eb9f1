/* Rights on files of the host: given to processes of containers, or taken of the user for whom one is opened.
 */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/loop.h"

/* POSIX access control lists, as far as a controller that is not root needs them: process 1 of a container is
 * uid 0 without any right to pass over permissions, and its interpreter is a uid of its own, so the
 * directories a controller's user shares with them say so by name. Root owns what it shares and needs no
 * list. */
#define ACL_READ  4u
#define ACL_WRITE 2u
#define ACL_ENTER 1u

/* Lets `uid` do `permissions` with the file or directory at `path`, whose mode stays as it is for everybody
 * else. 0 or a negative errno: -EOPNOTSUPP where the filesystem has no lists. */
int acl_allow(const char *path, uid_t uid, unsigned permissions);
int acl_allow_each(const char *path, const uid_t *uids, size_t n, unsigned permissions);

/* The same for whatever is made below the directory from now on, which is at most 0755 for everybody else. */
int acl_allow_below(const char *path, uid_t uid, unsigned permissions);

/* Told the descriptor (close-on-exec), which is the callee's, or a negative errno. */
typedef void OpenDone(void *userdata, int fd);

/* Opens the absolute path as that user does, who reaches nothing else, whatever the path becomes meanwhile:
 * with the groups that the user database has for them; as this process does where it cannot become anybody
 * else. Regular files and directories only: nothing else is opened, so that no device notices. Links are
 * followed as the user may follow them, those of /proc excepted, which lead to what this process has open. A
 * directory can be entered, too.
 *
 * The path may lead to a file system that never answers: a thread waits for it, and the loop goes on. `done`
 * is told on the loop, never from within this; -ENXIO for what is neither. 0, or a negative errno and nobody
 * is told. */
int open_as(Loop *loop, uid_t user, const char *path, int flags, OpenDone *done, void *userdata);

/* Sets the function that opens directories for reading where this process may not itself; it returns and
 * tells as open_as does. NULL, as in the beginning: this process does. */
typedef int OpenAs(void *opener, uid_t user, const char *path, OpenDone *done, void *userdata);
void open_as_set(OpenAs *open, void *opener);
