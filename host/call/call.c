#include "host/call/call.h"

#include <errno.h>
#include <string.h>

#include "host/link/envelope.h"
#include "proto/base/clock.h"

/* ---- its questions ---- */

typedef struct OpenQuestion {
    List link;
    uint64_t number;
    Buf body; /* as its client gets it */
} OpenQuestion;

static void asks_begin(Asks *asks)
{
    list_init(&asks->waiting);
    list_init(&asks->in_asking);
}

/* Watches the supervisor of a call. While the call waits in a mode where that is free, the supervisor has no
 * deadline, and so no watchdog; an adopted call may be of that kind. */
static void watch_questions(const Call *call)
{
    if (call->asks.mode == ASK_COUNT)
        return;
    if (call->asks.waiting_count > 0)
        sandbox_unwatch(call->to_guest.sandbox);
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

static OpenQuestion *find_question(const Asks *asks, uint64_t number)
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

/* From now on this request of Call.joined is asked, and first what waits. */
static void asks_join(Call *call, Request *request, AskMode mode)
{
    Asks *asks = &call->asks;
    OpenQuestion *question;

    if (mode == ASK_NOBODY)
        return;
    if (call->to_guest.state < REQUEST_SENT)
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
    guest_send(call->to_guest.sandbox->guest, MSG_ANSWER, call->to_guest.number, MsgAnswer, answer);
}

static void refuse_question(const Call *call, uint64_t number, const char *text)
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
    OpenQuestion *question = call ? find_question(&call->asks, number_of(body)) : NULL;
    Problem problem = PROBLEM_NULL;
    MsgAnswer answer;

    if (!question)
        return;
    if (decode_answer(&answer, body, &problem) < 0)
        refuse_question(call, question->number, problem.text);
    else
        send_answer(call, &answer);
    question_free(&call->asks, question);
    watch_questions(call);
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

    if (r < 0 || find_question(asks, ask.ask))
        return r;
    if (asks->mode == ASK_NOBODY && !call->adopted) {
        refuse_question(call, ask.ask, "the client of this call answers no questions");
        return 0;
    }
    if (asks->waiting_count == LIMIT_ASKS || ++asks->asked > LIMIT_ASKED)
        return problem_set(problem, ERR_TOO_LARGE, "too many open questions of one call");
    question = question_new(asks, &ask);
    if (!question) {
        refuse_question(call, ask.ask, "the controller is out of memory");
        return 0;
    }
    watch_questions(call);
    pass_on(asks, question);
    return 0;
}

void asks_interrupt(Call *call)
{
    if (call->asks.waiting_count > 0)
        call_watch(call);
}

/* The call has ended, and its questions with it. */
static void asks_end(Asks *asks)
{
    OpenQuestion *question;

    list_foreach (question, &asks->waiting, OpenQuestion, link)
        question_free(asks, question);
    list_remove(&asks->in_asking);
    asks->request = NULL;
}

/* ---- its life ---- */

/* All stored records together. */
#define STORED_BYTES_MAX (256u << 20)
/* Without what ends the text. */
#define KEY_SIZE (offsetof(CallKey, run_id) + LIMIT_RUN_ID)

static uint64_t hash_code(Text code)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < code.size; i++)
        hash = (hash ^ (uint8_t)code.data[i]) * UINT64_C(1099511628211);
    return hash;
}

static Call *call_alloc(Calls *all, const GuestRequestOps *kind, uid_t user, Session *session,
                        const char *run_id)
{
    Call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->all = all;
    guest_request_init(&call->to_guest, kind, kind == &call_turn_ops ? LANE_EXCLUSIVE : LANE_PROGRAM,
                       session ? session->sandbox : NULL, session);
    call->user = user;
    memcpy(call->run_id, run_id, sizeof(call->run_id));
    list_init(&call->joined);
    list_init(&call->asked);
    list_init(&call->starting);
    list_init(&call->in_session);
    list_init(&call->by_age);
    list_init(&call->in_streams);
    list_init(&call->in_waited);
    asks_begin(&call->asks);
    HASH_ADD(by_id, all->by_id, key, KEY_SIZE, call);
    if (call->by_id.tbl)
        return call;
    free(call);
    return NULL;
}

Call *call_new(Calls *all, const GuestRequestOps *kind, Session *session, const char *run_id, Text code,
               double timeout)
{
    char *copy _cleanup_(freep) = malloc(code.size + 1);
    Call *call = copy ? call_alloc(all, kind, session->user, session, run_id) : NULL;

    if (!call)
        return NULL;
    memcpy(copy, code.data, code.size);
    call->code = take(copy);
    call->code_size = code.size;
    call->code_hash = hash_code(code);
    call->timeout = timeout;
    return call;
}

Call *call_adopt(Calls *all, const GuestRequestOps *kind, Session *session, const char *run_id,
                 uint64_t code_hash)
{
    Call *call = call_alloc(all, kind, session->user, session, run_id);

    if (!call)
        return NULL;
    call->code_hash = code_hash;
    call->timeout = TIMEOUT_MAXIMUM;
    call->adopted = true;
    return call;
}

static void forget_stream(Call *call)
{
    call->stream = NULL;
    list_remove(&call->in_streams);
}

static void call_free(Call *call)
{
    if (call->record.size)
        call->all->bytes -= call->record.size;
    HASH_DELETE(by_id, call->all->by_id, call);
    forget_stream(call);
    list_remove(&call->in_waited);
    asks_end(&call->asks);
    guest_request_detach_step(&call->to_guest);
    loop_timer_cancel(&call->stuck);
    list_remove(&call->to_guest.link);
    list_remove(&call->in_session);
    list_remove(&call->by_age);
    buf_deinit(&call->record);
    free(call->code);
    free(call);
}

Call *call_find(const Calls *all, uid_t user, const char *run_id)
{
    CallKey key;
    Call *call = NULL;

    memset(&key, 0, sizeof(key));
    key.user = user;
    memcpy(key.run_id, run_id, LIMIT_RUN_ID);
    HASH_FIND(by_id, all->by_id, &key, KEY_SIZE, call);
    return call;
}

bool call_is_same(const Call *call, Text code)
{
    return call->code_hash == hash_code(code);
}

void call_join(Call *call, Request *request, bool stream, AskMode asks)
{
    if (call_is_over(call)) {
        request_reply(request, &call->record);
        return;
    }
    list_append(&call->joined, &request->link);
    if (stream && !call->stream) {
        call->stream = request;
        list_append(&call->all->streams, &call->in_streams);
        if (call->adopted) /* no events since its controller was lost */
            call_grant(call, LIMIT_CREDIT);
    }
    asks_join(call, request, asks);
}

static void answer_asked(const Call *call, Request *request)
{
    MsgResultReply reply = {.run_id = text_of(call->run_id)};

    if (call_is_over(call))
        reply.record = value_encoded(&call->record);
    request_answer(request, MsgResultReply, &reply);
}

static void answer_started(const Call *call, Request *request)
{
    request_answer(request, MsgStartReply, &(MsgStartReply){.run_id = text_of(call->run_id)});
}

void call_await_start(Call *call, Request *request)
{
    if (call->started || call_is_over(call))
        answer_started(call, request);
    else
        list_append(&call->starting, &request->link);
}

/* Notes that nobody uses a session any more through a call in the background, which goes on. */
static void note_rest(Call *call)
{
    if (call->to_guest.ops != &process_turn_ops || call_is_over(call) || !list_empty(&call->asked))
        return;
    list_remove(&call->in_waited);
    sandbox_program_over(call->to_guest.sandbox, call->to_guest.session);
}

void call_note_started(Call *call)
{
    Request *request;

    call->started = true;
    list_foreach (request, &call->starting, Request, link)
        answer_started(call, request);
    note_rest(call);
}

static void on_ask_due(LoopTimer *timer)
{
    Request *request = container_of(timer, Request, timer);
    Call *call = request->owner;

    answer_asked(call, request);
    note_rest(call);
}

void call_ask(Call *call, Request *request, double timeout)
{
    if (call_is_over(call) || timeout == 0) {
        answer_asked(call, request);
        return;
    }
    list_append(&call->asked, &request->link);
    list_remove(&call->in_waited);
    list_append(&call->all->waited, &call->in_waited);
    request->owner = call;
    if (timeout > 0)
        loop_timer_set(call->all->loop, &request->timer, clock_now() + clock_from_seconds(timeout),
                       on_ask_due);
}

static void trim_stored(Calls *all)
{
    while (all->bytes > STORED_BYTES_MAX && !list_empty(&all->by_age)) {
        Call *oldest = list_entry(list_first(&all->by_age), Call, by_age);
        if (oldest->to_guest.session)
            oldest->to_guest.session->stored_count--;
        call_free(oldest);
    }
}

static void count(Call *call)
{
    list_append(&call->all->by_age, &call->by_age);
    call->all->bytes += call->record.size;
}

/* Into the list of its session, from where the oldest go when there are too many. */
static void store(Call *call)
{
    Session *session = call->to_guest.session;

    list_append(&session->stored, &call->in_session);
    count(call);
    if (++session->stored_count > LIMIT_STORED_RUNS) {
        call_free(list_entry(list_first(&session->stored), Call, in_session));
        session->stored_count--;
    }
    trim_stored(call->all);
}

void call_end(Call *call, Buf *record)
{
    Request *request;

    call->to_guest.state = REQUEST_OVER;
    call->record = *record;
    *record = BUF_NULL;
    forget_stream(call);
    list_remove(&call->in_waited);
    asks_end(&call->asks);
    guest_request_detach_step(&call->to_guest);
    loop_timer_cancel(&call->stuck);
    store(call);
    call_note_started(call);
    list_foreach (request, &call->joined, Request, link)
        request_reply(request, &call->record);
    list_foreach (request, &call->asked, Request, link)
        answer_asked(call, request);
    if (call->all->ended)
        call->all->ended(call);
    free(take(call->code));
}

int call_restore(Calls *all, uid_t user, const char *run_id, uint64_t code_hash, Text record,
                 uint64_t expires)
{
    Call *call = call_alloc(all, &call_turn_ops, user, NULL, run_id);
    int r = call ? buf_append(&call->record, record.data, record.size) : -ENOMEM;

    if (!call)
        return r;
    call->to_guest.state = REQUEST_OVER;
    call->code_hash = code_hash;
    if (r < 0) {
        call_free(call);
        return r;
    }
    count(call);
    call->expires = expires;
    list_append(&all->orphans, &call->in_session);
    trim_stored(all);
    return 0;
}

void call_fail(Call *call, const Problem *problem)
{
    Request *request;

    list_foreach (request, &call->starting, Request, link)
        request_fail(request, problem);
    list_foreach (request, &call->joined, Request, link)
        request_fail(request, problem);
    list_foreach (request, &call->asked, Request, link)
        request_fail(request, problem);
    call_free(call);
}

void call_forget(Call *call)
{
    Request *request;

    list_foreach (request, &call->starting, Request, link)
        request_forget(request);
    list_foreach (request, &call->joined, Request, link)
        request_forget(request);
    list_foreach (request, &call->asked, Request, link)
        request_forget(request);
    call_free(call);
}

/* The client is gone: what it had not read counts as read. */
static void end_stream(Call *call)
{
    forget_stream(call);
    call_grant(call, (unsigned)call->unacknowledged);
    call->unacknowledged = 0;
}

static void forget_waiting(Call *call, Peer peer)
{
    Request *request;

    list_foreach (request, &call->asked, Request, link)
        if (request->peer == peer)
            request_forget(request);
    note_rest(call);
}

void calls_client_gone(Calls *all, Peer peer)
{
    Call *call;

    list_foreach (call, &all->waited, Call, in_waited)
        forget_waiting(call, peer);
    list_foreach (call, &all->streams, Call, in_streams)
        if (call->stream->peer == peer)
            end_stream(call);
}

unsigned call_event(Call *call, MessageKind kind, Text body)
{
    unsigned credit = kind == MSG_OUTPUT;

    if (!call->stream)
        return credit;
    if (request_event(call->stream, kind, body) < 0) {
        end_stream(call);
        return credit;
    }
    call->unacknowledged += credit;
    return 0;
}

/* Credit for a stream that has ended in the meantime is nothing to complain of. */
void calls_credit(Calls *all, Peer peer, uint64_t id, const msgpack_object_map *body)
{
    MsgCredit credit;
    Problem problem = PROBLEM_NULL;
    Call *call;

    if (body_decode(&credit, MsgCredit, body, &problem) < 0)
        return;
    list_foreach (call, &all->streams, Call, in_streams) {
        if (call->stream->id != id || call->stream->peer != peer)
            continue;
        credit.count = MIN(credit.count, call->unacknowledged);
        call->unacknowledged -= credit.count;
        call_grant(call, (unsigned)credit.count);
        return;
    }
}

void calls_orphan(Calls *all, List *stored)
{
    Call *call;

    list_foreach (call, stored, Call, in_session) {
        call->to_guest.session = NULL;
        call->to_guest.sandbox = NULL;
        list_remove(&call->in_session);
        call->expires = clock_now() + STORED_RUN_SECONDS * NSEC_PER_SEC;
        list_append(&all->orphans, &call->in_session);
    }
    calls_expire(all);
}

static void on_expiry(LoopTimer *timer)
{
    calls_expire(container_of(timer, Calls, timer));
}

/* Orphans are in the order they expire. */
void calls_expire(Calls *all)
{
    Call *call;

    list_foreach (call, &all->orphans, Call, in_session) {
        if (call->expires > clock_now()) {
            loop_timer_set(all->loop, &all->timer, call->expires, on_expiry);
            return;
        }
        call_free(call);
    }
}

void calls_init(Calls *all)
{
    list_init(&all->by_age);
    list_init(&all->orphans);
    list_init(&all->streams);
    list_init(&all->asking);
    list_init(&all->waited);
}

void calls_deinit(Calls *all)
{
    Call *call, *next;

    loop_timer_cancel(&all->timer);
    HASH_ITER (by_id, all->by_id, call, next)
        call_free(call);
}
