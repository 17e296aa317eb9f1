/* limpet_run() and limpet_result(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "clients/c/asks.h"
#include "clients/c/options.h"
#include "clients/c/result.h"

#define CREDIT_EVERY 16 /* of the LIMIT_CREDIT that may be under way: the stream never stops for us */

typedef struct RunCall {
    Call call;
    const LimpetRun *run;
    uint64_t consumed;     /* output events since the last credit */
    uint64_t delivered[2]; /* bytes of each stream */
    Asks asks;
} RunCall;

typedef struct OutputBody {
    uint64_t stream;
    Text data;
} OutputBody;

static const Field output_fields[] = {
    FIELD(FIELD_UINT, OutputBody, stream, true, 2),
    FIELD(FIELD_BYTES, OutputBody, data, true, 0),
};

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
    OutputBody output = {0};
    int r = reply_fields(&output, output_fields, ARRAY_SIZE(output_fields), event, &client->problem);

    if (r < 0)
        return r;
    if (output.stream == 0)
        return problem_set(&client->problem, ERR_PROTOCOL_MISMATCH,
                           "output of a stream that is neither 1 nor 2");
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
    bool update;
    Arena arena = {.zone = event->zone};
    int r;

    if (!run->on_display)
        return 0;
    r = display_read(&display, &update, &event->body, &arena, &run_call->call.client->problem);
    if (!r)
        run->on_display(run->context, &display, update);
    return r;
}

static int on_event(Call *call, const Message *event)
{
    RunCall *run_call = container_of(call, RunCall, call);

    switch (event->kind) {
    case MSG_OUTPUT:
        return on_output(run_call, &event->body);
    case MSG_ASK:
        return client_asks_handle(&run_call->asks, call, run_call->run, event);
    default:
        return on_display(run_call, event);
    }
}

/* What the events did not bring: all of it when the record was stored already, the rest after a gap. */
static void deliver_rest(RunCall *run_call, int stream, const char *text, size_t size)
{
    uint64_t before = run_call->delivered[stream - 1];

    if ((before == 0 || run_call->call.rejoined) && before < size)
        deliver(run_call, stream, text + before, size - before);
}

static int make_run_id(char ret[static LIMIT_RUN_ID + 1], Problem *problem)
{
    uint8_t random[LIMIT_RUN_ID / 2];

    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return problem_set(problem, ERR_INTERNAL, "no random number: %s", strerror(errno));
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(ret + 2 * i, 3, "%02x", random[i]);
    return 0;
}

/* The controller refuses these too, but a frame over its limit costs the connection, and the encoder would
 * replace what is not UTF-8. */
static int check(const LimpetRun *run, size_t size, Problem *problem)
{
    if (size > LIMIT_CODE)
        return problem_set(problem, ERR_TOO_LARGE, "the code has %zu bytes; at most %u are allowed", size,
                           LIMIT_CODE);
    if (!utf8_valid(run->code, size))
        return problem_set(problem, ERR_BAD_REQUEST, "the code is not valid UTF-8");
    if (run->session && run->options)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "options belong to limpet_open() when a session is named");
    return options_check(run->options, problem);
}

static void write_run(Writer *w, const LimpetRun *run, size_t size, const char *run_id)
{
    write_pair(w, "session", run->session);
    write_pair(w, "instance", run->instance);
    write_key(w, "code");
    write_text_n(w, run->code, size);
    write_pair(w, "run_id", run_id);
    write_key(w, "timeout");
    if (run->timeout == 0)
        write_nil(w);
    else
        write_double(w, run->timeout);
    write_key(w, "stream");
    write_bool(w, run->on_output || run->on_display);
    write_pair(w, "on_error", run->on_error);
    if (run->on_input)
        write_pair(w, "asks", "pause");
    write_key(w, "options");
    if (run->options) {
        write_map(w, OPTIONS_FIELDS);
        options_write(w, run->options);
    } else {
        write_nil(w);
    }
}

int limpet_run(LimpetClient *client, const LimpetRun *run, LimpetResult **ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    RunCall run_call = {
        .call = {.repeatable = true, .run_id = run->run_id ? run->run_id : run_id, .on_event = on_event},
        .run = run,
    };
    size_t size = run->code_size ? run->code_size : strlen(run->code);
    LimpetResult *result = NULL;
    Writer w;
    int r;

    client_begin(client, &run_call.call, &w, MSG_RUN, run->on_input ? 9 : 8);
    r = check(run, size, &client->problem);
    if (!r && !run->run_id)
        r = make_run_id(run_id, &client->problem);
    if (!r) {
        write_run(&w, run, size, run_call.call.run_id);
        r = client_call(client, &run_call.call, &w, &reply);
    }
    if (!r)
        r = result_new(&result, &reply, &reply.message.body, &client->problem);
    client_asks_deinit(&run_call.asks);
    if (!result)
        return client_result(client, r);
    deliver_rest(&run_call, 1, result->stdout_text, result->stdout_size);
    deliver_rest(&run_call, 2, result->stderr_text, result->stderr_size);
    *ret = result;
    return client_result(client, 0);
}

typedef struct ResultReply {
    Text run_id;
    const msgpack_object_map *record;
} ResultReply;

static const Field result_fields[] = {
    FIELD(FIELD_TEXT, ResultReply, run_id, true, 0),
    FIELD(FIELD_MAP, ResultReply, record, false, 0),
};

int limpet_result(LimpetClient *client, const char *run_id, double timeout, LimpetResult **ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Call call = {.repeatable = true};
    ResultReply body = {0};
    LimpetResult *result = NULL;
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_RESULT, 2);
    write_pair(&w, "run_id", run_id);
    write_key(&w, "timeout");
    if (timeout == LIMPET_FOREVER)
        write_nil(&w);
    else
        write_double(&w, timeout);
    r = client_call(client, &call, &w, &reply);
    if (!r)
        r = reply_fields(&body, result_fields, ARRAY_SIZE(result_fields), &reply.message.body,
                         &client->problem);
    if (!r && body.record)
        r = result_new(&result, &reply, body.record, &client->problem);
    if (!r)
        *ret = result;
    return client_result(client, r);
}
