#include "host/link/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <uthash.h>

#include "host/link/unix_socket.h"
#include "proto/base/clock.h"
#include "proto/base/list.h"
#include "proto/base/log.h"
#include "proto/zmtp_socket.h"

struct UserCharge {
    Listener *listener; /* NULL once that is gone */
    uid_t user;
    size_t bytes, requests, connections;
    bool complained;
    ZmtpShare share; /* of its connections */
    UT_hash_handle by_user;
};

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

/* ---- what users are charged ---- */

static UserCharge *find_charge(Listener *listener, uid_t user)
{
    UserCharge *charge = NULL;

    HASH_FIND(by_user, listener->charges, &user, sizeof(user), charge);
    if (charge)
        return charge;
    charge = calloc(1, sizeof(*charge));
    if (!charge)
        return NULL;
    charge->listener = listener;
    charge->user = user;
    zmtp_share_init(&charge->share, listener->loop);
    HASH_ADD(by_user, listener->charges, user, sizeof(user), charge);
    if (charge->by_user.tbl)
        return charge;
    free(charge);
    return NULL;
}

static void charge_free_unused(UserCharge *charge)
{
    if (charge->connections > 0 || charge->requests > 0)
        return;
    if (charge->listener)
        HASH_DELETE(by_user, charge->listener->charges, charge);
    free(charge);
}

static bool is_over(size_t amount, size_t limit)
{
    return limit > 0 && amount > limit;
}

/* Charges one more connection to that user. 0, -EDQUOT or -ENOMEM. */
static int charge_connection(UserCharge **ret, Listener *listener, uid_t user)
{
    UserCharge *charge = find_charge(listener, user);

    if (!charge)
        return -ENOMEM;
    if (is_over(charge->connections + 1, listener->limits.user_peers))
        return -EDQUOT;
    charge->connections++;
    *ret = charge;
    return 0;
}

static void charge_connection_over(UserCharge *charge)
{
    charge->connections--;
    charge_free_unused(charge);
}

/* A connection that held `before` bytes holds `now`. False when that is too much. */
static bool charge_bytes(UserCharge *charge, size_t before, size_t now)
{
    charge->bytes = charge->bytes - before + now;
    if (charge->bytes == 0)
        charge->complained = false;
    if (now <= before || !is_over(charge->bytes, charge->listener->limits.user_bytes))
        return true;
    if (charge->complained)
        return false;
    charge->complained = true;
    log_warn("user holds too much", "uid=%d bytes=%zu connections=%zu requests=%zu", (int)charge->user,
             charge->bytes, charge->connections, charge->requests);
    return false;
}

int charge_request(UserCharge *charge, size_t bytes)
{
    const ListenerLimits *limits = &charge->listener->limits;

    if (is_over(charge->requests + 1, limits->user_requests) ||
        is_over(charge->bytes + bytes, limits->user_bytes))
        return -EDQUOT;
    charge->requests++;
    charge->bytes += bytes;
    return 0;
}

void charge_request_over(UserCharge *charge, size_t bytes)
{
    charge->requests--;
    charge->bytes -= bytes;
    charge_free_unused(charge);
}

/* The listener ends before what is charged does. */
static void charges_leave(Listener *listener)
{
    UserCharge *charge, *next;

    HASH_ITER (by_user, listener->charges, charge, next) {
        HASH_DELETE(by_user, listener->charges, charge);
        charge->listener = NULL;
    }
}

/* ---- connections ---- */

#define HANDSHAKE_TIME (5 * NSEC_PER_SEC)

static Connection *connection_free(Connection *connection)
{
    HASH_DELETE(by_peer, connection->listener->connections, connection);
    connection->listener->remote -= connection->credentials.remote;
    loop_timer_cancel(&connection->handshake);
    zmtp_socket_close(&connection->socket);
    if (connection->charge) {
        charge_bytes(connection->charge, connection->charged, 0);
        charge_connection_over(connection->charge);
    }
    free(connection);
    return NULL;
}

static Connection *connection_of(ZmtpSocket *socket)
{
    return container_of(socket, Connection, socket);
}

static void on_open(ZmtpSocket *socket)
{
    loop_timer_cancel(&connection_of(socket)->handshake);
}

static void on_message(ZmtpSocket *socket, const ZmtpFrame *frame)
{
    const Connection *connection = connection_of(socket);
    const Listener *listener = connection->listener;

    if (frame->multipart)
        listener->events->on_multipart(listener->userdata, connection->peer);
    else
        listener->events->on_message(listener->userdata, connection->peer, &connection->credentials,
                                     frame->data, frame->size);
}

static void on_settled(ZmtpSocket *socket)
{
    Connection *connection = connection_of(socket);
    const Listener *listener = connection->listener;
    size_t before = connection->charged;

    connection->charged = socket->in.size + socket->out.size;
    if (!charge_bytes(connection->charge, before, connection->charged))
        zmtp_socket_fail(socket, -EDQUOT);
    if (socket->out.size <= listener->limits.unread && listener->events->on_taken)
        listener->events->on_taken(listener->userdata, connection->peer);
}

static void on_lost(ZmtpSocket *socket, int error)
{
    Connection *connection = connection_of(socket);
    Listener *listener = connection->listener;
    Peer peer = connection->peer;

    if (error != -ECONNRESET)
        log_debug("peer dropped", "pid=%d error=%s", (int)connection->credentials.pid, strerror(-error));
    connection_free(connection);
    listener->events->on_gone(listener->userdata, peer);
}

static void on_handshake_due(LoopTimer *timer)
{
    zmtp_socket_fail(&container_of(timer, Connection, handshake)->socket, -ETIMEDOUT);
}

static int read_credentials(Connection *connection, int fd)
{
    struct ucred peer;
    socklen_t size = sizeof(peer);

    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
        return -errno;
    connection->credentials = (PeerCredentials){.pid = peer.pid, .uid = peer.uid};
    return 0;
}

static const ZmtpSocketEvents socket_events = {
    .open = on_open, .message = on_message, .settled = on_settled, .lost = on_lost};

static int begin_connection(Connection *connection, int fd, const PeerCredentials *credentials)
{
    const Listener *listener = connection->listener;
    uint64_t patience = listener->limits.handshake ? listener->limits.handshake : HANDSHAKE_TIME;
    int r = 0;

    if (credentials)
        connection->credentials = *credentials;
    else
        r = read_credentials(connection, fd);
    connection->listener->remote += connection->credentials.remote;
    if (r == 0)
        r = charge_connection(&connection->charge, connection->listener, connection->credentials.uid);
    if (r == 0)
        r = loop_timer_set(listener->loop, &connection->handshake, clock_now() + patience, on_handshake_due);
    if (r == 0)
        r = zmtp_socket_open(&connection->socket, listener->loop, fd, ZMTP_ROUTER, listener->limits.frame,
                             listener->limits.queue, &socket_events);
    if (r == 0) {
        zmtp_socket_share(&connection->socket, &connection->charge->share);
        connection->socket.takes_passed = listener->limits.passes;
    }
    return r;
}

/* Uploads of an earlier controller are told apart by it as well. */
static Peer next_peer(void)
{
    static Peer last;

    if (last == 0)
        last = (Peer)(clock_unix() * 1e6);
    return ++last;
}

/* Begins one with a descriptor that was accepted, which it owns also when this fails. `credentials` are what
 * another process knows of the peer; NULL: the kernel does. */
static int connection_new(Listener *listener, int fd, const PeerCredentials *credentials)
{
    Connection *connection = calloc(1, sizeof(*connection));
    int r;

    if (!connection) {
        close(fd);
        return -ENOMEM;
    }
    connection->listener = listener;
    connection->peer = next_peer();
    connection->socket = ZMTP_SOCKET_NULL;
    HASH_ADD(by_peer, listener->connections, peer, sizeof(connection->peer), connection);
    if (!connection->by_peer.tbl) {
        free(connection);
        close(fd);
        return -ENOMEM;
    }
    r = begin_connection(connection, fd, credentials);
    if (r < 0) {
        connection_free(connection);
        close(fd);
    }
    return r;
}

/* ---- the listener ---- */

/* Connections taken in one turn of the loop. */
#define ACCEPT_BATCH 16
/* Pause in taking connections when there is no descriptor or memory for one. */
#define ACCEPT_PAUSE (100 * NSEC_PER_MSEC)

static void complain(Listener *listener, const char *reason)
{
    if (!listener->complained)
        log_warn("connection refused", "socket=%s reason=%s", listener->socket.path, reason);
    listener->complained = true;
}

static void on_pause_over(LoopTimer *timer)
{
    loop_file_change(&container_of(timer, Listener, pause)->file, EPOLLIN);
}

/* Stops accepting for a while. Connections in the backlog keep the socket readable: looked at again at once,
 * it would be for ever. */
static void pause_accepting(Listener *listener, int error)
{
    complain(listener, strerror(-error));
    if (loop_timer_set(listener->loop, &listener->pause, clock_now() + ACCEPT_PAUSE, on_pause_over) == 0)
        loop_file_change(&listener->file, 0);
}

/* False when there is nothing more to take for now. */
static bool accept_one(Listener *listener)
{
    int fd = accept4(listener->socket.fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK), r = -errno;

    if (fd < 0 && (r == -EINTR || r == -ECONNABORTED))
        return true;
    if (fd < 0 && r == -EAGAIN)
        return false;
    if (fd >= 0 && HASH_CNT(by_peer, listener->connections) - listener->remote >= listener->limits.peers) {
        close(fd);
        complain(listener, "too many connections");
        return true;
    }
    if (fd >= 0)
        r = connection_new(listener, fd, NULL);
    if (r == -EDQUOT) {
        complain(listener, "too many connections of one user");
        return true;
    }
    if (r < 0) {
        pause_accepting(listener, r);
        return false;
    }
    listener->complained = false;
    return true;
}

static void on_ready(LoopFile *file, uint32_t events)
{
    Listener *listener = container_of(file, Listener, file);

    for (int i = 0; i < ACCEPT_BATCH && accept_one(listener); i++)
        ;
}

/* Takes the socket over. */
static int serve(Listener **ret, Loop *loop, UnixSocket *unix_socket, const ListenerLimits *limits,
                 const ListenerEvents *events, void *userdata)
{
    Listener *listener _cleanup_(listener_freep) = calloc(1, sizeof(*listener));
    int r;

    if (!listener) {
        unix_socket_deinit(unix_socket);
        return -ENOMEM;
    }
    *listener = (Listener){
        .loop = loop, .socket = *unix_socket, .limits = *limits, .events = events, .userdata = userdata};
    r = loop_file_add(loop, &listener->file, listener->socket.fd, EPOLLIN, on_ready);
    if (r < 0)
        return r;
    *ret = take(listener);
    return 0;
}

int listener_admit(Listener *listener, gid_t group)
{
    return unix_socket_admit(&listener->socket, group);
}

int listener_new(Listener **ret, Loop *loop, const char *path, const ListenerLimits *limits,
                 const ListenerEvents *events, void *userdata)
{
    UnixSocket unix_socket = UNIX_SOCKET_NULL;
    int r = unix_socket_listen(&unix_socket, path);

    return r < 0 ? r : serve(ret, loop, &unix_socket, limits, events, userdata);
}

int listener_adopt(Listener **ret, Loop *loop, int fd, const char *path, const ListenerLimits *limits,
                   const ListenerEvents *events, void *userdata)
{
    UnixSocket unix_socket = UNIX_SOCKET_NULL;
    int r = unix_socket_adopt(&unix_socket, fd, path);

    return r < 0 ? r : serve(ret, loop, &unix_socket, limits, events, userdata);
}

int listener_add(Listener *listener, int fd, const PeerCredentials *credentials)
{
    int r = fcntl(fd, F_SETFL, O_NONBLOCK) < 0 ? -errno : 0;

    if (r == 0)
        return connection_new(listener, fd, credentials);
    close(fd);
    return r;
}

void listener_keep(Listener *listener, bool (*may_stay)(void *userdata, const PeerCredentials *credentials),
                   void *userdata)
{
    Connection *connection, *next;

    HASH_ITER (by_peer, listener->connections, connection, next)
        if (!may_stay(userdata, &connection->credentials))
            zmtp_socket_fail(&connection->socket, -EACCES);
}

Listener *listener_free(Listener *listener)
{
    Connection *connection, *next;

    if (!listener)
        return NULL;
    HASH_ITER (by_peer, listener->connections, connection, next)
        connection_free(connection);
    charges_leave(listener);
    loop_timer_cancel(&listener->pause);
    loop_file_remove(&listener->file);
    unix_socket_deinit(&listener->socket);
    free(listener);
    return NULL;
}

static Connection *find_connection(const Listener *listener, Peer peer)
{
    Connection *connection = NULL;

    HASH_FIND(by_peer, listener->connections, &peer, sizeof(peer), connection);
    return connection;
}

bool listener_has(const Listener *listener, Peer peer)
{
    return find_connection(listener, peer) != NULL;
}

static int in_terms_of_peers(int r)
{
    switch (r) {
    case -ENOTCONN:
        return -EHOSTUNREACH;
    case -ENOBUFS:
        return -EAGAIN;
    default:
        return r;
    }
}

UserCharge *listener_charge(const Listener *listener, Peer peer)
{
    const Connection *connection = find_connection(listener, peer);

    return connection ? connection->charge : NULL;
}

int listener_begin(Listener *listener, Peer peer, PeerFrame *ret)
{
    Connection *connection = find_connection(listener, peer);

    if (!connection)
        return -EHOSTUNREACH;
    ret->connection = connection;
    ret->out = &connection->socket.out;
    return in_terms_of_peers(zmtp_socket_begin(&connection->socket, &ret->mark));
}

int listener_end(PeerFrame *frame, int error)
{
    return in_terms_of_peers(zmtp_socket_end(&frame->connection->socket, frame->mark, error));
}

int listener_send(Listener *listener, Peer peer, const void *bytes, size_t size)
{
    PeerFrame frame;
    int r = listener_begin(listener, peer, &frame);

    return r < 0 ? r : listener_end(&frame, buf_append(frame.out, bytes, size));
}

size_t listener_untaken(const Listener *listener, Peer peer)
{
    const Connection *connection = find_connection(listener, peer);

    return connection && connection->socket.error == 0 ? connection->socket.out.size : SIZE_MAX;
}

bool listener_flush(Listener *listener, Peer peer)
{
    Connection *connection = find_connection(listener, peer);

    return connection && zmtp_socket_flush(&connection->socket);
}

int listener_connection_of(const Listener *listener, uid_t user)
{
    for (const Connection *at = listener->connections; at; at = at->by_peer.next)
        if (at->credentials.uid == user && !at->credentials.remote && at->socket.fd >= 0)
            return at->socket.fd;
    return -1;
}

int listener_pass(Listener *listener, Peer peer, int fd, bool more)
{
    Connection *connection = find_connection(listener, peer);

    return connection ? zmtp_socket_pass(&connection->socket, fd, more) : -EHOSTUNREACH;
}

int listener_take_passed(const Listener *listener, Peer peer)
{
    Connection *connection = find_connection(listener, peer);

    return connection ? zmtp_socket_take_passed(&connection->socket) : -1;
}

void listener_drop(Listener *listener, Peer peer)
{
    Connection *connection = find_connection(listener, peer);

    if (connection)
        zmtp_socket_fail(&connection->socket, -ENOBUFS);
}
