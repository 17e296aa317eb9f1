#include "clients/c/client.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>

#include "clients/c/json.h"
#include "proto/base/clock.h"

#define RECONNECT_TIMEOUT (30 * NSEC_PER_SEC)

#define ERROR(number, name, text, meaning)                                                                   \
    _Static_assert(LIMPET_##name == (number), "limpet.h and errors.def differ: " text);
#include "proto/errors.def"
#undef ERROR

LimpetClient *limpet_new(void)
{
    LimpetClient *client = calloc(1, sizeof(*client));

    if (!client)
        return NULL;
    client->connection = CONNECTION_NULL;
    client->autostart = true;
    client->reconnect_timeout = RECONNECT_TIMEOUT;
    client_result(client, 0);
    client->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (client->wake_fd < 0) {
        free(client);
        return NULL;
    }
    return client;
}

void limpet_free(LimpetClient *client)
{
    if (!client)
        return;
    connection_close(&client->connection);
    address_deinit(&client->address);
    reply_deinit(&client->hello);
    buf_deinit(&client->request);
    free(client->traceback);
    free(client->artifacts);
    close(client->wake_fd);
    free(client);
}

const LimpetError *limpet_error(const LimpetClient *client)
{
    return &client->error;
}

const LimpetController *limpet_controller(const LimpetClient *client)
{
    return &client->controller;
}

void limpet_set_autostart(LimpetClient *client, bool allowed)
{
    client->autostart = allowed;
}

void limpet_set_reconnect_timeout(LimpetClient *client, double seconds)
{
    client->reconnect_timeout = clock_from_seconds(seconds);
}

int limpet_connect(LimpetClient *client, const char *socket)
{
    Address address;
    int r;

    client->problem = PROBLEM_NULL;
    r = address_init(&address, socket, &client->problem);
    if (r < 0)
        return client_result(client, r);
    connection_close(&client->connection);
    address_deinit(&client->address);
    client->address = address;
    client->was_connected = false;
    return client_result(client, client_connect(client, false));
}

void limpet_interrupt_call(LimpetClient *client)
{
    int saved = errno;

    eventfd_write(client->wake_fd, 1);
    errno = saved;
}

int client_result(LimpetClient *client, int r)
{
    if (r >= 0)
        client->problem = PROBLEM_NULL;
    else if (!client->problem.code)
        problem_set(&client->problem, ERR_INTERNAL, "%s", strerror(-r));
    client->error = (LimpetError){
        .number = client->problem.code,
        .name = r < 0 ? error_name(client->problem.code) : "",
        .message = client->problem.text,
    };
    return client->error.number;
}

void reply_deinit(Reply *reply)
{
    message_deinit(&reply->message);
    buf_deinit(&reply->bytes);
    *reply = REPLY_NULL;
}

int reply_decode_as(void *ret, const Schema *schema, const msgpack_object_map *body, Problem *problem)
{
    int r = schema_decode_known(ret, schema, body, problem);

    if (r < 0) {
        problem->code = ERR_PROTOCOL_MISMATCH;
        problem_prefix(problem, "invalid answer of the controller");
    }
    return r;
}

int client_call_for_with(LimpetClient *client, ClientCall *call, Reply *ret, void *body, const Schema *schema)
{
    int r = client_call(client, call, ret);

    return r ? r : reply_decode_as(body, schema, &ret->message.body, &client->problem);
}

static void *arena_take(Arena *arena, size_t size)
{
    void *space = msgpack_zone_malloc(arena->zone, MAX(size, (size_t)1));

    arena->failed |= !space;
    return space;
}

void *arena_new(Arena *arena, size_t n, size_t size)
{
    size_t total;
    void *space;

    if (__builtin_mul_overflow(n, size, &total)) {
        arena->failed = true;
        return NULL;
    }
    space = arena_take(arena, total);
    return space ? memset(space, 0, total) : NULL;
}

const char *arena_text(Arena *arena, Text text)
{
    char *copy;

    if (!text.data)
        return NULL;
    copy = arena_take(arena, text.size + 1);
    if (!copy)
        return NULL;
    memcpy(copy, text.data, text.size);
    copy[text.size] = '\0';
    return copy;
}

const char *arena_json(Arena *arena, const msgpack_object *object, size_t *ret_size)
{
    _cleanup_(buf_deinit) Buf json = BUF_NULL;

    if (json_write(&json, object, JSON_BASE64) < 0) {
        arena->failed = true;
        return NULL;
    }
    *ret_size = json.size;
    return arena_text(arena, (Text){(const char *)buf_head(&json), json.size});
}

void texts_read(const char *const **ret, size_t *ret_n, const Value *texts, Arena *arena)
{
    uint32_t n = value_count(texts);
    const char **copies = arena_new(arena, n, sizeof(*copies));

    for (uint32_t i = 0; copies && i < n; i++)
        copies[i] = arena_text(arena, value_text(texts, i));
    *ret = copies;
    *ret_n = n;
}

/* ---- answers ---- */

typedef struct Answer {
    Reply reply;
    max_align_t value[];
} Answer;

static int answer_new(Answer **ret, size_t size, AnswerRead *read, Reply *reply, Problem *problem)
{
    Answer *answer = calloc(1, sizeof(*answer) + size);
    Arena arena = {.zone = reply->message.zone};
    int r;

    if (!answer)
        return -ENOMEM;
    r = read(answer->value, &reply->message.body, &arena, problem);
    if (!r && arena.failed)
        r = -ENOMEM;
    if (r < 0) {
        free(answer);
        return r;
    }
    answer->reply = *reply;
    *reply = REPLY_NULL;
    *ret = answer;
    return 0;
}

int answer_call(LimpetClient *client, ClientCall *call, size_t size, AnswerRead *read, void *ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Answer *answer;
    int r = client_call(client, call, &reply);

    if (!r)
        r = answer_new(&answer, size, read, &reply, &client->problem);
    if (!r)
        memcpy(ret, &(void *){answer->value}, sizeof(void *));
    return client_result(client, r);
}

static void answer_free(void *value)
{
    Answer *answer = container_of(value, Answer, value);

    if (!value)
        return;
    reply_deinit(&answer->reply);
    free(answer);
}

/* The reply as one JSON object. */
static char *answer_json(const void *value)
{
    const Answer *answer = container_of(value, const Answer, value);
    const msgpack_object object = {.type = MSGPACK_OBJECT_MAP, .via.map = answer->reply.message.body};
    _cleanup_(buf_deinit) Buf json = BUF_NULL;

    if (json_write(&json, &object, JSON_PATH) < 0)
        return NULL;
    return text_dup((Text){(const char *)buf_head(&json), json.size});
}

#define ANSWER(type, name)                                                                                   \
    void limpet_##name##_free(type *answer)                                                                  \
    {                                                                                                        \
        answer_free(answer);                                                                                 \
    }                                                                                                        \
    char *limpet_##name##_json(const type *answer)                                                           \
    {                                                                                                        \
        return answer_json(answer);                                                                          \
    }

ANSWER(LimpetNetwork, network)
ANSWER(LimpetInstalled, installed)
ANSWER(LimpetProcesses, processes)
ANSWER(LimpetSessions, sessions)
ANSWER(LimpetNamespace, namespace)
ANSWER(LimpetTaken, taken)
ANSWER(LimpetCheckpoints, checkpoints)
ANSWER(LimpetRollback, rollback)
ANSWER(LimpetTemplates, templates)

void limpet_output_free(LimpetOutput *output)
{
    answer_free(output);
}
