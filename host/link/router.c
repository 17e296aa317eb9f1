#include "host/link/router.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <zmq.h>

struct Router {
    void *socket;
    RouterEvents events;
    void *userdata;
    LoopFile file;
    LoopIdle idle;
};

/* A peer that does not answer the ZMTP handshake in this time is dropped, in milliseconds. */
#define HANDSHAKE_TIMEOUT 1000

void *link_context_new(void)
{
    void *context = zmq_ctx_new();

    if (context)
        zmq_ctx_set(context, ZMQ_IO_THREADS, 1);
    return context;
}

void link_context_free(void *context)
{
    while (context && zmq_ctx_term(context) < 0 && errno == EINTR)
        ;
}

/* libzmq gives the peer's credentials as the text "...:UID:GID:PID". */
static PeerCredentials credentials_of(zmq_msg_t *message)
{
    PeerCredentials credentials = {.pid = -1, .uid = (uid_t)-1};
    const char *address = zmq_msg_gets(message, "Peer-Address");
    const char *colon = address;
    long uid, gid, pid;

    for (const char *at = address; at && *at; at++)
        if (sscanf(at, ":%ld:%ld:%ld", &uid, &gid, &pid) == 3)
            colon = at;
    if (colon && sscanf(colon, ":%ld:%ld:%ld", &uid, &gid, &pid) == 3)
        credentials = (PeerCredentials){.pid = (pid_t)pid, .uid = (uid_t)uid};
    return credentials;
}

static bool more_follows(Router *router)
{
    int more = 0;
    size_t size = sizeof(more);

    return zmq_getsockopt(router->socket, ZMQ_RCVMORE, &more, &size) == 0 && more;
}

/* Receives what is left of a message of too many parts. */
static void skip_rest(Router *router)
{
    while (more_follows(router)) {
        zmq_msg_t part;
        zmq_msg_init(&part);
        int r = zmq_msg_recv(&part, router->socket, ZMQ_DONTWAIT);
        zmq_msg_close(&part);
        if (r < 0)
            return;
    }
}

/* Receives one message and hands it on. False when there is none. */
static bool receive_one(Router *router)
{
    zmq_msg_t id, payload;
    Peer peer = {0};
    bool usable;

    zmq_msg_init(&id);
    if (zmq_msg_recv(&id, router->socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&id);
        return false;
    }
    usable = zmq_msg_size(&id) <= PEER_ID_MAX;
    if (usable) {
        peer.size = (uint8_t)zmq_msg_size(&id);
        memcpy(peer.id, zmq_msg_data(&id), peer.size);
    }
    zmq_msg_close(&id);

    zmq_msg_init(&payload);
    if (!more_follows(router) || zmq_msg_recv(&payload, router->socket, ZMQ_DONTWAIT) < 0) {
        zmq_msg_close(&payload);
        return true;
    }
    if (more_follows(router)) {
        skip_rest(router);
        if (usable)
            router->events.on_multipart(router->userdata, &peer);
    } else if (usable) {
        PeerCredentials credentials = credentials_of(&payload);
        router->events.on_message(router->userdata, &peer, &credentials, zmq_msg_data(&payload),
                                  zmq_msg_size(&payload));
    }
    zmq_msg_close(&payload);
    return true;
}

/* At most this many messages in a row, so that other sources of the loop get their turn. */
#define RECEIVE_BATCH 64

static void drain(Router *router)
{
    for (int i = 0; i < RECEIVE_BATCH; i++)
        if (!receive_one(router))
            return;
    loop_idle_add(router->file.loop, &router->idle, router->idle.on_idle);
}

static void on_ready(LoopFile *file, uint32_t events)
{
    drain(container_of(file, Router, file));
}

/* The descriptor of a ZeroMQ socket is edge-triggered: after a send or receive its readiness may have been
 * swallowed, so the state is read again before the loop waits. */
static void on_idle(LoopIdle *idle)
{
    drain(container_of(idle, Router, idle));
}

static int set_int(void *socket, int option, int value)
{
    return zmq_setsockopt(socket, option, &value, sizeof(value)) < 0 ? -errno : 0;
}

static int configure(void *socket, size_t max_frame)
{
    int64_t max = (int64_t)max_frame;
    int r = set_int(socket, ZMQ_LINGER, 500);

    if (r == 0)
        r = set_int(socket, ZMQ_ROUTER_MANDATORY, 1);
    if (r == 0)
        r = set_int(socket, ZMQ_HANDSHAKE_IVL, HANDSHAKE_TIMEOUT);
    if (r == 0 && zmq_setsockopt(socket, ZMQ_MAXMSGSIZE, &max, sizeof(max)) < 0)
        r = -errno;
    return r;
}

int router_new(Router **ret, Loop *loop, void *zmq_context, size_t max_frame, const RouterEvents *events,
               void *userdata)
{
    Router *router _cleanup_(router_freep) = calloc(1, sizeof(*router));
    int fd = -1, r;
    size_t size = sizeof(fd);

    if (!router)
        return -ENOMEM;
    router->events = *events;
    router->userdata = userdata;
    router->idle.on_idle = on_idle;
    router->socket = zmq_socket(zmq_context, ZMQ_ROUTER);
    if (!router->socket)
        return -errno;
    r = configure(router->socket, max_frame);
    if (r < 0)
        return r;
    if (zmq_getsockopt(router->socket, ZMQ_FD, &fd, &size) < 0)
        return -errno;
    r = loop_file_add(loop, &router->file, fd, EPOLLIN, on_ready);
    if (r < 0)
        return r;
    loop_idle_add(loop, &router->idle, on_idle);
    *ret = take(router);
    return 0;
}

Router *router_free(Router *router)
{
    if (!router)
        return NULL;
    if (router->file.loop) {
        loop_file_remove(&router->file);
        loop_idle_remove(&router->idle);
    }
    if (router->socket)
        zmq_close(router->socket);
    free(router);
    return NULL;
}

static int endpoint(char *ret, size_t size, const char *path)
{
    return snprintf(ret, size, "ipc://%s", path) < (int)size ? 0 : -ENAMETOOLONG;
}

int router_bind(Router *router, const char *path)
{
    char address[128];
    int r = endpoint(address, sizeof(address), path);

    if (r < 0)
        return r;
    mode_t old = umask(0177);
    r = zmq_bind(router->socket, address) < 0 ? -errno : 0;
    umask(old);
    loop_idle_add(router->file.loop, &router->idle, on_idle);
    return r;
}

void router_unbind(Router *router, const char *path)
{
    char address[128];

    if (endpoint(address, sizeof(address), path) == 0)
        zmq_unbind(router->socket, address);
    unlink(path);
    loop_idle_add(router->file.loop, &router->idle, on_idle);
}

int router_send(Router *router, const Peer *peer, const void *bytes, size_t size)
{
    int r = zmq_send(router->socket, peer->id, peer->size, ZMQ_SNDMORE | ZMQ_DONTWAIT);

    if (r >= 0)
        r = zmq_send(router->socket, bytes, size, ZMQ_DONTWAIT);
    r = r < 0 ? -errno : 0;
    loop_idle_add(router->file.loop, &router->idle, on_idle);
    return r;
}
