/* Remote: a connection to a controller on another machine, by libzmq, which encrypts. It connects once: that
 * a controller is gone is to be noticed. */
#pragma once

#include "clients/c/keys.h"
#include "proto/base/buf.h"

typedef struct Remote Remote;

bool remote_is(const char *address);

/* Connects. 0; -EACCES: the key is not let in; -EKEYREJECTED: the controller is another one; -ENOSYS: there
 * is no libzmq; -ECONNREFUSED, -ETIMEDOUT at `deadline`, or another negative errno. */
int remote_open(Remote **ret, const char *address, const RemoteKeys *keys, uint64_t deadline);
Remote *remote_free(Remote *remote);
DEFINE_CLEANUP(Remote *, remote_free);

bool remote_has_ended(Remote *remote);
/* 0 or a negative errno. */
int remote_send(Remote *remote, const void *bytes, size_t size);
/* Appends the next message. As connection_receive() otherwise. */
int remote_receive(Remote *remote, int wake_fd, uint64_t deadline, Buf *ret);
