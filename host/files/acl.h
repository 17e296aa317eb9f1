/* POSIX access control lists, as far as a controller that is not root needs them: process 1 of a container is
 * uid 0 without any right to pass over permissions, and its interpreter is a uid of its own, so the
 * directories a controller's user shares with them say so by name. Root owns what it shares and needs no
 * list. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"

#define ACL_READ  4u
#define ACL_WRITE 2u
#define ACL_ENTER 1u

/* Lets `uid` do `permissions` with the file or directory at `path`, whose mode stays as it is for everybody
 * else. 0 or a negative errno: -EOPNOTSUPP where the filesystem has no lists. */
int acl_allow(const char *path, uid_t uid, unsigned permissions);

/* The same for up to ACL_USERS_MAX users. */
#define ACL_USERS_MAX 2
int acl_allow_each(const char *path, const uid_t *uids, size_t n, unsigned permissions);

/* The same for whatever is made below the directory from now on, which is at most 0755 for everybody else. */
int acl_allow_below(const char *path, uid_t uid, unsigned permissions);
