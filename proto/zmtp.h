/* A ZMTP 3.0 peer of type DEALER with the NULL mechanism, as a pure state machine: bytes in, messages out.
 * It opens nothing and never blocks, so it is tested and fuzzed with byte arrays.
 *
 * Why not libzmq here: the guest supervisor is process 1 of a sandbox and must neither abort on a failed
 * assertion nor run I/O threads beside a process that forks; clients need to see at once that the
 * controller is gone, which libzmq hides by reconnecting. The host side is libzmq.
 *
 * Only what we use exists: single-frame messages. MORE, frames over the limit and a peer that is not a ROUTER
 * are errors; PING is answered, other commands after the handshake are ignored. Reference:
 * rfc.zeromq.org/spec/23 (and /37 for PING). */
#pragma once

#include "proto/base/base.h"
#include "proto/base/buf.h"

typedef enum ZmtpState {
    ZMTP_GREETING,
    ZMTP_HANDSHAKE,
    ZMTP_READY,
    ZMTP_FAILED,
} ZmtpState;

typedef struct Zmtp {
    ZmtpState state;
    size_t max_frame;
} Zmtp;

/* Starts a connection: appends our greeting to `out`. */
int zmtp_init(Zmtp *zmtp, size_t max_frame, Buf *out);

typedef struct ZmtpFrame {
    const uint8_t *data; /* inside the input buffer */
    size_t size;
    size_t used; /* bytes of input to consume once the frame has been dealt with */
} ZmtpFrame;

/* Takes what it can from `in`; answers of the handshake go to `out`. 1: *ret is the next message, and the
 * caller consumes ret->used bytes of `in` before the next call. 0: more bytes are needed; the state may have
 * become ZMTP_READY. -EPROTO, -EMSGSIZE, or an error of buf_append on `out`: the connection is to be closed.
 */
int zmtp_next(Zmtp *zmtp, Buf *in, Buf *out, ZmtpFrame *ret);

/* Encodes a message in place: begin, append the payload to `out`, end; setting out->size back to the mark
 * instead takes it back. -ENOTCONN before the state is ZMTP_READY: libzmq drops a peer whose first message
 * arrives before it has sent its own READY, so messages cannot queue behind the handshake. Always the long
 * form of a frame, so that the size can be filled in after. */
int zmtp_frame_begin(const Zmtp *zmtp, Buf *out, size_t *ret_mark);
void zmtp_frame_end(Buf *out, size_t mark);
