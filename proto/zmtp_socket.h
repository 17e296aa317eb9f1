/* ZmtpSocket: a ZMTP peer on a stream socket and the loop. Each turn of the loop it reads once and hands out
 * what has come, as long as its share lasts; all that is sent in one turn leaves in one system call. */
#pragma once

#include "proto/base/loop.h"
#include "proto/zmtp.h"

typedef struct ZmtpSocket ZmtpSocket;

/* ZmtpShare: the time that sockets have together in a turn of the loop to read and hand out messages, however
 * many they are. Sockets for which none is left wait for later turns, one after the other. */
typedef struct ZmtpShare {
    Loop *loop;
    List waiting;  /* ZmtpSocket.waits */
    LoopIdle next; /* set while any waits */
    uint64_t turn; /* of the loop in which `used` was */
    uint64_t used; /* nanoseconds */
} ZmtpShare;

void zmtp_share_init(ZmtpShare *share, Loop *loop);

/* In any of them the socket may be closed and its memory freed. */
typedef struct ZmtpSocketEvents {
    void (*open)(ZmtpSocket *socket); /* messages may be sent from now on */
    /* The bytes are valid during the call, whatever becomes of the socket. */
    void (*message)(ZmtpSocket *socket, const ZmtpFrame *frame);
    /* As much has been read and sent as can be for now. May be NULL. */
    void (*settled)(ZmtpSocket *socket);
    /* The connection has ended and is closed; not called after zmtp_socket_close(). `error`: -ECONNRESET when
     * the peer went, -EPROTO or -EMSGSIZE when it does not speak as we do, or another negative errno. */
    void (*lost)(ZmtpSocket *socket, int error);
} ZmtpSocketEvents;

/* Descriptors that a peer may have passed before the first of them is taken. */
#define ZMTP_PASSED 8

struct ZmtpSocket {
    const ZmtpSocketEvents *events;
    int fd; /* -1: closed */
    Zmtp zmtp;
    Buf in, out;
    LoopFile file;
    LoopIdle turn;
    ZmtpShare own, *share;   /* `share` is `own`, unless the socket has it with others */
    List waits;              /* in ZmtpShare.waiting; nothing is read meanwhile */
    bool unread;             /* more messages have come than there was time for */
    int error;               /* the connection ends with it before the loop waits again */
    bool takes_passed;       /* descriptors are taken; otherwise the kernel closes them */
    int passed[ZMTP_PASSED]; /* not taken yet, the oldest first */
    unsigned n_passed;
    bool *closed; /* set when the socket is closed while it hands out messages */
};

#define ZMTP_SOCKET_NULL ((ZmtpSocket){.fd = -1, .zmtp.state = ZMTP_FAILED})

/* Begins with a connected, non-blocking descriptor, which it owns from then on. `max_frame` bounds what comes
 * in, `max_queue` the bytes that wait to be sent (0: nothing does). 0 or a negative errno. */
int zmtp_socket_open(ZmtpSocket *socket, Loop *loop, int fd, ZmtpRole role, size_t max_frame,
                     size_t max_queue, const ZmtpSocketEvents *events);

/* Has the socket, which is open and has read nothing yet, share its time with others. The share lives longer.
 */
void zmtp_socket_share(ZmtpSocket *socket, ZmtpShare *share);

/* Closes the socket, and sends what still waits as far as the peer takes it at once. A closed socket may be
 * closed again. */
void zmtp_socket_close(ZmtpSocket *socket);

/* Ends the connection with `error` before the loop waits again. */
void zmtp_socket_fail(ZmtpSocket *socket, int error);

/* A message in place: begin, append to socket->out, end with 0 or with the error of appending, upon which
 * nothing is sent; end returns it. begin: 0, -ENOTCONN before the handshake is over and after the end,
 * -ENOBUFS when too much waits, -ENOMEM. */
int zmtp_socket_begin(ZmtpSocket *socket, size_t *ret_mark);
int zmtp_socket_end(ZmtpSocket *socket, size_t mark, int error);

/* The same for a message that is already encoded. */
int zmtp_socket_send(ZmtpSocket *socket, const void *bytes, size_t size);

/* Sends what the peer takes at once; true when nothing waits any more. */
bool zmtp_socket_flush(ZmtpSocket *socket);

/* Sends what waits now, with a copy of a descriptor beside its first byte: the peer has it before it has the
 * last message whole. `more`: the last byte stays, for another descriptor. 0 or a negative errno; then
 * nothing has been sent. */
int zmtp_socket_pass(ZmtpSocket *socket, int fd, bool more);

/* The oldest descriptor that has been passed and not been taken, which is the caller's; or -1. */
int zmtp_socket_take_passed(ZmtpSocket *socket);
