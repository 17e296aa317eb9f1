/* ClientConnection: one ZMTP connection to the controller; blocking for its user, poll underneath. */
#pragma once

#include "clients/c/dial.h"
#include "clients/c/remote.h"
#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/zmtp.h"

typedef struct ClientConnection {
    int fd;                 /* -1 when closed, and of a RemotePeer */
    RemotePeer *remote;     /* or NULL */
    DialledCommand command; /* whose standard streams `fd` is; or none */
    Zmtp zmtp;
    Buf in;
    Buf out;
    size_t used; /* bytes of `in` that the frame last received takes */
    bool sips;   /* it reads no byte after a frame: what follows is none */
    int passed;  /* the last descriptor that came; -1: none */
} ClientConnection;

#define CONNECTION_NULL ((ClientConnection){.fd = -1, .passed = -1, .command = DIALLED_NULL})

/* Connects and shakes hands. 0, -ENOENT or -ECONNREFUSED when nothing listens there, or as
 * connection_receive(). */
int connection_open(ClientConnection *connection, const char *path, uint64_t deadline);
/* The same with a controller on another machine, as remote_open(). */
int connection_open_remote(ClientConnection *connection, const char *address, const RemoteKeys *keys,
                           uint64_t deadline);
/* The same through the command of an address that dial_is(). Where that
 * has begun it is to be closed also after an error; -EPROTO with the problem if not. */
int connection_open_dialled(ClientConnection *connection, const char *address, uint64_t deadline,
                            Problem *problem);
void connection_close(ClientConnection *connection);

/* Returns whether the peer has hung up or sent what nobody waits for; a call on it could not succeed. */
bool connection_is_stale(const ClientConnection *connection);

/* Queues a frame and sends what can be sent at once; connection_receive() sends the rest. */
int connection_send(ClientConnection *connection, const Buf *payload);

/* Waits for the next frame, which is valid until the next call on the connection.
 *
 * 0; -EINTR when `wake_fd` (-1: none) is readable, which it stays; -ETIMEDOUT at `deadline` (clock_now()
 * nanoseconds, 0: never); -ECONNRESET when the peer is gone; -EPROTO or -EMSGSIZE when it does not speak ZMTP
 * as we do; another negative errno. */
int connection_receive(ClientConnection *connection, int wake_fd, uint64_t deadline, ZmtpFrame *ret);

/* Moves the memory the last frame points into to *ret. */
int connection_take_frame(ClientConnection *connection, Buf *ret);

/* The descriptor of a connection that sips, and on which no more frames come; it is the caller's, and its
 * command ends with it. */
int connection_take_stream(ClientConnection *connection);

/* The descriptor that came last, which is the caller's; -1 when none did since it was asked. */
int connection_take_passed(ClientConnection *connection);
