#include "host/asks.h"

#include <errno.h>
#include <string.h>

#include "host/envelope.h"
#include "host/sandbox_parts.h"

typedef struct Question {
    List link;
    uint64_t number;
    Buf body; /* as its client gets it */
} Question;

void asks_begin(Asks *asks)
{
    list_init(&asks->waiting);
    list_init(&asks->in_asking);
}

static const char *const names[] = {[ASK_PAUSE] = "pause", [ASK_COUNT] = "count"};

const char *asks_name(AskMode mode)
{
    return names[mode];
}

int asks_parse(AskMode *ret, Text text)
{
    *ret = ASK_NOBODY;
    if (!text.data)
        return 0;
    for (AskMode mode = ASK_PAUSE; mode <= ASK_COUNT; mode++)
        if (text_equal(text, names[mode]))
            *ret = mode;
    return *ret == ASK_NOBODY ? -EINVAL : 0;
}

/* Where waiting is free the supervisor has no deadline meanwhile, and so has no watchdog. An adopted call may
 * be of that kind. */
static void watch(Call *call)
{
    Sandbox *sandbox = call->turn.session->sandbox;

    if (call->asks.mode == ASK_COUNT)
        return;
    if (call->asks.waiting_count > 0)
        loop_timer_cancel(&sandbox->watchdog);
    else
        sandbox_watch_call(sandbox, call);
}

static void question_free(Asks *asks, Question *question)
{
    list_remove(&question->link);
    asks->waiting_count--;
    buf_deinit(&question->body);
    free(question);
}

static Question *find(const Asks *asks, uint64_t number)
{
    Question *question;

    list_foreach (question, &asks->waiting, Question, link)
        if (question->number == number)
            return question;
    return NULL;
}

/* Whoever cannot be reached is asked no more; the question waits for the next one. */
static void pass_on(Asks *asks, const Question *question)
{
    if (asks->request && request_event(asks->request, MSG_ASK, encoded_text(&question->body)) < 0)
        asks->request = NULL;
}

void asks_join(Call *call, Request *request, AskMode mode)
{
    Asks *asks = &call->asks;
    Question *question;

    if (mode == ASK_NOBODY)
        return;
    if (call->turn.number == 0)
        asks->mode = mode;
    asks->request = request;
    if (list_empty(&asks->in_asking))
        list_append(&call->controller->calls.asking, &asks->in_asking);
    list_foreach (question, &asks->waiting, Question, link)
        pass_on(asks, question);
}

/* ---- answers ---------------------------------------------------------------------------------------------
 */

typedef struct AnswerError {
    Text name, message;
} AnswerError;

typedef struct Answer {
    uint64_t ask;
    Text payload;
    const msgpack_object_map *error;
} Answer;

static const Field answer_fields[] = {
    FIELD(FIELD_UINT, Answer, ask, true, 0),
    FIELD(FIELD_BYTES, Answer, payload, false, LIMIT_ASK),
    FIELD(FIELD_MAP, Answer, error, false, 0),
};

static const Field error_fields[] = {
    FIELD(FIELD_TEXT, AnswerError, name, true, LIMIT_NOTE),
    FIELD(FIELD_TEXT, AnswerError, message, true, LIMIT_ASK),
};

static int decode_answer(Answer *ret, AnswerError *ret_error, const msgpack_object_map *body,
                         Problem *problem)
{
    int r = fields_decode(ret, answer_fields, ARRAY_SIZE(answer_fields), body, problem);

    if (r == 0 && ret->error)
        r = fields_decode(ret_error, error_fields, ARRAY_SIZE(error_fields), ret->error, problem);
    if (r == 0 && !ret->payload.data == !ret->error)
        return problem_set(problem, ERR_BAD_REQUEST, "an answer has either `payload` or `error`");
    return r;
}

/* With `error` unless that is NULL. What does not arrive is asked for again after the reconnection. */
static void send_answer(const Call *call, uint64_t number, Text payload, const AnswerError *error)
{
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;

    writer_message(&w, &message, MSG_ANSWER, call->turn.number, 2);
    write_key(&w, "ask");
    write_uint(&w, number);
    write_key(&w, error ? "error" : "payload");
    if (error) {
        write_map(&w, 2);
        write_key(&w, "name");
        write_text_n(&w, error->name.data, error->name.size);
        write_key(&w, "message");
        write_text_n(&w, error->message.data, error->message.size);
    } else {
        write_bytes(&w, payload.data, payload.size);
    }
    if (writer_finish(&w) == 0)
        guest_send(call->turn.session->sandbox->guest, &message);
}

static void refuse(const Call *call, uint64_t number, const char *text)
{
    AnswerError error = {{"RuntimeError", 12}, {text, strlen(text)}};

    send_answer(call, number, (Text){0}, &error);
}

static Call *find_asking(Controller *controller, Peer peer, uint64_t id)
{
    Call *call;

    list_foreach (call, &controller->calls.asking, Call, asks.in_asking)
        if (call->asks.request && call->asks.request->id == id && call->asks.request->peer == peer)
            return call;
    return NULL;
}

/* The number of a question that an answer which is otherwise of no use is to. */
static uint64_t number_of(const msgpack_object_map *body)
{
    const msgpack_object *number = map_find(body, "ask");

    return number && number->type == MSGPACK_OBJECT_POSITIVE_INTEGER ? number->via.u64 : 0;
}

/* A cell is not left waiting by an answer that is malformed. */
void asks_answer(Controller *controller, Peer peer, uint64_t id, const msgpack_object_map *body)
{
    Call *call = find_asking(controller, peer, id);
    Question *question = call ? find(&call->asks, number_of(body)) : NULL;
    Problem problem = PROBLEM_NULL;
    AnswerError error = {0};
    Answer answer = {0};

    if (!question)
        return;
    if (decode_answer(&answer, &error, body, &problem) < 0)
        refuse(call, question->number, problem.text);
    else
        send_answer(call, question->number, answer.payload, answer.error ? &error : NULL);
    question_free(&call->asks, question);
    watch(call);
}

/* ---- questions -------------------------------------------------------------------------------------------
 */

typedef struct AskFields {
    uint64_t ask;
    Text kind, name, payload;
} AskFields;

static const Field ask_fields[] = {
    FIELD(FIELD_UINT, AskFields, ask, true, 0),
    FIELD(FIELD_TEXT, AskFields, kind, true, 16),
    FIELD(FIELD_TEXT, AskFields, name, true, LIMIT_ASK),
    FIELD(FIELD_BYTES, AskFields, payload, false, LIMIT_ASK),
};

static Question *question_new(Asks *asks, uint64_t number, const msgpack_object_map *body)
{
    Question *question = calloc(1, sizeof(*question));
    Writer w;

    if (!question)
        return NULL;
    writer_init(&w, &question->body);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *body});
    if (writer_finish(&w) < 0) {
        buf_deinit(&question->body);
        free(question);
        return NULL;
    }
    question->number = number;
    list_append(&asks->waiting, &question->link);
    asks->waiting_count++;
    return question;
}

/* One that is known has been asked again after a reconnection. */
int asks_question(Call *call, const msgpack_object_map *body, Problem *problem)
{
    Asks *asks = &call->asks;
    Question *question;
    AskFields ask = {0};
    int r = fields_decode(&ask, ask_fields, ARRAY_SIZE(ask_fields), body, problem);

    if (r < 0 || find(asks, ask.ask))
        return r;
    if (asks->mode == ASK_NOBODY && !call->adopted) {
        refuse(call, ask.ask, "the client that runs this call answers no questions");
        return 0;
    }
    if (asks->waiting_count == LIMIT_ASKS || ++asks->asked > LIMIT_ASKED)
        return problem_set(problem, ERR_TOO_LARGE, "more questions of a call than there may be");
    question = question_new(asks, ask.ask, body);
    if (!question) {
        refuse(call, ask.ask, "the controller is out of memory");
        return 0;
    }
    watch(call);
    pass_on(asks, question);
    return 0;
}

void asks_interrupt(Call *call)
{
    if (call->asks.waiting_count > 0)
        sandbox_watch_call(call->turn.session->sandbox, call);
}

void asks_end(Asks *asks)
{
    Question *question;

    list_foreach (question, &asks->waiting, Question, link)
        question_free(asks, question);
    list_remove(&asks->in_asking);
    asks->request = NULL;
}
