#include "clients/c/connection.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "proto/base/clock.h"
#include "proto/base/fdio.h"
#include "proto/limits.h"

/* A whole output message with what is around it. */
#define READ_SIZE (LIMIT_CHUNK + ((size_t)4 << 10))

void connection_close(ClientConnection *connection)
{
    close_fd(&connection->fd);
    remote_free(connection->remote);
    dial_end(&connection->command);
    close_fd(&connection->passed);
    buf_deinit(&connection->in);
    buf_deinit(&connection->out);
    *connection = CONNECTION_NULL;
}

bool connection_is_stale(const ClientConnection *connection)
{
    struct pollfd poller = {.fd = connection->fd, .events = POLLIN | POLLRDHUP};

    if (connection->remote)
        return remote_has_ended(connection->remote);
    if (connection->fd < 0)
        return true;
    return poll(&poller, 1, 0) > 0 && (poller.revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL));
}

static int fill(ClientConnection *connection)
{
    size_t size = connection->sips ? 1 : READ_SIZE;
    uint8_t *space = buf_reserve(&connection->in, size);
    int passed = -1;
    ssize_t n;

    if (!space)
        return -ENOMEM;
    n = receive_passed(connection->fd, space, size, &passed);
    if (passed >= 0) {
        close_fd(&connection->passed);
        connection->passed = passed;
    }
    if (n == 0)
        return -ECONNRESET;
    if (n < 0)
        return n == -EAGAIN || n == -EINTR ? 0 : (int)n;
    buf_commit(&connection->in, (size_t)n);
    return 0;
}

/* Milliseconds for poll(), rounded up so that it never wakes before the deadline. */
static int poll_timeout(uint64_t deadline)
{
    uint64_t now = clock_now();

    if (!deadline)
        return -1;
    if (now >= deadline)
        return 0;
    return (int)MIN((deadline - now + NSEC_PER_MSEC - 1) / NSEC_PER_MSEC, (uint64_t)INT32_MAX);
}

/* Sends what can be sent, waits until something more can be done, and reads. */
static int step(ClientConnection *connection, int wake_fd, uint64_t deadline)
{
    struct pollfd polled[] = {{.fd = connection->fd, .events = POLLIN}, {.fd = wake_fd, .events = POLLIN}};
    int n = buf_send(&connection->out, connection->fd);

    if (n < 0)
        return n;
    if (connection->out.size > 0)
        polled[0].events |= POLLOUT;
    n = poll(polled, ARRAY_SIZE(polled), poll_timeout(deadline));
    if (n < 0)
        return errno == EINTR ? 0 : -errno;
    if (n == 0)
        return deadline && clock_now() >= deadline ? -ETIMEDOUT : 0;
    if (polled[1].revents)
        return -EINTR;
    return polled[0].revents & ~POLLOUT ? fill(connection) : 0;
}

static int handshake(ClientConnection *connection, uint64_t deadline)
{
    ZmtpFrame frame;
    int r = 0;

    while (!r && connection->zmtp.state != ZMTP_READY) {
        r = step(connection, -1, deadline);
        if (!r)
            r = zmtp_next(&connection->zmtp, &connection->in, &connection->out, &frame);
        if (r > 0)
            return -EPROTO; /* a message before we have asked anything */
    }
    return r;
}

/* Blocking, so that a full backlog makes us wait for our turn; SO_SNDTIMEO bounds that wait, and the kernel
 * says EAGAIN at its end. All other I/O is non-blocking call by call. */
static int connect_until(int fd, const struct sockaddr_un *address, uint64_t deadline)
{
    int left, r;

    do {
        left = poll_timeout(deadline);
        struct timeval wait = {.tv_sec = left / 1000, .tv_usec = MAX(left % 1000 * 1000, 1)};

        if (left >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof(wait)) < 0)
            return -errno;
        r = connect(fd, (const struct sockaddr *)address, sizeof(*address));
    } while (r < 0 && (errno == EINTR || (errno == EAGAIN && left > 0)));
    if (r == 0)
        return 0;
    return errno == EAGAIN ? -ETIMEDOUT : -errno;
}

/* Shakes hands on what is connected. */
static int begin(ClientConnection *connection, uint64_t deadline)
{
    int r = zmtp_init(&connection->zmtp, ZMTP_DEALER, LIMIT_GUEST_FRAME, &connection->out);

    return r < 0 ? r : handshake(connection, deadline);
}

int connection_open(ClientConnection *connection, const char *path, uint64_t deadline)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    ClientConnection opened = CONNECTION_NULL;
    int r;

    strncpy(address.sun_path, path, sizeof(address.sun_path) - 1);
    opened.fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (opened.fd < 0)
        return -errno;
    r = connect_until(opened.fd, &address, deadline);
    if (!r)
        r = begin(&opened, deadline);
    if (r < 0) {
        connection_close(&opened);
        return r;
    }
    *connection = opened;
    return 0;
}

int connection_open_dialled(ClientConnection *connection, const char *address, uint64_t deadline,
                            Problem *problem)
{
    ClientConnection opened = CONNECTION_NULL;
    int r = dial(&opened.command, &opened.fd, address, problem);

    if (r == 0)
        r = begin(&opened, deadline);
    *connection = opened; /* also where it failed: its command says why */
    return r;
}

int connection_open_remote(ClientConnection *connection, const char *address, const RemoteKeys *keys,
                           uint64_t deadline)
{
    ClientConnection opened = CONNECTION_NULL;
    int r = remote_open(&opened.remote, address, keys, deadline);

    if (r == 0)
        *connection = opened;
    return r;
}

int connection_send(ClientConnection *connection, const Buf *payload)
{
    size_t mark;
    int r;

    if (connection->remote)
        return remote_send(connection->remote, buf_head(payload), payload->size);
    r = zmtp_frame_begin(&connection->zmtp, &connection->out, &mark);
    if (!r)
        r = buf_append(&connection->out, buf_head(payload), payload->size);
    if (r < 0)
        return r;
    zmtp_frame_end(&connection->out, mark);
    return buf_send(&connection->out, connection->fd);
}

/* Each message is a frame of its own in `in`. */
static int receive_remote(ClientConnection *connection, int wake_fd, uint64_t deadline, ZmtpFrame *ret)
{
    int r = remote_receive(connection->remote, wake_fd, deadline, &connection->in);

    if (r < 0)
        return r;
    connection->used = connection->in.size;
    *ret = (ZmtpFrame){.data = buf_head(&connection->in), .size = connection->used, .used = connection->used};
    return 0;
}

int connection_receive(ClientConnection *connection, int wake_fd, uint64_t deadline, ZmtpFrame *ret)
{
    int r;

    buf_consume(&connection->in, connection->used);
    connection->used = 0;
    if (connection->remote)
        return receive_remote(connection, wake_fd, deadline, ret);
    for (;;) {
        r = zmtp_next(&connection->zmtp, &connection->in, &connection->out, ret);
        if (r < 0)
            return r;
        if (r > 0) {
            connection->used = ret->used;
            return 0;
        }
        r = step(connection, wake_fd, deadline);
        if (r < 0)
            return r;
    }
}

int connection_take_frame(ClientConnection *connection, Buf *ret)
{
    Buf taken = connection->in;
    Buf rest = {.limit = taken.limit};
    int r = buf_append(&rest, buf_head(&taken) + connection->used, taken.size - connection->used);

    if (r < 0)
        return r;
    connection->in = rest;
    connection->used = 0;
    *ret = taken;
    return 0;
}

int connection_take_stream(ClientConnection *connection)
{
    dial_release(&connection->command);
    return take_fd(&connection->fd);
}

int connection_take_passed(ClientConnection *connection)
{
    return take_fd(&connection->passed);
}
