/* The channel between supervisor and interpreter: a unix stream socket that carries envelopes
 * (proto/wire.h), each behind its length as four bytes, big endian.
 *
 * One side is hostile: the supervisor reads with channel_read() and channel_next(), never blocks, and accepts
 * no descriptor but the one of a checkpoint's memory. The interpreter uses the blocking calls. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/buf.h"
#include "proto/schema.h"

#define CHANNEL_FD  3 /* where the interpreter finds its end */
#define CHANNEL_FDS 4 /* as many descriptors may come with a message */

/* Ids of `save` to a frozen copy, which cannot unpack a body: all of its memory, or without what is in the
 * memory image that it has begun with. */
enum { CHANNEL_KEEPS_ALL = 1, CHANNEL_KEEPS_SHARED = 2 };

/* Appends a message whose body is a `type`. 0, or -ENOBUFS, -ENOMEM or -EINVAL with nothing appended. Several
 * may follow each other in `out`. */
#define channel_say(out, kind, id, type, from)                                                               \
    channel_append(out, kind, id, SCHEMA(type), (const type *){from})
int channel_append(Buf *out, MessageKind kind, uint64_t id, const Schema *schema, const void *body);

/* Writing in place: begin, append an envelope with writer_message() .. writer_finish(), end. After a failed
 * writer_finish() call channel_frame_abort() instead of end. Several frames may follow each other in `out`.
 */
int channel_frame_begin(Buf *out, size_t *ret_mark);
void channel_frame_end(Buf *out, size_t mark);
void channel_frame_abort(Buf *out, size_t mark);

typedef struct ChannelFrame {
    const uint8_t *data; /* the envelope, inside the input buffer */
    size_t size;
    size_t used; /* bytes of input to consume once the frame has been dealt with */
} ChannelFrame;

/* 1: *ret is the first message in `in`. 0: more bytes are needed. -EMSGSIZE: over `max` bytes. */
int channel_next(const Buf *in, size_t max, ChannelFrame *ret);

/* Writes once without blocking and consumes what was written. The n descriptors, at most CHANNEL_FDS, go with
 * the first byte; they stay the caller's. 1: all of `out` is gone; 0: some is left; a negative errno, -EAGAIN
 * when nothing could be written (and no descriptor went). */
int channel_send(int fd, Buf *out, const int *fds, size_t n);

/* Reads once from a peer that is not trusted, at most max bytes, and appends them to `in`. *ret_sender is the
 * process that sent the bytes, as the kernel says, where the socket has SO_PASSCRED, otherwise 0. Descriptors
 * that come along are closed; with `ret_fd` the first is kept (close-on-exec, the caller's), -1 for none. The
 * count, 0 at the end, or a negative errno: -ENOBUFS when the buffer is at its limit. */
ssize_t channel_read(int fd, Buf *in, size_t max, pid_t *ret_sender, int *ret_fd);

/* Closes a descriptor of such a peer: a socket that lingers would make close() wait for as long as its sender
 * chose. */
void channel_discard(int fd);

/* ChannelReader: bytes that have been read from the side that is trusted and not been taken yet. */
typedef struct ChannelReader {
    Buf in;
    size_t used;          /* bytes at its head: the message that was taken last */
    int fds[CHANNEL_FDS]; /* of the message that begins `fds_at` bytes behind the head, -1 for none */
    size_t fds_at;
} ChannelReader;

#define CHANNEL_READER_NULL ((ChannelReader){.fds = {-1, -1, -1, -1}})

/* Forgets everything, as for a new channel. */
void channel_reader_clear(ChannelReader *reader);

/* Takes the next message if all of it has been read: 1, otherwise 0. It stays valid until the next call.
 * `fds` gets the descriptors that came with it (close-on-exec, the caller's to close), -1 for those that did
 * not. -EMSGSIZE for a message over LIMIT_GUEST_FRAME. */
int channel_reader_take(ChannelReader *reader, ChannelFrame *ret, int fds[CHANNEL_FDS]);

/* Reads once, with as few system calls as a message can be had: all there is, or the rest of the message
 * under way. 0, -EPIPE when the other side is gone, -EINTR after a signal, or another negative errno. */
int channel_reader_fill(ChannelReader *reader, int fd);

/* Both, blocking: the next message. Signals do not end the wait. */
int channel_reader_next(ChannelReader *reader, int fd, ChannelFrame *ret, int fds[CHANNEL_FDS]);

/* Blocking: writes all of `out` and leaves it empty. */
int channel_write(int fd, Buf *out);
