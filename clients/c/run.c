#include "clients/c/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "clients/c/options.h"

/* ---- questions of a call ---- */

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

/* Answers an `ask` of the call. 0, or an error of the connection or of what the controller said. */
static int client_answer(SentAnswers *answers, ClientCall *call, const LimpetRun *run, const Message *event)
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

static void sent_answers_deinit(SentAnswers *answers)
{
    for (size_t i = 0; i < ARRAY_SIZE(answers->sent); i++)
        buf_deinit(&answers->sent[i].message);
}

/* ---- the call ---- */

#define CREDIT_EVERY 16 /* of the LIMIT_CREDIT that may be under way: the stream never stops for us */

static void deliver(RunCall *run_call, int stream, const char *bytes, size_t size)
{
    const LimpetRun *run = run_call->run;

    run_call->delivered[stream - 1] += size;
    if (run->on_output && size > 0)
        run->on_output(run->context, stream, bytes, size);
}

static int on_output(RunCall *run_call, const msgpack_object_map *event)
{
    LimpetClient *client = run_call->call.client;
    MsgOutput output;
    int r = reply_decode(&output, MsgOutput, event, &client->problem);

    if (r < 0)
        return r;
    if (output.stream != 1 && output.stream != 2)
        return problem_set(&client->problem, ERR_PROTOCOL_MISMATCH,
                           "the controller sent output of a stream other than 1 and 2");
    /* After a gap only the record can tell what came in between. */
    if (!run_call->call.rejoined)
        deliver(run_call, (int)output.stream, output.data.data, output.data.size);
    if (++run_call->consumed < CREDIT_EVERY)
        return 0;
    r = client_credit(client, &run_call->call, run_call->consumed);
    run_call->consumed = 0;
    return r;
}

static int on_display(RunCall *run_call, const Message *event)
{
    const LimpetRun *run = run_call->run;
    LimpetDisplay display;
    MsgDisplay said;
    Arena arena = {.zone = event->zone};
    int r;

    if (!run->on_display)
        return 0;
    r = reply_decode(&said, MsgDisplay, &event->body, &run_call->call.client->problem);
    if (r < 0)
        return r;
    display_read(&display, &said, &arena);
    if (arena.failed)
        return -ENOMEM;
    run->on_display(run->context, &display, said.update);
    return 0;
}

int run_on_event(ClientCall *call, const Message *event)
{
    RunCall *run_call = container_of(call, RunCall, call);

    switch (event->kind) {
    case MSG_OUTPUT:
        return on_output(run_call, &event->body);
    case MSG_ASK:
        return client_answer(&run_call->answers, call, run_call->run, event);
    default:
        return on_display(run_call, event);
    }
}

/* Delivers output that the events did not bring: all of it when the record was stored already, the rest after
 * a gap. */
static void deliver_rest(RunCall *run_call, int stream, const char *text, size_t size)
{
    uint64_t before = run_call->delivered[stream - 1];

    if ((before == 0 || run_call->call.rejoined) && before < size)
        deliver(run_call, stream, text + before, size - before);
}

int run_make_id(char ret[static LIMIT_RUN_ID + 1], Problem *problem)
{
    uint8_t random[LIMIT_RUN_ID / 2];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return problem_set(problem, ERR_INTERNAL, "cannot get random numbers: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(ret + 2 * i, 3, "%02x", random[i]);
    return 0;
}

/* The controller refuses these too, but a frame over its limit costs the connection, and the encoder would
 * replace what is not UTF-8. */
static int check(LimpetClient *client, const LimpetRun *run, size_t size)
{
    Problem *problem = &client->problem;

    if (size > LIMIT_CODE)
        return problem_set(problem, ERR_TOO_LARGE, "the code has %zu bytes; the limit is %u", size,
                           LIMIT_CODE);
    if (!utf8_valid(run->code, size))
        return problem_set(problem, ERR_BAD_REQUEST, "the code is not valid UTF-8");
    if (run->session && run->options)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "options are only for calls without a session; pass them to limpet_open()");
    return options_check(client, run->options, problem);
}

static MsgRun say_run(const LimpetRun *run, size_t size, const char *run_id)
{
    MsgRun said = {
        .session = text_of(run->session),
        .instance = text_of(run->instance),
        .code = {run->code, size},
        .run_id = text_of(run_id),
        .timeout = run->timeout == 0 ? NAN : run->timeout,
        .stream = run->on_output || run->on_display,
        .on_error = text_of(run->on_error),
        .has_options = run->options,
        .options = options_say(run->options),
    };

    if (run->on_input)
        said.asks = text_of("pause");
    return said;
}

static int begin_run(LimpetClient *client, RunCall *run_call, char run_id[static LIMIT_RUN_ID + 1])
{
    const LimpetRun *run = run_call->run;
    size_t size = run->code_size ? run->code_size : strlen(run->code);
    MsgRun said;
    int r;

    client->problem = PROBLEM_NULL;
    r = check(client, run, size);
    if (!r && !run->run_id)
        r = run_make_id(run_id, &client->problem);
    if (r < 0)
        return r;
    said = say_run(run, size, run_call->call.run_id);
    client_begin(client, &run_call->call, MSG_RUN, MsgRun, &said);
    return 0;
}

int run_wait(LimpetClient *client, RunCall *run_call, LimpetResult **ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    LimpetResult *result = NULL;
    int r = client_call(client, &run_call->call, &reply);

    if (!r)
        r = result_new(&result, &reply, &reply.message.body, &client->problem);
    sent_answers_deinit(&run_call->answers);
    if (!result)
        return r;
    deliver_rest(run_call, 1, result->stdout_text, result->stdout_size);
    deliver_rest(run_call, 2, result->stderr_text, result->stderr_size);
    r = result_bring(client, result);
    if (r < 0) {
        limpet_result_free(result);
        return r;
    }
    *ret = result;
    return 0;
}

int limpet_run(LimpetClient *client, const LimpetRun *run, LimpetResult **ret)
{
    char run_id[LIMIT_RUN_ID + 1];
    RunCall run_call = {
        .call = {.repeatable = true, .run_id = run->run_id ? run->run_id : run_id, .on_event = run_on_event},
        .run = run,
    };
    int r = begin_run(client, &run_call, run_id);

    if (!r)
        r = run_wait(client, &run_call, ret);
    return client_result(client, r);
}

int limpet_result(LimpetClient *client, const char *run_id, double timeout, LimpetResult **ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgResult asked = {.run_id = text_of(run_id), .timeout = timeout == LIMPET_FOREVER ? NAN : timeout};
    ClientCall call = {.repeatable = true};
    MsgResultReply body;
    LimpetResult *result = NULL;
    int r;

    client_begin(client, &call, MSG_RESULT, MsgResult, &asked);
    r = client_call_for(client, &call, &reply, &body, MsgResultReply);
    if (!r && body.record.map)
        r = result_new(&result, &reply, body.record.map, &client->problem);
    if (result)
        r = result_bring(client, result);
    if (!r)
        *ret = result;
    else
        limpet_result_free(result);
    return client_result(client, r);
}
