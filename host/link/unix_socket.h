/* UnixSocket: a listening socket and its file, which belongs to whoever bound it last and to nobody else. */
#pragma once

#include <sys/stat.h>

#include "proto/base/base.h"

typedef struct UnixSocket {
    int fd; /* -1: none */
    char *path;
    dev_t device; /* of the file as we made it */
    ino_t inode;
} UnixSocket;

#define UNIX_SOCKET_NULL ((UnixSocket){.fd = -1})

/* Makes the socket, mode 0600, and listens. A file that is there is removed first, unless somebody answers on
 * it: -EADDRINUSE. 0 or another negative errno. */
int unix_socket_listen(UnixSocket *ret, const char *path);

/* The members of a group may connect, too. */
int unix_socket_admit(const UnixSocket *unix_socket, gid_t group);

/* Takes over one that another process listens on as well, whose file it stays. The descriptor is owned from
 * now on, after a failure too. 0, or -ENOMEM. */
int unix_socket_adopt(UnixSocket *ret, int fd, const char *path);

/* Closes it, and removes its file unless that has become another's. */
void unix_socket_deinit(UnixSocket *unix_socket);

/* Returns whether somebody listens there. Does not wait. */
bool unix_socket_answers(const char *path);
