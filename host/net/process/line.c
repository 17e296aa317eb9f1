#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "host/net/process/internal.h"
#include "host/net/protocol.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* ---- what libzmq has ---- */

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

/* ---- what waits ---- */

/* Bytes that wait on behalf of a line. */
static size_t waiting(const NetLine *line)
{
    return line->dropped ? 0
                         : atomic_load(&line->backlog->bytes) + line->early.size + line->link.in.size +
                               line->link.out.size;
}

static size_t waiting_of_key(const Door *door, const char *key)
{
    NetLine *line, *next;
    size_t n = 0;

    HASH_ITER (in_routings, door->by_routing, line, next)
        n += strcmp(line->key, key) == 0 ? waiting(line) : 0;
    return n;
}

static NetLine *line_with_most(const Door *door)
{
    NetLine *line, *next, *most = NULL;
    size_t of_key, of_most = 0;

    HASH_ITER (in_routings, door->by_routing, line, next) {
        of_key = waiting_of_key(door, line->key);
        if (!most || of_key > of_most || (of_key == of_most && waiting(line) > waiting(most))) {
            most = line;
            of_most = of_key;
        }
    }
    return most;
}

/* Drops a line if more waits than may. Only one that has more than its part can be why. */
static void bound_waiting(NetLine *line)
{
    Door *door = line->door;
    NetLine *each, *next;
    size_t n = 0;

    if (waiting(line) <= QUEUES_OF_ALL / door->most)
        return;
    HASH_ITER (in_routings, door->by_routing, each, next)
        n += waiting(each);
    if (n > QUEUES_OF_ALL)
        line_drop(line_with_most(door), "more waits for its key than for others");
}

/* ---- to the client, and to the controller ---- */

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

    if (line->dropped)
        return;
    if (atomic_load(&line->backlog->bytes) <= QUEUE_OUT)
        r = send_on(line, frame->data, frame->size);
    if (r < 0)
        line_drop(line, r == -ENOBUFS ? "it does not read" : NULL);
    bound_waiting(line);
}

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
        line_drop(line, "it sends more than is taken");
    bound_waiting(line);
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
        line_drop(line, "it sends more than is taken");
}

/* The controller has ended it, or ends. */
static void on_lost(ZmtpSocket *socket, int error)
{
    line_drop(container_of(socket, NetLine, link), NULL);
}

static const ZmtpSocketEvents events = {.open = on_open, .message = on_message, .lost = on_lost};

static int link_open(NetLine *line, int fd)
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

static void link_close(NetLine *line)
{
    zmtp_socket_close(&line->link);
    buf_deinit(&line->early);
    if (line->backlog)
        release(take(line->backlog));
}

/* ---- its life ---- */

/* In which an honest client has said hello. */
#define SILENCE (10 * NSEC_PER_SEC)

static NetLine *find(const Door *door, int fd)
{
    NetLine *line;

    HASH_FIND(in_fds, door->by_fd, &fd, sizeof(fd), line);
    return line;
}

/* Nobody is known by its id any more. */
static void forget(NetLine *line)
{
    if (!*line->key)
        return;
    HASH_DELETE(in_routings, line->door->by_routing, line);
    line->key[0] = '\0';
    link_close(line);
}

/* Ends its time among strangers: it is known, or goes. */
static void leave_strangers(NetLine *line)
{
    loop_timer_cancel(&line->silence);
    strangers_remove(&line->door->strangers, &line->stranger);
}

static void line_free(NetLine *line)
{
    leave_strangers(line);
    list_remove(&line->in_dropped);
    forget(line);
    HASH_DELETE(in_fds, line->door->by_fd, line);
    free(line);
}

void line_drop(NetLine *line, const char *why)
{
    if (line->dropped)
        return;
    if (why)
        door_complain(line->door, why, line->address);
    line->dropped = true;
    leave_strangers(line);
    list_append(&line->door->dropped, &line->in_dropped);
    door_look_again(line->door);
}

static void on_silence(LoopTimer *timer)
{
    line_drop(container_of(timer, NetLine, silence), "it said nothing");
}

/* Has strangers leave as much as the others do not have. Whoever has said something has his place. */
static void make_room(Door *door)
{
    const size_t others = HASH_CNT(in_routings, door->by_routing);
    Stranger *excess = strangers_excess(&door->strangers, door->most - MIN(others, door->most));

    if (excess)
        line_drop(container_of(excess, NetLine, stranger), "there are as many connections as there may be");
}

/* Without memory for a line it is not served, and ends by what libzmq does about silence. */
void line_begin(Door *door, int fd)
{
    NetLine *line = calloc(1, sizeof(*line));

    line_end(door, fd);
    if (!line)
        return;
    *line = (NetLine){.door = door, .fd = fd, .link = ZMTP_SOCKET_NULL};
    list_init(&line->in_dropped);
    HASH_ADD(in_fds, door->by_fd, fd, sizeof(fd), line);
    if (!line->in_fds.tbl) {
        free(line);
        return;
    }
    if (strangers_add(&door->strangers, &line->stranger, fd) < 0 ||
        loop_timer_set(door->loop, &line->silence, clock_now() + SILENCE, on_silence) < 0)
        line_drop(line, "out of memory");
    make_room(door);
}

void line_end(Door *door, int fd)
{
    NetLine *line = find(door, fd);

    if (line)
        line_free(line);
}

/* libzmq may have closed the descriptor meanwhile, and another connection have it: what has ended is known
 * when this is called, and whoever came a moment ago comes again. */
void lines_shut_dropped(Door *door)
{
    List *link;

    if (!list_empty(&door->dropped))
        door_take_events(door);
    while ((link = list_first(&door->dropped))) {
        NetLine *line = list_entry(link, NetLine, in_dropped);

        list_remove(link);
        forget(line);
        shutdown(line->fd, SHUT_RDWR);
    }
}

/* ---- clients ---- */

size_t lines_of(const Door *door, const char *key)
{
    NetLine *line, *next;
    size_t n = 0;

    HASH_ITER (in_routings, door->by_routing, line, next)
        n += strcmp(line->key, key) == 0;
    return n;
}

void lines_check(Door *door)
{
    NetLine *line, *next;

    HASH_ITER (in_routings, door->by_routing, line, next)
        if (!authorized_find(&door->keys, line->key))
            line_drop(line, "its key is not authorized any more");
}

/* The controller learns who comes, and gets its end of a socket. */
static int tell(NetLine *line)
{
    const NetCame came = {.key = text_of(line->key), .address = text_of(line->address)};
    int ends[2];
    int r = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0 ? -errno : 0;

    if (r < 0)
        return r;
    r = ipc_send(&line->door->ipc, NET_CAME, 0, SCHEMA(NetCame), &came, &ends[1], 1);
    close(ends[1]);
    if (r == 0)
        return link_open(line, ends[0]);
    close(ends[0]);
    return r;
}

static int note(NetLine *line, const char *key, zmq_msg_t *routing, const char *address)
{
    snprintf(line->key, sizeof(line->key), "%s", key);
    snprintf(line->address, sizeof(line->address), "%s", address ? address : "");
    line->routing_size = MIN(zmq_msg_size(routing), sizeof(line->routing));
    memcpy(line->routing, zmq_msg_data(routing), line->routing_size);
    HASH_ADD(in_routings, line->door->by_routing, routing, line->routing_size, line);
    if (line->in_routings.tbl)
        return 0;
    line->key[0] = '\0';
    return -ENOMEM;
}

/* Admits a connection that speaks for the first time, or drops it and returns NULL. */
static NetLine *meet(Door *door, NetLine *line, zmq_msg_t *routing, zmq_msg_t *message)
{
    const char *key = zmq_msg_gets(message, "User-Id");
    const AuthorizedKey *authorized = key ? authorized_find(&door->keys, key) : NULL;
    int r;

    leave_strangers(line);
    forget(line);
    if (!authorized || lines_of(door, key) >= authorized->connections) {
        line_drop(line,
                  authorized ? "the key has as many connections as it may" : "the key is not authorized");
        return NULL;
    }
    r = note(line, key, routing, zmq_msg_gets(message, "Peer-Address"));
    if (r == 0)
        r = tell(line);
    if (r == 0)
        return line;
    line_drop(line, strerror(-r));
    return NULL;
}

NetLine *line_of(Door *door, zmq_msg_t *routing, zmq_msg_t *message)
{
    NetLine *line;

    HASH_FIND(in_routings, door->by_routing, zmq_msg_data(routing), zmq_msg_size(routing), line);
    if (!line) {
        door_take_events(door);
        line = find(door, zmq_msg_get(message, ZMQ_SRCFD));
        if (line && !line->dropped)
            line = meet(door, line, routing, message);
    }
    return line && !line->dropped ? line : NULL;
}

void lines_free(Door *door)
{
    NetLine *line, *next;

    HASH_ITER (in_fds, door->by_fd, line, next)
        line_free(line);
}
