#include "clients/c/remote.h"

#include <errno.h>
#include <string.h>

bool remote_is(const char *address)
{
    return strncmp(address, "tcp://", strlen("tcp://")) == 0;
}

#ifdef LIMPET_NET
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include "clients/c/zmq_library.h"
#include "proto/base/clock.h"
#include "proto/limits.h"
#include "proto/zmtp.h"

#define MONITOR        "inproc://monitor"
#define HEARTBEAT_MSEC 15000
#define SILENCE_MSEC   45000
#define READ_SIZE      (LIMIT_CHUNK + ((size_t)4 << 10))
/* No more is taken from libzmq while that much waits for the client. */
#define ENOUGH LIMIT_GUEST_FRAME
#define EVENTS                                                                                               \
    (ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_HANDSHAKE_FAILED_NO_DETAIL |                                  \
     ZMQ_EVENT_HANDSHAKE_FAILED_PROTOCOL | ZMQ_EVENT_HANDSHAKE_FAILED_AUTH | ZMQ_EVENT_DISCONNECTED |        \
     ZMQ_EVENT_CLOSED)

typedef struct Bridge {
    const ZmqLibrary *zmq;
    void *context, *socket, *monitor;
    int fd; /* to the client of this process */
    Zmtp zmtp;
    Buf in, out;
    bool ended; /* libzmq has no connection any more */
} Bridge;

static void bridge_free(Bridge *bridge)
{
    if (bridge->monitor)
        bridge->zmq->zmq_close(bridge->monitor);
    if (bridge->socket)
        bridge->zmq->zmq_close(bridge->socket);
    if (bridge->context)
        bridge->zmq->zmq_ctx_term(bridge->context);
    close_fd(&bridge->fd);
    buf_deinit(&bridge->in);
    buf_deinit(&bridge->out);
    free(bridge);
}

DEFINE_CLEANUP(Bridge *, bridge_free);

/* ---- connecting ---- */

typedef struct SocketSetting {
    int option;
    const void *value;
    size_t size;
} SocketSetting;

static int set_up(const Bridge *bridge, const RemoteKeys *keys)
{
    const int none = 0, never = -1, heartbeat = HEARTBEAT_MSEC, silence = SILENCE_MSEC, yes = 1;
    const int64_t most = LIMIT_GUEST_FRAME;
    const SocketSetting settings[] = {
        {ZMQ_CURVE_SERVERKEY, keys->server, sizeof(keys->server)},
        {ZMQ_CURVE_PUBLICKEY, keys->own.public_key, sizeof(keys->own.public_key)},
        {ZMQ_CURVE_SECRETKEY, keys->own.secret_key, sizeof(keys->own.secret_key)},
        {ZMQ_LINGER, &none, sizeof(none)},
        {ZMQ_SNDHWM, &none, sizeof(none)},
        {ZMQ_RECONNECT_IVL, &never, sizeof(never)},
        {ZMQ_MAXMSGSIZE, &most, sizeof(most)},
        {ZMQ_HEARTBEAT_IVL, &heartbeat, sizeof(heartbeat)},
        {ZMQ_HEARTBEAT_TIMEOUT, &silence, sizeof(silence)},
        {ZMQ_IPV6, &yes, sizeof(yes)},
    };

    for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
        if (bridge->zmq->zmq_setsockopt(bridge->socket, settings[i].option, settings[i].value,
                                        settings[i].size) < 0)
            return -errno;
    return 0;
}

static int begin(Bridge *bridge, const char *address, const RemoteKeys *keys)
{
    const ZmqLibrary *zmq = bridge->zmq;
    int r;

    if (!(bridge->context = zmq->zmq_ctx_new()) ||
        !(bridge->socket = zmq->zmq_socket(bridge->context, ZMQ_DEALER)) ||
        !(bridge->monitor = zmq->zmq_socket(bridge->context, ZMQ_PAIR)))
        return -errno;
    r = set_up(bridge, keys);
    if (r == 0 &&
        (zmq->zmq_socket_monitor(bridge->socket, MONITOR, EVENTS) < 0 ||
         zmq->zmq_connect(bridge->monitor, MONITOR) < 0 || zmq->zmq_connect(bridge->socket, address) < 0))
        r = -errno;
    return r;
}

/* The number of what has happened, or 0. */
static unsigned take_event(const Bridge *bridge)
{
    const ZmqLibrary *zmq = bridge->zmq;
    uint16_t event = 0;

    for (int part = 0; part < 2; part++) {
        zmq_msg_t message;
        bool told;

        zmq->zmq_msg_init(&message);
        told = zmq->zmq_msg_recv(&message, bridge->monitor, ZMQ_DONTWAIT) >= 0;
        if (told && part == 0 && zmq->zmq_msg_size(&message) >= sizeof(event))
            memcpy(&event, zmq->zmq_msg_data(&message), sizeof(event));
        zmq->zmq_msg_close(&message);
        if (!told)
            break;
    }
    return event;
}

static int outcome(unsigned event)
{
    switch (event) {
    case ZMQ_EVENT_HANDSHAKE_SUCCEEDED:
        return 0;
    case ZMQ_EVENT_HANDSHAKE_FAILED_AUTH:
        return -EACCES;
    case ZMQ_EVENT_CLOSED:
        return -ECONNREFUSED;
    default:
        return -EKEYREJECTED;
    }
}

static int wait_for_handshake(const Bridge *bridge, uint64_t deadline)
{
    unsigned event;

    while (!(event = take_event(bridge))) {
        zmq_pollitem_t item = {.socket = bridge->monitor, .events = ZMQ_POLLIN};
        uint64_t now = clock_now();

        if (deadline && now >= deadline)
            return -ETIMEDOUT;
        bridge->zmq->zmq_poll(&item, 1, deadline ? (long)((deadline - now) / NSEC_PER_MSEC) + 1 : -1);
    }
    return outcome(event);
}

/* ---- passing on, in the thread ---- */

/* 0, or negative when the client has ended. */
static int take_from_client(Bridge *bridge)
{
    uint8_t *space = buf_reserve(&bridge->in, READ_SIZE);
    ZmtpFrame frame;
    ssize_t n = space ? recv(bridge->fd, space, READ_SIZE, MSG_DONTWAIT) : -1;
    int r;

    if (!space || n == 0)
        return -ECONNRESET;
    if (n < 0)
        return errno == EAGAIN || errno == EINTR ? 0 : -errno;
    buf_commit(&bridge->in, (size_t)n);
    while ((r = zmtp_next(&bridge->zmtp, &bridge->in, &bridge->out, &frame)) > 0) {
        if (bridge->zmq->zmq_send(bridge->socket, frame.data, frame.size, ZMQ_DONTWAIT) < 0)
            return -errno;
        buf_consume(&bridge->in, frame.used);
    }
    return r;
}

static int append(Bridge *bridge, const void *bytes, size_t size)
{
    size_t mark;
    int r = zmtp_frame_begin(&bridge->zmtp, &bridge->out, &mark);

    if (r == 0)
        r = buf_append(&bridge->out, bytes, size);
    if (r == 0)
        zmtp_frame_end(&bridge->out, mark);
    return r;
}

static int take_from_controller(Bridge *bridge)
{
    const ZmqLibrary *zmq = bridge->zmq;
    bool more = bridge->zmtp.state == ZMTP_READY;
    int r = 0;

    while (r == 0 && more && bridge->out.size < ENOUGH) {
        zmq_msg_t message;

        zmq->zmq_msg_init(&message);
        more = zmq->zmq_msg_recv(&message, bridge->socket, ZMQ_DONTWAIT) >= 0;
        if (more)
            r = append(bridge, zmq->zmq_msg_data(&message), zmq->zmq_msg_size(&message));
        zmq->zmq_msg_close(&message);
    }
    return r;
}

/* What ended the connection came before this; what it carried is taken after. */
static void note_end(Bridge *bridge)
{
    unsigned event;

    while ((event = take_event(bridge)))
        bridge->ended |= event != ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
}

static void wait_for_more(Bridge *bridge)
{
    bool room = bridge->out.size < ENOUGH && bridge->zmtp.state == ZMTP_READY;
    zmq_pollitem_t items[] = {
        {.fd = bridge->fd, .events = (short)(ZMQ_POLLIN | (bridge->out.size > 0 ? ZMQ_POLLOUT : 0))},
        {.socket = bridge->monitor, .events = ZMQ_POLLIN},
        {.socket = bridge->socket, .events = ZMQ_POLLIN},
    };

    bridge->zmq->zmq_poll(items, room ? 3 : 2, -1);
}

static void *pass_on(void *userdata)
{
    Bridge *bridge _cleanup_(bridge_freep) = userdata;
    int r = 0;

    while (r == 0) {
        wait_for_more(bridge);
        r = take_from_client(bridge);
        if (r == 0)
            note_end(bridge);
        if (r == 0)
            r = take_from_controller(bridge);
        if (r == 0)
            r = buf_send(&bridge->out, bridge->fd);
        if (r == 0 && bridge->ended && bridge->out.size == 0)
            break;
    }
    return NULL;
}

/* Signals are for the threads of whoever uses the library. */
static int begin_thread(Bridge *bridge)
{
    pthread_attr_t attributes;
    sigset_t all, before;
    pthread_t thread;
    int r;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = -pthread_create(&thread, &attributes, pass_on, bridge);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return r;
}

int remote_open(const char *address, const RemoteKeys *keys, uint64_t deadline)
{
    Bridge *bridge _cleanup_(bridge_freep) = calloc(1, sizeof(*bridge));
    int ends[2], r;

    if (!bridge)
        return -ENOMEM;
    bridge->fd = -1;
    bridge->zmq = zmq_library();
    if (!bridge->zmq)
        return -ENOSYS;
    r = begin(bridge, address, keys);
    if (r == 0)
        r = wait_for_handshake(bridge, deadline);
    if (r == 0)
        r = zmtp_init(&bridge->zmtp, ZMTP_ROUTER, LIMIT_CLIENT_FRAME, &bridge->out);
    if (r == 0 && socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        r = -errno;
    if (r < 0)
        return r;
    bridge->fd = ends[1];
    r = begin_thread(bridge);
    if (r < 0) {
        close(ends[0]);
        return r;
    }
    take(bridge);
    return ends[0];
}
#else
int remote_open(const char *address, const RemoteKeys *keys, uint64_t deadline)
{
    return -ENOSYS;
}
#endif
