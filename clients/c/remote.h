/* Remote: a controller on another machine, reached by libzmq, which encrypts. */
#pragma once

#include <limits.h>

#include "proto/base/buf.h"
#include "proto/base/problem.h"
#include "proto/certificate.h"
#ifdef LIMPET_NET
#include <zmq.h>
#endif

/* ---- keys: the client's pair, and the controller's public key ---- */

typedef struct RemoteKeys {
    Certificate own;
    char server[Z85_KEY_SIZE + 1];
} RemoteKeys;

/* $LIMPET_KEY, or limpet.key_secret in the user's directory of configuration. */
void keys_path(char ret[static PATH_MAX]);

/* The pair of that file, and $LIMPET_SERVER_KEY. 0, or negative with the problem set. */
int keys_find(RemoteKeys *ret, Problem *problem);

/* ---- libzmq ----
 *
 * It is loaded when something is reached over a network: what it depends on costs every start of a program
 * otherwise. */

#ifdef LIMPET_NET
#define ZMQ_FUNCTIONS(F)                                                                                     \
    F(zmq_ctx_new)                                                                                           \
    F(zmq_ctx_term)                                                                                          \
    F(zmq_socket)                                                                                            \
    F(zmq_close)                                                                                             \
    F(zmq_setsockopt)                                                                                        \
    F(zmq_connect)                                                                                           \
    F(zmq_socket_monitor)                                                                                    \
    F(zmq_msg_init)                                                                                          \
    F(zmq_msg_recv)                                                                                          \
    F(zmq_msg_data)                                                                                          \
    F(zmq_msg_size)                                                                                          \
    F(zmq_msg_close)                                                                                         \
    F(zmq_send)                                                                                              \
    F(zmq_poll)                                                                                              \
    F(zmq_curve_keypair)

typedef struct ZmqLibrary {
#define ZMQ_MEMBER(name) __typeof__(&name) name;
    ZMQ_FUNCTIONS(ZMQ_MEMBER)
#undef ZMQ_MEMBER
} ZmqLibrary;

/* NULL where it is not installed. */
const ZmqLibrary *zmq_library(void);
#endif

/* ---- the connection, which is made once: that a controller is gone is to be noticed ---- */

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
