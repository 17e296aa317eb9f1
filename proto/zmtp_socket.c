#include "proto/zmtp_socket.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/fdio.h"

/* As much as a unix socket holds: whole messages, several where they follow each other. */
#define READ_SIZE ((size_t)256 << 10)
/* In one turn: a peer that reads as fast as we write does not have that for itself. */
#define WRITE_SIZE READ_SIZE
/* Some ten messages of the ordinary kind. */
#define SHARE (50 * NSEC_PER_USEC)

/* A callback has closed the socket: it is not to be touched any more. */
#define GONE 1

static void on_turn(LoopIdle *idle);
static void on_next(LoopIdle *idle);

static void turn_soon(ZmtpSocket *socket)
{
    loop_idle_add(socket->file.loop, &socket->turn, on_turn);
}

static uint64_t share_used(ZmtpShare *share)
{
    if (share->turn != loop_turn(share->loop)) {
        share->turn = loop_turn(share->loop);
        share->used = 0;
    }
    return share->used;
}

static bool share_is_used_up(ZmtpShare *share)
{
    return !list_empty(&share->waiting) || share_used(share) >= SHARE;
}

static bool waits(const ZmtpSocket *socket)
{
    return !list_empty(&socket->waits);
}

static int watch(ZmtpSocket *socket)
{
    return loop_file_change(&socket->file,
                            (waits(socket) ? 0 : EPOLLIN) | (socket->out.size > 0 ? EPOLLOUT : 0));
}

static int write_out(ZmtpSocket *socket)
{
    int r = socket->out.size > 0 ? buf_send_some(&socket->out, socket->fd, WRITE_SIZE) : 0;

    return r < 0 && r != -EAGAIN ? r : watch(socket);
}

static int wait_for_share(ZmtpSocket *socket)
{
    list_append(&socket->share->waiting, &socket->waits);
    loop_idle_add(socket->share->loop, &socket->share->next, on_next);
    return watch(socket);
}

void zmtp_socket_close(ZmtpSocket *socket)
{
    if (socket->fd < 0)
        return;
    buf_send(&socket->out, socket->fd);
    if (socket->closed)
        *socket->closed = true;
    loop_file_remove(&socket->file);
    loop_idle_remove(&socket->turn);
    list_remove(&socket->waits);
    if (list_empty(&socket->share->waiting))
        loop_idle_remove(&socket->share->next);
    close_fd(&socket->fd);
    while (socket->n_passed > 0)
        close_fd(&socket->passed[--socket->n_passed]);
    buf_deinit(&socket->in);
    buf_deinit(&socket->out);
    *socket = ZMTP_SOCKET_NULL;
}

static void lose(ZmtpSocket *socket, int error)
{
    const ZmtpSocketEvents *events = socket->events;

    zmtp_socket_close(socket);
    events->lost(socket, error);
}

/* Takes one message out of `in`. 1: another one may follow. */
static int take_message(ZmtpSocket *socket, Buf *in, const bool *closed)
{
    bool was_ready = socket->zmtp.state == ZMTP_READY;
    ZmtpFrame frame;
    int r = zmtp_next(&socket->zmtp, in, &socket->out, &frame);

    if (!was_ready && socket->zmtp.state == ZMTP_READY)
        socket->events->open(socket);
    if (r <= 0 || *closed)
        return MIN(r, 0);
    socket->events->message(socket, &frame);
    buf_consume(in, frame.used);
    return !*closed && socket->error == 0;
}

/* The input is held here meanwhile, so that a message outlives a socket that its receiver closes. */
static int take_messages(ZmtpSocket *socket, uint64_t began)
{
    uint64_t used = share_used(socket->share);
    Buf in = socket->in;
    bool closed = false;
    int r = 1;

    socket->in = BUF_NULL;
    socket->closed = &closed;
    do {
        r = take_message(socket, &in, &closed);
        if (!closed)
            socket->share->used = used + clock_now() - began;
    } while (r > 0 && socket->share->used < SHARE);
    if (closed) {
        buf_deinit(&in);
        return GONE;
    }
    socket->closed = NULL;
    socket->in = in;
    socket->unread = r > 0;
    if (socket->out.size > 0)
        turn_soon(socket);
    return socket->unread ? wait_for_share(socket) : MIN(r, 0);
}

/* The last thing that is done with it in a turn. */
static void finish(ZmtpSocket *socket, int r)
{
    if (r < 0)
        lose(socket, r);
    else if (r == 0 && socket->events->settled)
        socket->events->settled(socket);
}

static void on_turn(LoopIdle *idle)
{
    ZmtpSocket *socket = container_of(idle, ZmtpSocket, turn);

    finish(socket, socket->error < 0 ? socket->error : write_out(socket));
}

/* More than ours ever passes is an attack. */
static int keep_passed(ZmtpSocket *socket, int fd)
{
    if (socket->n_passed == ZMTP_PASSED) {
        close(fd);
        return -EPROTO;
    }
    socket->passed[socket->n_passed++] = fd;
    return 0;
}

static ssize_t read_and_take(ZmtpSocket *socket)
{
    uint8_t *to = buf_reserve(&socket->in, READ_SIZE);
    int fd = -1, r = 0;
    ssize_t n = to ? receive_passed(socket->fd, to, READ_SIZE, &fd) : -ENOMEM;

    if (fd >= 0)
        r = keep_passed(socket, fd);
    if (n > 0)
        buf_commit(&socket->in, (size_t)n);
    return r < 0 ? r : n;
}

int zmtp_socket_take_passed(ZmtpSocket *socket)
{
    int fd = socket->n_passed > 0 ? socket->passed[0] : -1;

    if (fd >= 0)
        memmove(socket->passed, socket->passed + 1, --socket->n_passed * sizeof(int));
    return fd;
}

static int read_in(ZmtpSocket *socket)
{
    uint64_t began = clock_now();
    ssize_t n = 1;

    if (!socket->unread)
        n = socket->takes_passed ? read_and_take(socket) : buf_read_fd(&socket->in, socket->fd, READ_SIZE);
    if (n == -EAGAIN || n == -EINTR)
        return 0;
    if (n <= 0)
        return n < 0 ? (int)n : -ECONNRESET;
    return take_messages(socket, began);
}

static void on_next(LoopIdle *idle)
{
    ZmtpShare *share = container_of(idle, ZmtpShare, next);
    ZmtpSocket *socket = list_entry(list_first(&share->waiting), ZmtpSocket, waits);
    int r = socket->error;

    list_remove(&socket->waits);
    if (!list_empty(&share->waiting))
        loop_idle_add(share->loop, &share->next, on_next);
    if (r == 0)
        r = read_in(socket);
    if (r == 0)
        r = watch(socket);
    finish(socket, r);
}

static void on_ready(LoopFile *file, uint32_t events)
{
    ZmtpSocket *socket = container_of(file, ZmtpSocket, file);
    int r = 0;

    if (!waits(socket) && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
        r = share_is_used_up(socket->share) ? wait_for_share(socket) : read_in(socket);
    if (r == 0 && (events & EPOLLOUT))
        r = write_out(socket);
    finish(socket, r);
}

void zmtp_share_init(ZmtpShare *share, Loop *loop)
{
    *share = (ZmtpShare){.loop = loop};
    list_init(&share->waiting);
}

int zmtp_socket_open(ZmtpSocket *socket, Loop *loop, int fd, ZmtpRole role, size_t max_frame,
                     size_t max_queue, const ZmtpSocketEvents *events)
{
    int r;

    *socket = ZMTP_SOCKET_NULL;
    socket->events = events;
    socket->out.limit = max_queue;
    socket->share = &socket->own;
    zmtp_share_init(&socket->own, loop);
    list_init(&socket->waits);
    r = zmtp_init(&socket->zmtp, role, max_frame, &socket->out);
    if (r == 0)
        r = loop_file_add(loop, &socket->file, fd, EPOLLIN, on_ready);
    if (r < 0) {
        buf_deinit(&socket->out);
        *socket = ZMTP_SOCKET_NULL;
        return r;
    }
    socket->fd = fd;
    turn_soon(socket);
    return 0;
}

void zmtp_socket_share(ZmtpSocket *socket, ZmtpShare *share)
{
    socket->share = share;
}

void zmtp_socket_fail(ZmtpSocket *socket, int error)
{
    if (socket->fd < 0 || socket->error < 0)
        return;
    socket->error = error;
    turn_soon(socket);
}

int zmtp_socket_begin(ZmtpSocket *socket, size_t *ret_mark)
{
    return socket->error < 0 ? -ENOTCONN : zmtp_frame_begin(&socket->zmtp, &socket->out, ret_mark);
}

int zmtp_socket_end(ZmtpSocket *socket, size_t mark, int error)
{
    if (error < 0) {
        socket->out.size = mark;
        return error;
    }
    zmtp_frame_end(&socket->out, mark);
    turn_soon(socket);
    return 0;
}

int zmtp_socket_send(ZmtpSocket *socket, const void *bytes, size_t size)
{
    size_t mark;
    int r = zmtp_socket_begin(socket, &mark);

    return r < 0 ? r : zmtp_socket_end(socket, mark, buf_append(&socket->out, bytes, size));
}

bool zmtp_socket_flush(ZmtpSocket *socket)
{
    return socket->error == 0 && buf_send(&socket->out, socket->fd) == 0 && socket->out.size == 0;
}

int zmtp_socket_pass(ZmtpSocket *socket, int fd, bool more)
{
    size_t size = socket->out.size;
    ssize_t n;

    if (socket->error < 0)
        return -ENOTCONN;
    n = send_passing(socket->fd, buf_head(&socket->out), more && size > 0 ? size - 1 : size, fd);
    if (n < 0)
        return (int)n;
    buf_consume(&socket->out, (size_t)n);
    return 0;
}
