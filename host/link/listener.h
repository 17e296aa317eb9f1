/* Listener: a unix socket with the ZeroMQ peers that have come in through it: the ROUTER of clients, or the
 * one of a guest. It runs on the loop; see proto/zmtp_socket.h. */
#pragma once

#include <sys/types.h>

#include "proto/base/buf.h"
#include "proto/base/loop.h"

/* Number of a connection; never 0, and never that of another one, of another Listener or of an earlier
 * controller either. Requests and all else that outlives the connection name it by this. */
typedef uint64_t Peer;

/* Credentials of the process that connected, from the kernel; or of a client on another machine, the key that
 * it has proved to have, and its owner. */
typedef struct PeerCredentials {
    pid_t pid;
    uid_t uid;
    bool remote;
    char key[41];
} PeerCredentials;

/* In any of them the Listener may be freed. */
typedef struct ListenerEvents {
    /* A message, which is one frame. Bytes are valid during the call. */
    void (*on_message)(void *userdata, Peer peer, const PeerCredentials *credentials, const uint8_t *bytes,
                       size_t size);
    /* A message of several frames, which the protocol does not have. */
    void (*on_multipart)(void *userdata, Peer peer);
    /* The peer has taken what was sent to it, up to ListenerLimits.unread. May be NULL. */
    void (*on_taken)(void *userdata, Peer peer);
    /* The connection has ended, though not through listener_free(). */
    void (*on_gone)(void *userdata, Peer peer);
} ListenerEvents;

typedef struct ListenerLimits {
    size_t frame;      /* bytes of a message that comes in; a peer that announces a larger one is dropped */
    size_t queue;      /* bytes that wait to be sent to one peer; as much as one message at least */
    size_t unread;     /* bytes that may wait when on_taken is told */
    size_t peers;      /* at once; one more is turned away */
    size_t user_peers; /* the same of one user; 0, here and below: no limit of its own */
    size_t user_bytes; /* held by the connections and requests of one user together */
    size_t user_requests; /* of one user that have no answer yet */
    bool passes;          /* peers may pass descriptors: see listener_take_passed() */
    uint64_t handshake;   /* nanoseconds in which a peer has shaken hands, or is dropped; 0: five seconds */
} ListenerLimits;

typedef struct Listener Listener;

/* Makes the socket, mode 0600; a file that is there is removed first, unless somebody answers on it:
 * -EADDRINUSE. */
int listener_new(Listener **ret, Loop *loop, const char *path, const ListenerLimits *limits,
                 const ListenerEvents *events, void *userdata);

/* Lets the members of a group connect, too: the socket's mode is 0660 from then on. 0 or a negative errno. */
int listener_admit(Listener *listener, gid_t group);

/* The same with a socket that listens already and is the Listener's from now on, after a failure too; its
 * file stays. */
int listener_adopt(Listener **ret, Loop *loop, int fd, const char *path, const ListenerLimits *limits,
                   const ListenerEvents *events, void *userdata);

/* Takes a connection that another process has accepted, in addition to those that `peers` bounds; the
 * descriptor is owned from now on, after a failure too. 0 or a negative errno. */
int listener_add(Listener *listener, int fd, const PeerCredentials *credentials);

/* Ends the connections of which `may_stay` says no. */
void listener_keep(Listener *listener, bool (*may_stay)(void *userdata, const PeerCredentials *credentials),
                   void *userdata);

/* Ends all connections, after sending what their peers take at once, and removes the socket's file if that is
 * still its own. */
Listener *listener_free(Listener *listener);
DEFINE_CLEANUP(Listener *, listener_free);

/* 0; -EHOSTUNREACH when the peer is gone; -EAGAIN when it does not read and its queue is full; -ENOMEM. */
int listener_send(Listener *listener, Peer peer, const void *bytes, size_t size);

/* The same with the message written in place: begin, append it to `frame->out`, end with 0 or the error of
 * that, upon which nothing is sent; end returns it in these terms. */
typedef struct PeerFrame {
    Buf *out;
    struct Connection *connection;
    size_t mark;
} PeerFrame;

int listener_begin(Listener *listener, Peer peer, PeerFrame *ret);
int listener_end(PeerFrame *frame, int error);

/* Returns whether the peer is connected. */
bool listener_has(const Listener *listener, Peer peer);

/* Returns the bytes that wait to be sent to the peer; SIZE_MAX when it is gone, or about to be. */
size_t listener_untaken(const Listener *listener, Peer peer);

/* Sends what waits, and returns whether the peer has taken all there was. */
bool listener_flush(Listener *listener, Peer peer);

/* The descriptor of a connection of that user from this machine, which stays the Listener's; or -1. */
int listener_connection_of(const Listener *listener, uid_t user);

/* Passes a copy of a descriptor to a peer, beside what waits to be sent to it; `more`: before another one. 0,
 * or a negative errno; then it gets none. */
int listener_pass(Listener *listener, Peer peer, int fd, bool more);

/* The oldest descriptor that the peer has passed and nobody has taken, which is the caller's; or -1. */
int listener_take_passed(const Listener *listener, Peer peer);

/* Ends a connection once nothing else happens in this turn of the loop; on_gone follows. */
void listener_drop(Listener *listener, Peer peer);

/* Charges of one user, for all that it makes a Listener hold: connections, their bytes that wait to be read
 * or sent, and requests without an answer. Over the limits of the Listener they are refused: nobody else
 * notices. */
typedef struct UserCharge UserCharge;

/* Returns the charge of a peer's user; NULL when the peer is gone. */
UserCharge *listener_charge(const Listener *listener, Peer peer);

/* Charges one more request of so many bytes. 0 or -EDQUOT. */
int charge_request(UserCharge *charge, size_t bytes);
void charge_request_over(UserCharge *charge, size_t bytes);
