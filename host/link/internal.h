/* Parts of a Listener. Nobody else includes this. */
#pragma once

#include <uthash.h>

#include "host/link/charge.h"
#include "host/link/listener.h"
#include "host/link/unix_socket.h"
#include "proto/base/list.h"
#include "proto/zmtp_socket.h"

typedef struct Connection {
    Listener *listener;
    Peer peer;
    PeerCredentials credentials;
    UserCharge *charge;
    size_t charged; /* bytes that it is known to hold */
    ZmtpSocket socket;
    LoopTimer handshake;
    UT_hash_handle by_peer;
} Connection;

struct Listener {
    Loop *loop;
    ListenerLimits limits;
    const ListenerEvents *events;
    void *userdata;
    UnixSocket socket;
    LoopFile file;
    LoopTimer pause; /* set while no connection is taken */
    bool complained;
    size_t remote;           /* connections that were added */
    Connection *connections; /* uthash by peer */
    UserCharge *charges;     /* uthash by user */
};

/* connection.c */
/* Begins one with a descriptor that was accepted, which it owns also when this fails. `credentials` are what
 * another process knows of the peer; NULL: the kernel does. */
int connection_new(Listener *listener, int fd, const PeerCredentials *credentials);
Connection *connection_free(Connection *connection);
