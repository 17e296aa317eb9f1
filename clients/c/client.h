/* The inside of LimpetClient: one connection, one call at a time, asked again when the controller comes back.
 *
 * Functions here return 0, -EPROTO with client->problem filled, or another negative errno when there is no
 * more to say than that, as -ENOMEM. The public functions make an error of either with client_result(). */
#pragma once

#include "clients/c/address.h"
#include "clients/c/connection.h"
#include "clients/c/limpet.h"
#include "proto/wire.h"

/* An answer, and the memory its message points into. */
typedef struct Reply {
    Buf bytes;
    Message message;
} Reply;

#define REPLY_NULL ((Reply){0})

void reply_deinit(Reply *reply);

/* fields_decode_known() for what the controller said: what is wrong with it is no fault of the caller. A
 * newer controller says more than this library knows. */
int reply_fields(void *ret, const Field *fields, size_t n, const msgpack_object_map *body, Problem *problem);

/* Terminated copies that live as long as a message. The first failure sticks. */
typedef struct Arena {
    msgpack_zone *zone;
    bool failed;
} Arena;

void *arena_new(Arena *arena, size_t n, size_t size); /* zeroed */
const char *arena_text(Arena *arena, Text text);      /* NULL when absent */
const char *arena_json(Arena *arena, const msgpack_object *object, size_t *ret_size);

/* An array of text. */
int texts_read(const char *const **ret, size_t *ret_n, const msgpack_object_array *texts, Arena *arena,
               Problem *problem);

struct LimpetClient {
    Address address;
    Connection connection;
    bool autostart;
    bool was_connected;
    uint64_t reconnect_timeout; /* nanoseconds */
    uint64_t last_id;           /* of a request on any connection */
    int wake_fd;                /* eventfd: limpet_interrupt_call() was called */
    Buf request;                /* the call under way, kept to be sent again */
    Reply hello;
    LimpetController controller; /* inside hello */
    Problem problem;             /* of the last call; the code may be one that only the controller knows */
    LimpetError error;           /* the same, for the user */
};

typedef struct Call Call;
struct Call {
    bool repeatable;    /* asked again when the controller went away: only what may safely happen twice */
    bool existing_only; /* fails at once when no controller listens */
    const char *run_id; /* what limpet_interrupt_call() interrupts; NULL: it does not end this call */
    int (*on_event)(Call *call, const Message *event);

    /* Set by client_call(). */
    LimpetClient *client;
    uint64_t id;
    bool interrupted;
    bool rejoined; /* the controller was lost on the way: events were missed */
};

/* Starts the request in client->request: the caller writes `fields` pairs and has client_call() send it. */
void client_begin(LimpetClient *client, Call *call, Writer *w, MessageKind kind, size_t fields);
void write_pair(Writer *w, const char *key, const char *text); /* nil when NULL */
int client_call(LimpetClient *client, Call *call, Writer *w, Reply *ret);

/* Says that `count` output events of the call have been consumed. */
int client_credit(LimpetClient *client, const Call *call, uint64_t count);

/* Passes limpet_interrupt_call() on where it was called and that is not done yet: 1. Otherwise 0. */
int client_interrupt_pending(Call *call);

/* Connects, unless the connection is alive. */
int client_connect(LimpetClient *client, bool existing_only);

/* Makes limpet_error() of what a function here returned, and gives its number: 0 for success. */
int client_result(LimpetClient *client, int r);
