#include "host/link/internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

#define HANDSHAKE_TIME (5 * NSEC_PER_SEC)

Connection *connection_free(Connection *connection)
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
    if (socket->out.size == 0 && listener->events->on_taken)
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

static int begin(Connection *connection, int fd, const PeerCredentials *credentials)
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
    if (r == 0)
        connection->socket.takes_passed = listener->limits.passes;
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

int connection_new(Listener *listener, int fd, const PeerCredentials *credentials)
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
    r = begin(connection, fd, credentials);
    if (r < 0) {
        connection_free(connection);
        close(fd);
    }
    return r;
}
