#include "clients/c/asks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The answer that raises an exception in the cell. */
static int refuse(Buf *ret, const ClientCall *call, const MsgAsk *ask, const char *name, const char *message)
{
    const MsgAnswer answer = {.ask = ask->ask, .has_error = true, .error = {text_of(name), text_of(message)}};

    return message_encode(ret, MSG_ANSWER, call->id, MsgAnswer, &answer);
}

/* The answer whose payload is the value written to `value`. */
static int answer_value(Buf *ret, const ClientCall *call, const MsgAsk *ask, Writer *value)
{
    MsgAnswer answer = {.ask = ask->ask};
    int r = writer_finish(value);

    if (r < 0)
        return r;
    if (value->buf->size > LIMIT_ASK)
        return refuse(ret, call, ask, "ValueError", "the line is longer than 1 MiB");
    answer.payload = (Text){(const char *)buf_head(value->buf), value->buf->size};
    return message_encode(ret, MSG_ANSWER, call->id, MsgAnswer, &answer);
}

static int answer_text(Buf *ret, const ClientCall *call, const MsgAsk *ask, const char *text)
{
    _cleanup_(buf_deinit) Buf payload = BUF_NULL;
    Writer value;

    writer_init(&value, &payload);
    write_text(&value, text);
    return answer_value(ret, call, ask, &value);
}

static int answer_tools(Buf *ret, const ClientCall *call, const MsgAsk *ask)
{
    _cleanup_(buf_deinit) Buf payload = BUF_NULL;
    Writer value;

    writer_init(&value, &payload);
    write_array(&value, 0);
    return answer_value(ret, call, ask, &value);
}

/* An interrupt that came meanwhile goes first; the question itself may be that of another thread. */
static int answer_input(Buf *ret, ClientCall *call, const LimpetRun *run, const Message *event,
                        const MsgAsk *ask)
{
    Arena arena = {.zone = event->zone};
    const char *prompt = arena_text(&arena, ask->name);
    _cleanup_(freep) char *line = NULL;
    int r = client_interrupt_pending(call);

    if (arena.failed)
        return -ENOMEM;
    if (r < 0)
        return r;
    line = run->on_input(run->context, prompt ? prompt : "", text_equal(ask->kind, "secret"));
    r = client_interrupt_pending(call);
    if (r > 0)
        return refuse(ret, call, ask, "KeyboardInterrupt", "");
    return r < 0 ? r : answer_text(ret, call, ask, line);
}

static int answer_tool(Buf *ret, const ClientCall *call, const MsgAsk *ask)
{
    char message[160];

    snprintf(message, sizeof(message), "there is no host function '%.*s': this client provides none",
             (int)MIN(ask->name.size, (size_t)64), ask->name.data ? ask->name.data : "");
    return refuse(ret, call, ask, "LookupError", message);
}

static int make_answer(Buf *ret, ClientCall *call, const LimpetRun *run, const Message *event,
                       const MsgAsk *ask)
{
    bool input = text_equal(ask->kind, "input") || text_equal(ask->kind, "secret");

    if (input && run->on_input)
        return answer_input(ret, call, run, event, ask);
    if (text_equal(ask->kind, "tools"))
        return answer_tools(ret, call, ask);
    if (text_equal(ask->kind, "tool"))
        return answer_tool(ret, call, ask);
    return refuse(ret, call, ask, "EOFError", "this client does not answer questions of this kind");
}

static const Buf *find_sent(const SentAnswers *answers, uint64_t ask)
{
    for (size_t i = 0; i < ARRAY_SIZE(answers->sent); i++)
        if (answers->sent[i].message.size > 0 && answers->sent[i].ask == ask)
            return &answers->sent[i].message;
    return NULL;
}

int client_answer(SentAnswers *answers, ClientCall *call, const LimpetRun *run, const Message *event)
{
    ClientConnection *connection = &call->client->connection;
    MsgAsk ask;
    const Buf *before;
    Buf *message;
    int r = reply_decode(&ask, MsgAsk, &event->body, &call->client->problem);

    if (r == 0 && ask.payload.size > LIMIT_ASK)
        r = problem_set(&call->client->problem, ERR_PROTOCOL_MISMATCH,
                        "the `payload` of a question exceeds its limit of %u bytes", LIMIT_ASK);
    if (r < 0)
        return r;
    before = find_sent(answers, ask.ask);
    if (before)
        return connection_send(connection, before);
    message = &answers->sent[answers->next].message;
    buf_clear(message);
    r = make_answer(message, call, run, event, &ask);
    if (r < 0)
        return r;
    answers->sent[answers->next].ask = ask.ask;
    answers->next = (answers->next + 1) % ARRAY_SIZE(answers->sent);
    return connection_send(connection, message);
}

void sent_answers_deinit(SentAnswers *answers)
{
    for (size_t i = 0; i < ARRAY_SIZE(answers->sent); i++)
        buf_deinit(&answers->sent[i].message);
}
