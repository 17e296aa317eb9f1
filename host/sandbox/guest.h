/* Guest: the host end of the channel to one guest supervisor. It owns the directory that is mounted at
 * /run/limpet (socket, session name, secret), proves who connects, and passes messages on. */
#pragma once

#include "host/link/listener.h"
#include "host/sandbox/sandboxes.h"
#include "proto/schema.h"
#include "proto/wire.h"

/* ---- what a supervisor says of itself and its session when it connects. Pure ---- */

/* The call that it runs, or a command. */
typedef struct GuestRunning {
    uint64_t id; /* of the execute or exec message; 0: none runs */
    uint64_t branch;
    uint64_t code_hash;
    char run_id[LIMIT_RUN_ID + 1];
    bool background; /* a process of `start` */
} GuestRunning;

/* State of the session; no branch is named twice, and the one that runs is among them. */
typedef struct GuestHello {
    size_t branch_count;
    MsgGuestBranch branches[LIMIT_BRANCHES + 1]; /* the session's own first */
    GuestRunning running;
    size_t command_count;
    GuestRunning commands[LIMIT_PROCESSES]; /* run, or have ended and their records follow */
    bool waits;                             /* it can begin without an interpreter */
    bool passes;                            /* its memory can go through a pipe */
    bool shares;                            /* and need not have what is in an image */
} GuestHello;

/* Returns whether the command of that exec message is among them. */
bool guest_hello_has(const GuestHello *hello, uint64_t id);

/* Identity and state that a supervisor claims. */
typedef struct GuestClaim {
    Text session;
    Text secret; /* points into the message */
    GuestHello hello;
} GuestClaim;

/* 0, or -EPROTO with the problem set. */
int guest_hello_decode(GuestClaim *ret, const msgpack_object_map *body, Problem *problem);

/* 32 lower-case hexadecimal digits. */
bool run_id_valid(Text text);

/* ---- the channel ---- */

/* The socket of its directory at which it hands over connections to the network. */
#define GUEST_EGRESS "egress"

typedef struct GuestEvents {
    /* The supervisor has proved itself; again after each reconnection. It waits for guest_welcome. */
    void (*hello)(void *userdata, const GuestHello *hello);
    void (*message)(void *userdata, const Message *message);
    /* The supervisor has taken what was sent, after guest_takes() said no. */
    void (*taken)(void *userdata);
    /* Its messages make no sense: it is to be treated as hostile. */
    void (*violation)(void *userdata, const char *what);
} GuestEvents;

typedef struct Guest {
    Sandboxes *all;
    const GuestEvents *events;
    void *userdata;
    char *directory; /* host path of what is mounted at /run/limpet */
    char *socket;
    char *session;
    uint8_t secret[GUEST_SECRET_SIZE];
    Listener *listener;
    Peer peer;                   /* the connection that said hello; 0: none */
    PeerCredentials credentials; /* of it */
    bool behind;                 /* something waits until it has taken what was sent */
    pid_t expected_pid;          /* 0: any process may connect */
} Guest;

/* Makes the directory and listens. `session` names it to the guest. */
int guest_new(Guest **ret, Sandboxes *all, const char *session, const GuestEvents *events, void *userdata,
              Problem *problem);

/* Listens again in the directory `name` that an earlier controller made; its supervisor knows `secret`. When
 * that fails there may be a Guest all the same, which then owns what is left of the directory. */
int guest_adopt(Guest **ret, Sandboxes *all, const char *session, const char *name,
                const uint8_t secret[GUEST_SECRET_SIZE], const GuestEvents *events, void *userdata,
                Problem *problem);

/* Lets the supervisor use a socket in the directory. */
void guest_admit(const Guest *guest, const char *name);

/* The name of its directory. */
const char *guest_name(const Guest *guest);

Guest *guest_free(Guest *guest);
DEFINE_CLEANUP(Guest *, guest_free);

/* Frees it, and leaves its directory to the next controller. */
void guest_leave(Guest *guest);

/* From now on only this process may be the peer; -EPERM when another one already is. */
int guest_expect(Guest *guest, pid_t pid);

/* Ends the connection, if there is one; the supervisor makes another. */
void guest_drop(Guest *guest);

/* Returns whether more may be begun: the supervisor is connected, and has taken enough of what was sent. If
 * not, `hello` or `taken` follows. Messages of something that was begun have room in any case. */
bool guest_takes(Guest *guest);

/* Sends a whole encoded message. 0, -EHOSTUNREACH when the supervisor is not connected, -EMSGSIZE for one
 * larger than it takes, or as listener_send(). */
int guest_send_encoded(Guest *guest, const Buf *message);
/* The same with a body that is a `type`; -ENOMEM where there is none for it. */
#define guest_send(guest, kind, id, type, from)                                                              \
    guest_write(guest, kind, id, SCHEMA(type), (const type *){from})
int guest_write(Guest *guest, MessageKind kind, uint64_t id, const Schema *schema, const void *body);

/* Passes a copy of a descriptor beside what was sent last; `more`: before another one. 0 or a negative errno.
 */
int guest_pass(Guest *guest, int fd, bool more);

/* The oldest descriptor that the supervisor has passed and nobody has taken, which is the caller's; or -1.
 * What it is is for the caller to find out. */
int guest_take_passed(const Guest *guest);
