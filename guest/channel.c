#include "guest/channel.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/limits.h"

#define HEADER 4u

/* A reader that has nothing asks for this: most messages are smaller. */
#define READ_SIZE (16u << 10)

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

int channel_append(Buf *out, MessageKind kind, uint64_t id, const Schema *schema, const void *body)
{
    size_t mark;
    int r = channel_frame_begin(out, &mark);

    if (r == 0) {
        r = message_append(out, kind, id, schema, body);
        if (r < 0)
            channel_frame_abort(out, mark);
        else
            channel_frame_end(out, mark);
    }
    return r;
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

/* Room for the descriptors of one message, aligned as the kernel wants it. */
typedef union FdSpace {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(CHANNEL_FDS * sizeof(int))];
} FdSpace;

static void fds_attach(struct msghdr *message, FdSpace *space, const int *fds, size_t n)
{
    memset(space, 0, sizeof(*space));
    message->msg_control = space->bytes;
    message->msg_controllen = CMSG_SPACE(n * sizeof(int));
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(n * sizeof(int));
    memcpy(CMSG_DATA(control), fds, n * sizeof(int));
}

int channel_send(int fd, Buf *out, const int *fds, size_t n)
{
    struct iovec part = {.iov_base = buf_head(out), .iov_len = out->size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    FdSpace space;
    ssize_t sent;

    if (n > CHANNEL_FDS)
        return -EINVAL;
    if (n > 0)
        fds_attach(&message, &space, fds, n);
    do
        sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    if (sent < 0)
        return -errno;
    buf_consume(out, (size_t)sent);
    return out->size == 0;
}

/* As many descriptors as the kernel puts into one message (SCM_MAX_FD). */
#define HOSTILE_FDS 253

typedef union HostileSpace {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(struct ucred)) + CMSG_SPACE(HOSTILE_FDS * sizeof(int))];
} HostileSpace;

void channel_discard(int fd)
{
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &(struct linger){0}, sizeof(struct linger));
    close(fd);
}

static void fds_discard(const struct cmsghdr *control, int *ret_first)
{
    size_t n = (control->cmsg_len - CMSG_LEN(0)) / sizeof(int);

    for (size_t i = 0; i < n; i++) {
        int fd;

        memcpy(&fd, CMSG_DATA(control) + i * sizeof(fd), sizeof(fd));
        if (ret_first && *ret_first < 0)
            *ret_first = fd;
        else
            channel_discard(fd);
    }
}

static pid_t sender_take(struct msghdr *message, int *ret_fd)
{
    pid_t sender = 0;

    for (struct cmsghdr *control = CMSG_FIRSTHDR(message); control; control = CMSG_NXTHDR(message, control)) {
        if (control->cmsg_level != SOL_SOCKET)
            continue;
        if (control->cmsg_type == SCM_RIGHTS)
            fds_discard(control, ret_fd);
        if (control->cmsg_type == SCM_CREDENTIALS) {
            struct ucred credentials;

            memcpy(&credentials, CMSG_DATA(control), sizeof(credentials));
            sender = credentials.pid;
        }
    }
    return sender;
}

ssize_t channel_read(int fd, Buf *in, size_t max, pid_t *ret_sender, int *ret_fd)
{
    size_t size = MIN(max, (in->limit > 0 ? in->limit : SIZE_MAX) - in->size);
    HostileSpace space;

    if (ret_fd)
        *ret_fd = -1;

    if (size == 0)
        return -ENOBUFS;

    uint8_t *to = buf_reserve(in, size);
    if (!to)
        return -ENOMEM;

    struct iovec part = {.iov_base = to, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof(space.bytes)};
    ssize_t n;
    do
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return -errno;
    buf_commit(in, (size_t)n);
    *ret_sender = sender_take(&message, ret_fd);
    return n;
}

static void fds_forget(int fds[CHANNEL_FDS])
{
    for (size_t i = 0; i < CHANNEL_FDS; i++)
        close_fd(&fds[i]);
}

/* They come with the first byte of a message, and the kernel reads no further than what it came with: theirs
 * is the last message that has begun. */
static size_t last_begin(const Buf *in)
{
    size_t begin = 0;

    while (in->size - begin > HEADER) {
        size_t size = HEADER + length_read(buf_head(in) + begin);

        if (in->size - begin <= size)
            break;
        begin += size;
    }
    return begin;
}

static void fds_take(ChannelReader *reader, struct msghdr *message)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);

    if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS)
        return;
    fds_forget(reader->fds);
    memcpy(reader->fds, CMSG_DATA(control), MIN(control->cmsg_len - CMSG_LEN(0), sizeof(reader->fds)));
    reader->fds_at = last_begin(&reader->in);
}

void channel_reader_clear(ChannelReader *reader)
{
    fds_forget(reader->fds);
    buf_clear(&reader->in);
    reader->used = 0;
}

/* The message that was taken last is no longer needed. */
static void consume(ChannelReader *reader)
{
    buf_consume(&reader->in, reader->used);
    reader->fds_at -= MIN(reader->used, reader->fds_at);
    reader->used = 0;
}

int channel_reader_take(ChannelReader *reader, ChannelFrame *ret, int fds[CHANNEL_FDS])
{
    consume(reader);
    int r = channel_next(&reader->in, LIMIT_GUEST_FRAME, ret);
    if (r <= 0)
        return r;
    reader->used = ret->used;
    for (size_t i = 0; i < CHANNEL_FDS; i++)
        fds[i] = reader->fds_at == 0 ? take_fd(&reader->fds[i]) : -1;
    return 1;
}

/* Returns how much to ask for. Behind a message that has begun nothing is read, so that there are never the
 * descriptors of two. */
static size_t wanted(const Buf *in)
{
    if (in->size == 0)
        return READ_SIZE;
    if (in->size < HEADER)
        return HEADER - in->size;
    return HEADER + length_read(buf_head(in)) - in->size;
}

int channel_reader_fill(ChannelReader *reader, int fd)
{
    consume(reader);
    size_t size = wanted(&reader->in);
    uint8_t *to = buf_reserve(&reader->in, size);
    FdSpace space;
    struct iovec part = {.iov_base = to, .iov_len = size};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = space.bytes, .msg_controllen = sizeof(space.bytes)};

    if (!to)
        return -ENOMEM;
    ssize_t n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    if (n <= 0)
        return n < 0 ? -errno : -EPIPE;
    buf_commit(&reader->in, (size_t)n);
    fds_take(reader, &message);
    return 0;
}

int channel_reader_next(ChannelReader *reader, int fd, ChannelFrame *ret, int fds[CHANNEL_FDS])
{
    int r;

    while ((r = channel_reader_take(reader, ret, fds)) == 0) {
        r = channel_reader_fill(reader, fd);
        if (r < 0 && r != -EINTR)
            return r;
    }
    return MIN(r, 0);
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
