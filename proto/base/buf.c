#include "proto/base/buf.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

/* The first allocation, and the capacity above which an emptied buffer gives its memory back. */
#define BUF_MINIMUM 256u
#define BUF_KEEP    (1u << 20)

void buf_deinit(Buf *buf)
{
    free(buf->data);
    *buf = (Buf){.limit = buf->limit};
}

static size_t room_left(const Buf *buf)
{
    return (buf->limit ? buf->limit : SIZE_MAX) - buf->size;
}

static void compact(Buf *buf)
{
    if (buf->data && buf->start && buf->size)
        memmove(buf->data, buf->data + buf->start, buf->size);
    buf->start = 0;
}

static int grow(Buf *buf, size_t needed)
{
    /* With room for what is small and follows something large. */
    size_t capacity = MAX(MAX(needed + needed / 8, buf->capacity * 2), BUF_MINIMUM);
    uint8_t *data;

    if (needed > PTRDIFF_MAX / 2)
        return -ENOMEM;
    if (buf->limit)
        capacity = MAX(MIN(capacity, buf->limit), needed);
    data = realloc(buf->data, capacity);
    if (!data)
        return -ENOMEM;
    buf->data = data;
    buf->capacity = capacity;
    return 0;
}

uint8_t *buf_reserve(Buf *buf, size_t n)
{
    size_t needed = buf->size + n;

    if (n > room_left(buf))
        return NULL;
    if (!buf->data || n > buf->capacity - buf->start - buf->size) {
        /* Growing as well, unless fewer bytes move than were consumed, keeps the cost of each byte constant.
         */
        bool enough = needed <= buf->capacity && buf->start >= buf->size;

        compact(buf);
        if (!(enough && buf->data) && grow(buf, needed) < 0)
            return NULL;
    }
    return buf->data + buf->start + buf->size;
}

void buf_commit(Buf *buf, size_t n)
{
    buf->size += n;
}

int buf_append(Buf *buf, const void *bytes, size_t n)
{
    uint8_t *to;

    if (n == 0)
        return 0;
    if (n > room_left(buf))
        return -ENOBUFS;
    to = buf_reserve(buf, n);
    if (!to)
        return -ENOMEM;
    memcpy(to, bytes, n);
    buf_commit(buf, n);
    return 0;
}

void buf_consume(Buf *buf, size_t n)
{
    buf->start += n;
    buf->size -= n;
    if (buf->size > 0)
        return;
    buf->start = 0;
    if (buf->capacity > BUF_KEEP)
        buf_deinit(buf);
}

ssize_t buf_read_fd(Buf *buf, int fd, size_t max)
{
    size_t n = MIN(max, room_left(buf));
    uint8_t *to;
    ssize_t r;

    if (n == 0)
        return -ENOBUFS;
    to = buf_reserve(buf, n);
    if (!to)
        return -ENOMEM;
    do
        r = read(fd, to, n);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return -errno;
    buf_commit(buf, (size_t)r);
    return r;
}

int buf_send_some(Buf *buf, int socket, size_t most)
{
    ssize_t n = send(socket, buf_head(buf), MIN(buf->size, most), MSG_NOSIGNAL | MSG_DONTWAIT);

    if (n >= 0)
        buf_consume(buf, (size_t)n);
    else if (errno == EPIPE || errno == ECONNRESET)
        buf_clear(buf);
    else if (errno != EINTR)
        return -errno;
    return 0;
}

int buf_send(Buf *buf, int socket)
{
    int r = 0;

    while (r == 0 && buf->size > 0)
        r = buf_send_some(buf, socket, SIZE_MAX);
    return r == -EAGAIN ? 0 : r;
}
