#include "host/call.h"

#include <errno.h>
#include <string.h>

#include "host/session.h"
#include "proto/base/clock.h"

/* All stored records together. */
#define STORED_BYTES_MAX (256u << 20)
/* A stream that owes more credit than an attentive client ever does is asked this often whether it is there.
 */
#define STALL_PROBE  (NSEC_PER_SEC)
#define STALL_CREDIT (LIMIT_CREDIT / 2)

static uint64_t hash_code(Text code)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (size_t i = 0; i < code.size; i++)
        hash = (hash ^ (uint8_t)code.data[i]) * UINT64_C(1099511628211);
    return hash;
}

Call *call_new(Controller *controller, const char *run_id, Text code, double timeout)
{
    Call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->code = text_dup(code);
    if (!call->code) {
        free(call);
        return NULL;
    }
    call->controller = controller;
    call->code_size = code.size;
    call->code_hash = hash_code(code);
    call->timeout = timeout;
    memcpy(call->run_id, run_id, sizeof(call->run_id));
    list_init(&call->joined);
    list_init(&call->asked);
    list_init(&call->in_session);
    list_init(&call->by_age);
    list_init(&call->in_streams);
    HASH_ADD(by_id, controller->calls.by_id, run_id, LIMIT_RUN_ID, call);
    return call;
}

static void forget_stream(Call *call)
{
    call->stream = NULL;
    list_remove(&call->in_streams);
    loop_timer_cancel(&call->stall_timer);
}

void call_free(Call *call)
{
    if (call->record.size)
        call->controller->calls.bytes -= call->record.size;
    HASH_DELETE(by_id, call->controller->calls.by_id, call);
    forget_stream(call);
    list_remove(&call->in_session);
    list_remove(&call->by_age);
    buf_deinit(&call->record);
    free(call->code);
    free(call);
}

Call *call_find(Controller *controller, const char *run_id)
{
    Call *call = NULL;

    HASH_FIND(by_id, controller->calls.by_id, run_id, LIMIT_RUN_ID, call);
    return call;
}

bool call_is_same(const Call *call, Text code)
{
    return call->code_size == code.size && call->code_hash == hash_code(code);
}

void call_join(Call *call, Request *request, bool stream)
{
    if (call_ended(call)) {
        request_reply(request, &call->record);
        return;
    }
    list_append(&call->joined, &request->link);
    if (stream && !call->stream) {
        call->stream = request;
        list_append(&call->controller->calls.streams, &call->in_streams);
    }
}

/* The reply of `result`: {run_id, record or nil}. */
static void answer_asked(const Call *call, Request *request)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;

    writer_init(&w, &body);
    write_map(&w, 2);
    write_key(&w, "run_id");
    write_text(&w, call->run_id);
    write_key(&w, "record");
    if (!call_ended(call))
        write_nil(&w);
    if (writer_finish(&w) == 0 && call_ended(call))
        buf_append(&body, buf_head(&call->record), call->record.size);
    request_reply(request, &body);
}

static void on_ask_due(LoopTimer *timer)
{
    Request *request = container_of(timer, Request, timer);

    answer_asked(request->owner, request);
}

void call_ask(Call *call, Request *request, double timeout)
{
    if (call_ended(call) || timeout == 0) {
        answer_asked(call, request);
        return;
    }
    list_append(&call->asked, &request->link);
    request->owner = call;
    if (timeout > 0)
        loop_timer_set(call->controller->loop, &request->timer, clock_now() + clock_from_seconds(timeout),
                       on_ask_due);
}

static void trim_stored(Controller *controller)
{
    while (controller->calls.bytes > STORED_BYTES_MAX && !list_empty(&controller->calls.by_age)) {
        Call *oldest = list_entry(list_first(&controller->calls.by_age), Call, by_age);
        if (oldest->session)
            oldest->session->stored_count--;
        call_free(oldest);
    }
}

/* Into the list of its session, from where the oldest go when there are too many. */
static void store(Call *call)
{
    Session *session = call->session;

    list_remove(&call->in_session);
    list_append(&session->stored, &call->in_session);
    list_append(&call->controller->calls.by_age, &call->by_age);
    call->controller->calls.bytes += call->record.size;
    if (++session->stored_count > LIMIT_STORED_RUNS) {
        call_free(list_entry(list_first(&session->stored), Call, in_session));
        session->stored_count--;
    }
    trim_stored(call->controller);
}

void call_end(Call *call, Buf *record)
{
    Request *request;

    call->record = *record;
    *record = BUF_NULL;
    forget_stream(call);
    list_foreach (request, &call->joined, Request, link)
        request_reply(request, &call->record);
    list_foreach (request, &call->asked, Request, link)
        answer_asked(call, request);
    store(call);
}

void call_fail(Call *call, const Problem *problem)
{
    Request *request;

    list_foreach (request, &call->joined, Request, link)
        request_fail(request, problem);
    list_foreach (request, &call->asked, Request, link)
        request_fail(request, problem);
    call_free(call);
}

/* The client is gone: what it had not read counts as read. */
static void end_stream(Call *call)
{
    forget_stream(call);
    session_grant(call->session, call, (unsigned)call->unacknowledged);
    call->unacknowledged = 0;
}

static int send_probe(Call *call)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;

    writer_init(&w, &body);
    write_map(&w, 2);
    write_key(&w, "stream");
    write_uint(&w, 1);
    write_key(&w, "data");
    write_bytes(&w, "", 0);
    return writer_finish(&w) < 0 ? 0 : request_event(call->stream, MSG_OUTPUT, &body);
}

/* A client that reads slowly slows its own call; one that is gone must not. ZeroMQ tells only when asked to
 * send, so an empty output event is sent. */
static void on_stall(LoopTimer *timer)
{
    Call *call = container_of(timer, Call, stall_timer);

    if (send_probe(call) < 0)
        end_stream(call);
    else
        loop_timer_set(call->controller->loop, timer, clock_now() + STALL_PROBE, on_stall);
}

unsigned call_event(Call *call, MessageKind kind, const Buf *body)
{
    unsigned credit = kind == MSG_OUTPUT;

    if (!call->stream)
        return credit;
    if (request_event(call->stream, kind, body) < 0) {
        end_stream(call);
        return credit;
    }
    call->unacknowledged += credit;
    if (call->unacknowledged > STALL_CREDIT && !loop_timer_is_set(&call->stall_timer))
        loop_timer_set(call->controller->loop, &call->stall_timer, clock_now() + STALL_PROBE, on_stall);
    return 0;
}

typedef struct Credit {
    uint64_t count;
} Credit;

static const Field credit_fields[] = {FIELD(FIELD_UINT, Credit, count, true, LIMIT_CREDIT)};

/* Credit for a stream that has ended in the meantime is nothing to complain of. */
void calls_credit(Controller *controller, const Peer *peer, uint64_t id, const msgpack_object_map *body)
{
    Credit credit = {0};
    Problem problem = PROBLEM_NULL;
    Call *call;

    if (fields_decode(&credit, credit_fields, ARRAY_SIZE(credit_fields), body, &problem) < 0)
        return;
    list_foreach (call, &controller->calls.streams, Call, in_streams) {
        if (call->stream->id != id || !peer_equal(&call->stream->peer, peer))
            continue;
        credit.count = MIN(credit.count, call->unacknowledged);
        call->unacknowledged -= credit.count;
        loop_timer_cancel(&call->stall_timer);
        session_grant(call->session, call, (unsigned)credit.count);
        return;
    }
}

void calls_orphan(Controller *controller, List *stored)
{
    Call *call;

    list_foreach (call, stored, Call, in_session) {
        call->session = NULL;
        list_remove(&call->in_session);
        call->expires = clock_now() + STORED_RUN_SECONDS * NSEC_PER_SEC;
        list_append(&controller->calls.orphans, &call->in_session);
    }
    calls_expire(controller);
}

static void on_expiry(LoopTimer *timer)
{
    calls_expire(container_of(timer, Controller, calls.timer));
}

/* Orphans are in the order they expire. */
void calls_expire(Controller *controller)
{
    Call *call;

    list_foreach (call, &controller->calls.orphans, Call, in_session) {
        if (call->expires > clock_now()) {
            loop_timer_set(controller->loop, &controller->calls.timer, call->expires, on_expiry);
            return;
        }
        call_free(call);
    }
}

void calls_init(Controller *controller)
{
    list_init(&controller->calls.by_age);
    list_init(&controller->calls.orphans);
    list_init(&controller->calls.streams);
}

void calls_deinit(Controller *controller)
{
    Call *call, *next;

    loop_timer_cancel(&controller->calls.timer);
    HASH_ITER (by_id, controller->calls.by_id, call, next)
        call_free(call);
}
