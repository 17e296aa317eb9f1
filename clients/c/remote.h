/* RemotePeer: a connection to a controller on another machine, by libzmq, which encrypts. It connects once:
 * that a controller is gone is to be noticed. */
#pragma once

#include "clients/c/keys.h"
#include "proto/base/buf.h"

typedef struct RemotePeer RemotePeer;

bool remote_is(const char *address);

/* Connects. 0; -EACCES: the key is not let in; -EKEYREJECTED: the controller is another one; -ENOSYS: there
 * is no libzmq; -ECONNREFUSED, -ETIMEDOUT at `deadline`, or another negative errno. */
int remote_open(RemotePeer **ret, const char *address, const RemoteKeys *keys, uint64_t deadline);
RemotePeer *remote_free(RemotePeer *remote);
DEFINE_CLEANUP(RemotePeer *, remote_free);

bool remote_has_ended(RemotePeer *remote);
/* 0 or a negative errno. */
int remote_send(RemotePeer *remote, const void *bytes, size_t size);
/* Appends the next message. As connection_receive() otherwise. */
int remote_receive(RemotePeer *remote, int wake_fd, uint64_t deadline, Buf *ret);
