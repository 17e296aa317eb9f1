#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "host/net/process/internal.h"
#include "proto/base/log.h"

/* ---- to the client ---- */

struct Backlog {
    atomic_size_t bytes;
    atomic_uint holders; /* the line, and each message that libzmq has */
};

typedef struct Outgoing {
    Backlog *backlog;
    size_t size;
    uint8_t bytes[];
} Outgoing;

static void release(Backlog *backlog)
{
    if (atomic_fetch_sub(&backlog->holders, 1) == 1)
        free(backlog);
}

/* By a thread of libzmq's, when it has sent the message. */
static void on_sent(void *bytes, void *hint)
{
    Outgoing *outgoing = hint;

    atomic_fetch_sub(&outgoing->backlog->bytes, outgoing->size);
    release(outgoing->backlog);
    free(outgoing);
}

static int make_message(zmq_msg_t *ret, Backlog *backlog, const void *bytes, size_t size)
{
    Outgoing *outgoing = malloc(sizeof(*outgoing) + size);

    if (!outgoing)
        return -ENOMEM;
    outgoing->backlog = backlog;
    outgoing->size = size;
    memcpy(outgoing->bytes, bytes, size);
    if (zmq_msg_init_data(ret, outgoing->bytes, size, on_sent, outgoing) < 0) {
        free(outgoing);
        return -ENOMEM;
    }
    atomic_fetch_add(&backlog->bytes, size);
    atomic_fetch_add(&backlog->holders, 1);
    return 0;
}

/* The client may have gone a moment ago. */
static int send_on(NetLine *line, const void *bytes, size_t size)
{
    zmq_msg_t message;
    int r = make_message(&message, line->backlog, bytes, size);

    if (r < 0)
        return r;
    if (zmq_send(line->door->router, line->routing, line->routing_size, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_msg_send(&message, line->door->router, ZMQ_DONTWAIT) < 0) {
        r = -errno;
        zmq_msg_close(&message);
    }
    door_look_again(line->door);
    return r;
}

static void on_message(ZmtpSocket *socket, const ZmtpFrame *frame)
{
    NetLine *line = container_of(socket, NetLine, link);
    int r = -ENOBUFS;

    if (line->doomed)
        return;
    if (atomic_load(&line->backlog->bytes) <= QUEUE_OUT)
        r = send_on(line, frame->data, frame->size);
    if (r < 0)
        line_doom(line, r == -ENOBUFS ? "it does not read" : NULL);
}

/* ---- to the controller ---- */

static int say(NetLine *line, const void *bytes, size_t size)
{
    uint32_t length = (uint32_t)size;
    int r = zmtp_socket_send(&line->link, bytes, size);

    if (r != -ENOTCONN || line->link.zmtp.state == ZMTP_READY)
        return r;
    r = buf_append(&line->early, &length, sizeof(length));
    return r < 0 ? r : buf_append(&line->early, bytes, size);
}

void line_take(NetLine *line, const void *bytes, size_t size)
{
    if (say(line, bytes, size) < 0)
        line_doom(line, "it sends more than is taken");
}

static void on_open(ZmtpSocket *socket)
{
    NetLine *line = container_of(socket, NetLine, link);
    uint32_t length;
    int r = 0;

    while (r == 0 && line->early.size > 0) {
        memcpy(&length, buf_head(&line->early), sizeof(length));
        buf_consume(&line->early, sizeof(length));
        r = zmtp_socket_send(socket, buf_head(&line->early), length);
        buf_consume(&line->early, length);
    }
    buf_deinit(&line->early);
    if (r < 0)
        line_doom(line, "it sends more than is taken");
}

/* The controller has ended it, or ends. */
static void on_lost(ZmtpSocket *socket, int error)
{
    line_doom(container_of(socket, NetLine, link), NULL);
}

static const ZmtpSocketEvents events = {.open = on_open, .message = on_message, .lost = on_lost};

int link_open(NetLine *line, int fd)
{
    int r;

    line->early.limit = QUEUE_IN;
    line->backlog = malloc(sizeof(*line->backlog));
    r = line->backlog ? zmtp_socket_open(&line->link, line->door->loop, fd, ZMTP_DEALER, LIMIT_GUEST_FRAME,
                                         QUEUE_IN, &events)
                      : -ENOMEM;
    if (line->backlog) {
        atomic_init(&line->backlog->bytes, 0);
        atomic_init(&line->backlog->holders, 1);
    }
    if (r < 0)
        close(fd);
    return r;
}

void link_close(NetLine *line)
{
    zmtp_socket_close(&line->link);
    buf_deinit(&line->early);
    if (line->backlog)
        release(take(line->backlog));
}
