#include "host/link/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>

#include "host/link/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

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

static Connection *find(const Listener *listener, Peer peer)
{
    Connection *connection = NULL;

    HASH_FIND(by_peer, listener->connections, &peer, sizeof(peer), connection);
    return connection;
}

bool listener_has(const Listener *listener, Peer peer)
{
    return find(listener, peer) != NULL;
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
    const Connection *connection = find(listener, peer);

    return connection ? connection->charge : NULL;
}

int listener_begin(Listener *listener, Peer peer, PeerFrame *ret)
{
    Connection *connection = find(listener, peer);

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
    const Connection *connection = find(listener, peer);

    return connection && connection->socket.error == 0 ? connection->socket.out.size : SIZE_MAX;
}

bool listener_flush(Listener *listener, Peer peer)
{
    Connection *connection = find(listener, peer);

    return connection && zmtp_socket_flush(&connection->socket);
}

int listener_connection_of(const Listener *listener, uid_t user)
{
    for (const Connection *at = listener->connections; at; at = at->by_peer.next)
        if (at->credentials.uid == user && !at->credentials.remote && at->socket.fd >= 0)
            return at->socket.fd;
    return -1;
}

int listener_pass(Listener *listener, Peer peer, int fd)
{
    Connection *connection = find(listener, peer);

    return connection ? zmtp_socket_pass(&connection->socket, fd) : -EHOSTUNREACH;
}

int listener_take_passed(const Listener *listener, Peer peer)
{
    Connection *connection = find(listener, peer);

    return connection ? zmtp_socket_take_passed(&connection->socket) : -1;
}

void listener_drop(Listener *listener, Peer peer)
{
    Connection *connection = find(listener, peer);

    if (connection)
        zmtp_socket_fail(&connection->socket, -ENOBUFS);
}
