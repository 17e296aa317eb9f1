#include <errno.h>
#include <string.h>

#include "host/call/call.h"
#include "host/link/envelope.h"

typedef struct OpenQuestion {
    List link;
    uint64_t number;
    Buf body; /* as its client gets it */
} OpenQuestion;

void asks_begin(Asks *asks)
{
    list_init(&asks->waiting);
    list_init(&asks->in_asking);
}

/* Watches the supervisor of a call. While the call waits in a mode where that is free, the supervisor has no
 * deadline, and so no watchdog; an adopted call may be of that kind. */
static void watch(const Call *call)
{
    if (call->asks.mode == ASK_COUNT)
        return;
    if (call->asks.waiting_count > 0)
        sandbox_unwatch(call->turn.sandbox);
    else
        call_watch(call);
}

static void question_free(Asks *asks, OpenQuestion *question)
{
    list_remove(&question->link);
    asks->waiting_count--;
    buf_deinit(&question->body);
    free(question);
}

static OpenQuestion *find(const Asks *asks, uint64_t number)
{
    OpenQuestion *question;

    list_foreach (question, &asks->waiting, OpenQuestion, link)
        if (question->number == number)
            return question;
    return NULL;
}

/* Whoever cannot be reached is asked no more; the question waits for the next one. */
static void pass_on(Asks *asks, const OpenQuestion *question)
{
    if (asks->request && request_event(asks->request, MSG_ASK, encoded_text(&question->body)) < 0)
        asks->request = NULL;
}

void asks_join(Call *call, Request *request, AskMode mode)
{
    Asks *asks = &call->asks;
    OpenQuestion *question;

    if (mode == ASK_NOBODY)
        return;
    if (call->turn.state < TURN_SENT)
        asks->mode = mode;
    asks->request = request;
    if (list_empty(&asks->in_asking))
        list_append(&call->all->asking, &asks->in_asking);
    list_foreach (question, &asks->waiting, OpenQuestion, link)
        pass_on(asks, question);
}

/* ---- answers ---- */

static int decode_answer(MsgAnswer *ret, const msgpack_object_map *body, Problem *problem)
{
    int r = body_decode(ret, MsgAnswer, body, problem);

    if (r == 0 && !ret->payload.data == !ret->has_error)
        return problem_set(problem, ERR_BAD_REQUEST, "an answer has either `payload` or `error`");
    return r;
}

/* Sends an answer. The supervisor asks again after a reconnection for one that did not arrive. */
static void send_answer(const Call *call, const MsgAnswer *answer)
{
    guest_say(call->turn.sandbox->guest, MSG_ANSWER, call->turn.number, MsgAnswer, answer);
}

static void refuse(const Call *call, uint64_t number, const char *text)
{
    const MsgAnswer answer = {
        .ask = number, .has_error = true, .error = {text_of("RuntimeError"), text_of(text)}};

    send_answer(call, &answer);
}

static Call *find_asking(Calls *all, Peer peer, uint64_t id)
{
    Call *call;

    list_foreach (call, &all->asking, Call, asks.in_asking)
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
void asks_answer(Calls *all, Peer peer, uint64_t id, const msgpack_object_map *body)
{
    Call *call = find_asking(all, peer, id);
    OpenQuestion *question = call ? find(&call->asks, number_of(body)) : NULL;
    Problem problem = PROBLEM_NULL;
    MsgAnswer answer;

    if (!question)
        return;
    if (decode_answer(&answer, body, &problem) < 0)
        refuse(call, question->number, problem.text);
    else
        send_answer(call, &answer);
    question_free(&call->asks, question);
    watch(call);
}

/* ---- questions ---- */

static OpenQuestion *question_new(Asks *asks, const MsgAsk *ask)
{
    OpenQuestion *question = calloc(1, sizeof(*question));

    if (!question)
        return NULL;
    if (body_encode(&question->body, MsgAsk, ask) < 0) {
        free(question);
        return NULL;
    }
    question->number = ask->ask;
    list_append(&asks->waiting, &question->link);
    asks->waiting_count++;
    return question;
}

static int decode_question(MsgAsk *ret, const msgpack_object_map *body, Problem *problem)
{
    int r = body_decode(ret, MsgAsk, body, problem);

    if (r == 0 && !ret->name.data)
        return problem_set(problem, ERR_BAD_REQUEST, "`name` is missing");
    if (r == 0 && (ret->name.size > LIMIT_ASK || ret->payload.size > LIMIT_ASK))
        return problem_set(problem, ERR_TOO_LARGE, "a question exceeds its limit of %u bytes", LIMIT_ASK);
    return r;
}

/* Takes a question. A known one has been asked again after a reconnection. */
int asks_question(Call *call, const msgpack_object_map *body, Problem *problem)
{
    Asks *asks = &call->asks;
    OpenQuestion *question;
    MsgAsk ask;
    int r = decode_question(&ask, body, problem);

    if (r < 0 || find(asks, ask.ask))
        return r;
    if (asks->mode == ASK_NOBODY && !call->adopted) {
        refuse(call, ask.ask, "the client of this call answers no questions");
        return 0;
    }
    if (asks->waiting_count == LIMIT_ASKS || ++asks->asked > LIMIT_ASKED)
        return problem_set(problem, ERR_TOO_LARGE, "too many open questions of one call");
    question = question_new(asks, &ask);
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
        call_watch(call);
}

void asks_end(Asks *asks)
{
    OpenQuestion *question;

    list_foreach (question, &asks->waiting, OpenQuestion, link)
        question_free(asks, question);
    list_remove(&asks->in_asking);
    asks->request = NULL;
}
