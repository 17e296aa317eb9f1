/* Router: a ZeroMQ ROUTER on the loop, the only user of libzmq. One serves all clients, one all guests, so
 * that the cost of a message does not grow with idle peers. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/base/loop.h"

#define PEER_ID_MAX 31

/* Who sent a message: the routing id of one connection. Never reused for another connection. */
typedef struct Peer {
    uint8_t size;
    uint8_t id[PEER_ID_MAX];
} Peer;

static inline bool peer_equal(const Peer *a, const Peer *b)
{
    return a->size == b->size && __builtin_memcmp(a->id, b->id, a->size) == 0;
}

/* What the kernel says of the process at the other end; pid and uid are -1 when it does not say. */
typedef struct PeerCredentials {
    pid_t pid;
    uid_t uid;
} PeerCredentials;

typedef struct Router Router;

typedef struct RouterEvents {
    /* A single-frame message. Bytes are valid during the call. */
    void (*on_message)(void *userdata, const Peer *peer, const PeerCredentials *credentials,
                       const uint8_t *bytes, size_t size);
    /* A message of several frames, which the protocol does not have. */
    void (*on_multipart)(void *userdata, const Peer *peer);
} RouterEvents;

/* `max_frame`: libzmq drops a peer that announces a larger one. */
int router_new(Router **ret, Loop *loop, void *zmq_context, size_t max_frame, const RouterEvents *events,
               void *userdata);
Router *router_free(Router *router);
DEFINE_CLEANUP(Router *, router_free);

/* Listens on a unix socket, mode 0600. unbind removes the socket file. */
int router_bind(Router *router, const char *path);
void router_unbind(Router *router, const char *path);

/* 0; -EHOSTUNREACH when the peer is gone; -EAGAIN when it does not read and its queue is full. */
int router_send(Router *router, const Peer *peer, const void *bytes, size_t size);

/* One context with one I/O thread for the process. */
void *link_context_new(void);
void link_context_free(void *context);
