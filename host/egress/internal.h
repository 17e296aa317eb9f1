/* Shared by the files of the egress process. */
#pragma once

#include "host/egress/http.h"
#include "host/files/worker.h"
#include "host/network/network.h"
#include "host/ipc/ipc.h"

typedef struct Caller Caller;
typedef struct Dialling Dialling;
typedef struct Exchange Exchange;
typedef struct Outward Outward;

/* Limits of one sandbox, at once. More waits where it came from. */
#define CONNECTIONS_MOST 256u
#define GATES_MOST       4u

/* Names looked up at once, each of which may take as long as a resolver is patient. A sandbox has half as
 * many as are free: there is always one for the next. */
#define RESOLVERS 48u

/* Bytes held of one direction of a connection: less where there are many, of one sandbox or of all. */
#define ROOM            (256u << 10)
#define ROOM_LEAST      (16u << 10)
#define ROOM_OF_SANDBOX (32u << 20)
#define ROOM_OF_ALL     (64u << 20)

typedef struct Egress {
    Loop *loop;
    Ipc ipc;
    Worker *resolvers;
    size_t resolving; /* names */
    List served;
    size_t n, most; /* connections of all sandboxes */
    int error;      /* why it ends */
} Egress;

/* A sandbox that is served. */
typedef struct Served {
    List link;
    Egress *egress;
    uint64_t number;
    char label[LIMIT_SESSION_PATH + 1];
    Network network;
    LoopFile arrivals; /* its supervisor connects here; none where its controller is elsewhere */
    List gates;        /* Gate: and hands over connections */
    size_t n_gates;
    List callers;
    size_t n;
    uint64_t bytes, limit; /* both ways, of all of them so far */
    size_t resolving;      /* names */
    List waiting;          /* Dialling.link: for their turn to be resolved */
    Outward *outward;      /* its HTTP to servers; made when it is first needed */
} Served;

typedef enum ConnectionState {
    READS_HEAD,
    DIALS,
    TUNNELS,
    EXCHANGES,
    LINGERS, /* all has been said: until it has been read */
} ConnectionState;

/* From a sandbox. The descriptor is shared with that: it is never waited for, whatever its flags are. */
struct Caller {
    List link;
    Served *served;
    ConnectionState state;
    LoopFile file;
    Buf in, out; /* from it, and to it */
    bool in_ended, out_ended;
    LoopTimer idle;
    uint64_t used; /* when something went through it last */
    uint64_t began;
    /* Target of the present request, for log lines, too. */
    char host[HOST_SIZE];
    uint16_t port;
    bool keeps, relayed;
    uint64_t sent, received; /* by the sandbox */
    Dialling *dial;
    LoopFile peer; /* of a tunnel */
    bool peer_ended, peer_told;
    Exchange *exchange;
};

/* Files that resolving names and checking certificates reads. */
#define EGRESS_READABLE                                                                                      \
    "/etc", "/usr", "/lib", "/lib64", "/run/systemd/resolve", "/run/resolvconf", "/dev/null", "/dev/urandom"

/* process.c */
int egress_begin(Egress *egress); /* its loop, and what resolves names; 0 or a negative errno */
/* Begins to serve one; `arrivals` is taken over, -1: nobody connects to it. 0 or a negative errno. */
int served_new(Egress *egress, uint64_t number, int arrivals, Served **ret);
Served *served_free(Served *served);
/* Sets what log lines call it, its limit and its rules, which are taken over. */
void served_set(Served *served, Text label, uint64_t limit, Network *network);
Served *served_find(const Egress *egress, uint64_t number);
void served_count(Served *served, size_t bytes);
bool served_is_exhausted(const Served *served);
void served_look(Served *served); /* for connections that wait, if there is room */

/* caller.c */
void caller_begin(Served *served, int fd);
void caller_free(Caller *caller);
/* Returns whether the target of a caller's request is still allowed. */
bool caller_is_allowed(const Caller *caller);
/* Answers with a sentence, and ends it. */
void caller_refuse(Caller *caller, unsigned status, const char *format, ...) _printf_(3, 4);
/* Something happened: sends what there is, and waits for what is next. */
void caller_go_on(Caller *caller);
void caller_log(const Caller *caller, const char *outcome);
void caller_next(Caller *caller);            /* the answer is complete: another request, or the end */
void tunnel_begin(Caller *caller, int peer); /* takes over the peer */
/* Bytes that each direction of it may have waiting. */
size_t caller_room(const Caller *caller);
/* Receives into the buffer what there is room for. False: nothing more comes, ever. */
bool receive(Caller *caller, int fd, Buf *buf, uint64_t *count);

/* Sends what the other side takes at once, behind what `buf` has for it already, and keeps the rest there. 0
 * or -ENOMEM. */
int pass(int to, Buf *buf, const void *bytes, size_t size);

/* dial.c */
/* Finds the host and connects to it; ends in tunnel_begin() or a refusal. */
void dial_begin(Caller *caller);
void dial_free(Dialling *dial);
bool ip_is_own(const IpAddress *address); /* of this machine */

/* exchange.c */
/* Passes the request on to its server, or where a binding leads. Points of `head` are of use until it
 * returns. */
void exchange_begin(Caller *caller, const HttpHead *head, const NetworkBinding *binding);
void exchange_take_body(Caller *caller);   /* some of it may be in caller->in */
void exchange_has_room(Caller *caller);    /* the bytes that came have gone to the sandbox */
bool exchange_wants(const Caller *caller); /* more of the body */
void exchange_free(Exchange *exchange);
void outward_retire(Outward *outward); /* no new request uses its connections */
