#include "guest/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/limits.h"

#define HEADER 4u

static void length_write(uint8_t *at, size_t size)
{
    for (unsigned i = 0; i < HEADER; i++)
        at[i] = (uint8_t)(size >> (8 * (HEADER - 1 - i)));
}

static size_t length_read(const uint8_t *at)
{
    return (size_t)at[0] << 24 | (size_t)at[1] << 16 | (size_t)at[2] << 8 | at[3];
}

int channel_frame_begin(Buf *out, size_t *ret_mark)
{
    size_t mark = out->size;
    int r = buf_append(out, (uint8_t[HEADER]){0}, HEADER);

    if (r < 0)
        return r;
    *ret_mark = mark;
    return 0;
}

void channel_frame_end(Buf *out, size_t mark)
{
    length_write(buf_head(out) + mark, out->size - mark - HEADER);
}

void channel_frame_abort(Buf *out, size_t mark)
{
    out->size = mark;
}

int channel_next(const Buf *in, size_t max, ChannelFrame *ret)
{
    if (in->size < HEADER)
        return 0;

    size_t size = length_read(buf_head(in));

    if (size > max)
        return -EMSGSIZE;
    if (in->size - HEADER < size)
        return 0;
    *ret = (ChannelFrame){.data = buf_head(in) + HEADER, .size = size, .used = HEADER + size};
    return 1;
}

/* Room for exactly the descriptors of one message, aligned as the kernel wants it. */
typedef union FdSpace {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(CHANNEL_FDS * sizeof(int))];
} FdSpace;

static void fds_attach(struct msghdr *message, FdSpace *space, const int fds[CHANNEL_FDS])
{
    memset(space, 0, sizeof(*space));
    message->msg_control = space->bytes;
    message->msg_controllen = sizeof(space->bytes);
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(CHANNEL_FDS * sizeof(int));
    memcpy(CMSG_DATA(control), fds, CHANNEL_FDS * sizeof(int));
}

int channel_send(int fd, Buf *out, const int fds[CHANNEL_FDS])
{
    struct iovec part = {.iov_base = buf_head(out), .iov_len = out->size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    FdSpace space;
    ssize_t n;

    if (fds)
        fds_attach(&message, &space, fds);
    do
        n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    buf_consume(out, (size_t)n);
    return out->size == 0;
}

static void fds_take(struct msghdr *message, int fds[CHANNEL_FDS])
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);

    if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
        return;

    int received[CHANNEL_FDS] = {-1, -1};
    size_t bytes = control->cmsg_len - CMSG_LEN(0);

    memcpy(received, CMSG_DATA(control), MIN(bytes, sizeof(received)));
    for (unsigned i = 0; i < CHANNEL_FDS; i++) {
        close_fd(&fds[i]);
        fds[i] = received[i];
    }
}

static int read_exactly(int fd, uint8_t *to, size_t size, int fds[CHANNEL_FDS])
{
    while (size > 0) {
        FdSpace space;
        struct iovec part = {.iov_base = to, .iov_len = size};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = space.bytes,
                                 .msg_controllen = sizeof(space.bytes)};
        ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EPIPE;
        fds_take(&message, fds);
        to += n;
        size -= (size_t)n;
    }
    return 0;
}

static int read_message(int fd, Buf *message, int fds[CHANNEL_FDS])
{
    uint8_t header[HEADER];
    int r = read_exactly(fd, header, HEADER, fds);

    if (r < 0)
        return r;

    size_t size = length_read(header);

    if (size > LIMIT_GUEST_FRAME)
        return -EMSGSIZE;
    buf_clear(message);
    if (size == 0)
        return 0;

    uint8_t *to = buf_reserve(message, size);

    if (!to)
        return -ENOMEM;
    r = read_exactly(fd, to, size, fds);
    if (r == 0)
        buf_commit(message, size);
    return r;
}

int channel_read_message(int fd, Buf *message, int fds[CHANNEL_FDS])
{
    int received[CHANNEL_FDS] = {-1, -1};
    int r = read_message(fd, message, received);

    if (r < 0) {
        close_fd(&received[0]);
        close_fd(&received[1]);
        return r;
    }
    memcpy(fds, received, sizeof(received));
    return 0;
}

int channel_write(int fd, Buf *out)
{
    while (out->size > 0) {
        ssize_t n = send(fd, buf_head(out), out->size, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        buf_consume(out, (size_t)n);
    }
    return 0;
}
