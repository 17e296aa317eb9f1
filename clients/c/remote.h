/* Remote: a controller on another machine, as a socket on which it speaks as a local one does: a thread
 * passes frames on between that and libzmq, which encrypts. The thread ends with the socket. */
#pragma once

#include "clients/c/keys.h"

bool remote_is(const char *address);

/* Connects, and returns the socket; or -EACCES: the key is not let in; -EKEYREJECTED: the controller is
 * another one; -ENOSYS: there is no libzmq; -ECONNREFUSED, -ETIMEDOUT at `deadline`, or another negative
 * errno. */
int remote_open(const char *address, const RemoteKeys *keys, uint64_t deadline);
