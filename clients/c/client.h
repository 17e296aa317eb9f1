/* The inside of LimpetClient: one connection, one call at a time, asked again when the controller comes back.
 *
 * Functions here return 0, -EPROTO with client->problem filled, or another negative errno when there is no
 * more to say than that, as -ENOMEM. The public functions make an error of either with client_result(). */
#pragma once

#include "clients/c/address.h"
#include "clients/c/connection.h"
#include "clients/c/limpet.h"
#include "proto/schema.h"

/* An answer, and the memory its message points into. */
typedef struct Reply {
    Buf bytes;
    Message message;
} Reply;

#define REPLY_NULL ((Reply){0})

void reply_deinit(Reply *reply);

/* body_decode_known() for what the controller said: what is wrong with it is no fault of the caller. A newer
 * controller says more than this library knows. */
#define reply_decode(ret, type, body, problem) reply_decode_as((type *){ret}, SCHEMA(type), body, problem)
int reply_decode_as(void *ret, const Schema *schema, const msgpack_object_map *body, Problem *problem);

/* Terminated copies that live as long as a message. The first failure sticks. */
typedef struct Arena {
    msgpack_zone *zone;
    bool failed;
} Arena;

void *arena_new(Arena *arena, size_t n, size_t size); /* zeroed */
const char *arena_text(Arena *arena, Text text);      /* NULL when absent */
const char *arena_json(Arena *arena, const msgpack_object *object, size_t *ret_size);

/* An array of text. */
void texts_read(const char *const **ret, size_t *ret_n, const Value *texts, Arena *arena);

struct LimpetClient {
    Address address;
    ClientConnection connection;
    char *artifacts;                 /* limpet_set_artifacts(), or NULL */
    LimpetOnArtifact *tell_artifact; /* limpet_set_artifacts_progress(), or NULL */
    void *tell_context;
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
    char *traceback;             /* of that problem; or NULL */
    char file_error[32];         /* likewise, such as "ENOENT", with LIMPET_FILE_FAILED */
};

typedef struct ClientCall ClientCall;
struct ClientCall {
    bool repeatable;    /* asked again when the controller went away: only what may safely happen twice */
    bool existing_only; /* fails at once when no controller listens */
    const char *run_id; /* for limpet_interrupt_call(); NULL: it does not end this call */
    int (*on_event)(ClientCall *call, const Message *event);

    /* Set by client_call(). */
    LimpetClient *client;
    uint64_t id;
    int error; /* of making the request */
    bool interrupted;
    bool rejoined; /* the controller was lost on the way: events were missed */
};

/* Makes the request, whose body is a `type`, in client->request. Where that fails client_call() says so. */
#define client_begin(client, call, kind, type, from)                                                         \
    client_begin_with(client, call, kind, SCHEMA(type), (const type *){from})
void client_begin_with(LimpetClient *client, ClientCall *call, MessageKind kind, const Schema *schema,
                       const void *body);
/* Sends it, and waits for the answer. */
int client_call(LimpetClient *client, ClientCall *call, Reply *ret);
/* The same, and decodes the answer into *body, a `type`, which points into the reply. */
#define client_call_for(client, call, ret, body, type)                                                       \
    client_call_for_with(client, call, ret, (type *){body}, SCHEMA(type))
int client_call_for_with(LimpetClient *client, ClientCall *call, Reply *ret, void *body,
                         const Schema *schema);

/* Asks for a descriptor, which is the caller's in *ret_fd. That stays as it is where none comes. */
#define client_ask_descriptor(client, call, kind, type, from, ret_fd)                                        \
    client_ask_descriptor_with(client, call, kind, SCHEMA(type), (const type *){from}, ret_fd)
int client_ask_descriptor_with(LimpetClient *client, ClientCall *call, MessageKind kind, const Schema *schema,
                               const void *body, int *ret_fd);

/* Sends a message that has no answer of its own. */
#define client_say(client, kind, id, type, from)                                                             \
    client_say_with(client, kind, id, SCHEMA(type), (const type *){from})
int client_say_with(LimpetClient *client, MessageKind kind, uint64_t id, const Schema *schema,
                    const void *body);

/* Says that `count` output events of the call have been consumed. */
int client_credit(LimpetClient *client, const ClientCall *call, uint64_t count);

/* Passes limpet_interrupt_call() on where it was called and that is not done yet: 1. Otherwise 0. */
int client_interrupt_pending(ClientCall *call);

/* Connects, unless the connection is alive. */
int client_connect(LimpetClient *client, bool existing_only);

/* Makes limpet_error() of what a function here returned, and gives its number: 0 for success. */
int client_result(LimpetClient *client, int r);

/* ---- answers: what a public function hands to its caller, and behind it the reply that its strings point
 * into ---- */

/* Reads the body of a reply into the caller's struct, with the memory of the arena. */
typedef int AnswerRead(void *value, const msgpack_object_map *body, Arena *arena, Problem *problem);

/* client_call(), and its reply as a struct of `size` bytes, zeroed before `read`: the pointer at `ret` gets
 * it, to be freed with the function of its type that ANSWER() defines. As client_result(). */
int answer_call(LimpetClient *client, ClientCall *call, size_t size, AnswerRead *read, void *ret);
