/* The channel between supervisor and interpreter: a unix stream socket that carries envelopes
 * (proto/wire.h), each behind its length as four bytes, big endian.
 *
 * One side is hostile: the supervisor reads with buf_read_fd() and channel_next(), never blocks, and never
 * accepts descriptors. The interpreter uses the blocking calls. */
#pragma once

#include "proto/base/base.h"
#include "proto/base/buf.h"

#define CHANNEL_FD  3 /* where the interpreter finds its end */
#define CHANNEL_FDS 2 /* new standard output and standard error that may come with `execute` */

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

/* Writes once without blocking and consumes what was written. With `fds` the two descriptors go with the
 * first byte; they stay the caller's. 1: all of `out` is gone; 0: some is left; a negative errno, -EAGAIN
 * when nothing could be written (and no descriptor went). */
int channel_send(int fd, Buf *out, const int fds[CHANNEL_FDS]);

/* Blocking: the next envelope replaces the content of `message`. `fds` gets the two descriptors that came
 * with it (close-on-exec, the caller's to close) or two -1. -EPIPE when the other side is gone, -EMSGSIZE
 * for a message over LIMIT_GUEST_FRAME. Signals do not end the wait. */
int channel_read_message(int fd, Buf *message, int fds[CHANNEL_FDS]);

/* Blocking: writes all of `out` and leaves it empty. */
int channel_write(int fd, Buf *out);
