/* Buf: a growable run of bytes that owns its memory and never grows past its limit.
 * `data + start` is the first unread byte; `size` is the number of unread bytes. */
#pragma once

#include "proto/base/base.h"

typedef struct Buf {
    uint8_t *data;
    size_t start;
    size_t size;
    size_t capacity;
    size_t limit; /* bytes; 0 means SIZE_MAX */
} Buf;

#define BUF_NULL ((Buf){0})

void buf_deinit(Buf *buf);
static inline void buf_clear(Buf *buf)
{
    buf->start = buf->size = 0;
}
static inline uint8_t *buf_head(const Buf *buf)
{
    return buf->data ? buf->data + buf->start : NULL;
}

/* Makes room for n more bytes and returns where they go; NULL when out of memory or past the limit.
 * buf_commit() then says how many of them were written. */
uint8_t *buf_reserve(Buf *buf, size_t n);
void buf_commit(Buf *buf, size_t n);

/* 0, or -ENOBUFS past the limit, or -ENOMEM. */
int buf_append(Buf *buf, const void *bytes, size_t n);

/* Forgets the first n unread bytes. A buffer that grew past 1 MiB gives its memory back when it is empty. */
void buf_consume(Buf *buf, size_t n);

/* Reads once from fd, at most max bytes. The count, 0 at the end of file, or a negative errno: -ENOBUFS when
 * the buffer is at its limit. */
ssize_t buf_read_fd(Buf *buf, int fd, size_t max);

/* Sends what is unread to a stream socket without blocking, and forgets what has gone. 0 also when the peer
 * takes no more for now; or a negative errno. For a peer that is gone all is dropped without an error: what
 * it said before it went is still to be read, and reading then tells the end. */
int buf_send(Buf *buf, int socket);
/* The same with so many bytes at most, in one system call. -EAGAIN when the peer takes nothing for now. */
int buf_send_some(Buf *buf, int socket, size_t most);
