/* A ZMTP 3.0 peer with the NULL mechanism, as a pure state machine: bytes in, messages out. It opens nothing
 * and never blocks, so it is tested and fuzzed with byte arrays. zmtp_socket.h runs one on the loop.
 *
 * Why not libzmq: its I/O thread costs two hand-overs a message, which are most of a call's time. Besides,
 * the guest supervisor is process 1 of a sandbox and must neither abort on a failed assertion nor run threads
 * beside a process that forks; and clients need to see at once that the controller is gone, which libzmq
 * hides by reconnecting.
 *
 * Only what we use exists: single-frame messages between a DEALER and a ROUTER. Frames over the limit and a
 * peer of another type are errors; PING is answered, other commands after the handshake are ignored. A peer's
 * identity is ignored as well. Reference: rfc.zeromq.org/spec/23 (and /37 for PING). */
#pragma once

#include "proto/base/base.h"
#include "proto/base/buf.h"

typedef enum ZmtpState {
    ZMTP_GREETING,
    ZMTP_HANDSHAKE,
    ZMTP_READY,
    ZMTP_FAILED,
} ZmtpState;

typedef enum ZmtpRole {
    ZMTP_DEALER, /* the side that connects */
    ZMTP_ROUTER, /* the side that listens */
} ZmtpRole;

typedef struct Zmtp {
    ZmtpState state;
    ZmtpRole role;
    size_t max_frame;
    bool in_multipart;
} Zmtp;

/* Starts a connection: appends our greeting to `out`. */
int zmtp_init(Zmtp *zmtp, ZmtpRole role, size_t max_frame, Buf *out);

typedef struct ZmtpFrame {
    const uint8_t *data; /* inside the input buffer */
    size_t size;
    size_t used; /* bytes of input to consume once the frame has been dealt with */
    /* The last frame of a message of several, which a ROUTER answers for; the others are skipped. For a
     * DEALER such a message is -EPROTO. */
    bool multipart;
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
