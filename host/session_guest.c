#include "host/session_parts.h"

#include "host/record.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static void violation(void *userdata, const char *what)
{
    Session *session = userdata;

    log_warn("supervisor broke the protocol", "session=%s what=%s", session->name, what);
    session_close(session, NULL, "its supervisor broke the protocol");
}

/* `executed` is kept encoded until its artifacts are published. */
static void on_executed(Session *session, const Message *message)
{
    Problem problem = PROBLEM_NULL;
    Executed executed;
    Writer w;

    /* After a reconnection the supervisor says the last one again. */
    if (!session->running || message->id != session->running->number || session->executed.size > 0)
        return;
    if (record_decode(&executed, &message->body, &problem) < 0) {
        violation(session, problem.text);
        return;
    }
    loop_timer_cancel(&session->watchdog);
    session->execution_count = MAX(session->execution_count, executed.execution_count);
    session->epoch = MAX(session->epoch, executed.epoch);
    writer_init(&w, &session->executed);
    write_array(&w, 4);
    write_uint(&w, PROTOCOL_VERSION);
    write_uint(&w, message->kind);
    write_uint(&w, message->id);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = message->body});
    if (writer_finish(&w) < 0)
        buf_clear(&session->executed);
    session_publish(session);
}

typedef struct Output {
    uint64_t stream;
    Text data;
} Output;

static const Field output_fields[] = {
    FIELD(FIELD_UINT, Output, stream, true, 2),
    FIELD(FIELD_BYTES, Output, data, true, LIMIT_CHUNK),
};

/* Events are passed on as they are: their envelope and size are checked, and the rest is the cell's own
 * words. */
static void on_event(Session *session, const Message *message)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    Output output = {0};
    Writer w;

    if (!session->running || message->id != session->running->number)
        return;
    if (message->kind == MSG_OUTPUT &&
        fields_decode(&output, output_fields, ARRAY_SIZE(output_fields), &message->body, &problem) < 0) {
        violation(session, problem.text);
        return;
    }
    writer_init(&w, &body);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = message->body});
    if (writer_finish(&w) == 0)
        session_grant(session, session->running, call_event(session->running, message->kind, &body));
}

typedef struct GuestError {
    uint64_t number;
    Text name, message;
} GuestError;

static const Field error_fields[] = {
    FIELD(FIELD_UINT, GuestError, number, true, 0),
    FIELD(FIELD_TEXT, GuestError, name, true, 64),
    FIELD(FIELD_TEXT, GuestError, message, true, PROBLEM_TEXT_MAX),
};

/* The supervisor could not run the call, or not tell how it ended. */
static void on_guest_error(Session *session, const Message *message)
{
    Problem problem = PROBLEM_NULL, why = PROBLEM_NULL;
    GuestError error = {0};

    if (fields_decode(&error, error_fields, ARRAY_SIZE(error_fields), &message->body, &problem) < 0) {
        violation(session, problem.text);
        return;
    }
    if (!session->running || message->id != session->running->number || session->executed.size > 0)
        return;
    problem_set(&why, ERR_INTERNAL, "the session's supervisor: %.*s", (int)error.message.size,
                error.message.data);
    session_fail_call(session, &why);
}

typedef struct ResetReply {
    uint64_t epoch;
} ResetReply;

static const Field reset_fields[] = {FIELD(FIELD_UINT, ResetReply, epoch, true, 0)};

static void on_reset_done(Session *session, const Message *message)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    ResetReply reply = {0};
    Request *request;
    Writer w;

    if (fields_decode(&reply, reset_fields, ARRAY_SIZE(reset_fields), &message->body, &problem) < 0) {
        violation(session, problem.text);
        return;
    }
    session->epoch = MAX(session->epoch, reply.epoch);
    session->used = clock_now();
    writer_init(&w, &body);
    write_map(&w, 1);
    write_key(&w, "epoch");
    write_uint(&w, session->epoch);
    writer_finish(&w);
    request =
        list_empty(&session->resetters) ? NULL : list_entry(list_first(&session->resetters), Request, link);
    if (request)
        request_reply(request, &body);
}

static void on_guest_message(void *userdata, const Message *message)
{
    Session *session = userdata;

    if (session->state == SESSION_CLOSING)
        return;
    switch (message->kind) {
    case MSG_EXECUTED:
        on_executed(session, message);
        break;
    case MSG_OUTPUT:
    case MSG_DISPLAY:
        on_event(session, message);
        break;
    case MSG_ERROR:
        on_guest_error(session, message);
        break;
    case MSG_REPLY:
        on_reset_done(session, message);
        break;
    default:
        violation(session, message_name(message->kind));
    }
}

int session_send(Session *session, MessageKind kind, uint64_t id)
{
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;
    int r;

    writer_message(&w, &message, kind, id, 0);
    r = writer_finish(&w);
    return r < 0 ? r : guest_send(session->guest, &message);
}

void session_reset(Session *session, Request *request)
{
    list_append(&session->resetters, &request->link);
    if (session_send(session, MSG_RESET, ++session->controller->last_number) < 0)
        session_close(session, NULL, "its supervisor cannot be reached");
}

static int send_welcome(Session *session)
{
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;
    int r;

    writer_message(&w, &message, MSG_GUEST_WELCOME, ++session->controller->last_number, 3);
    write_key(&w, "output_limit");
    write_uint(&w, LIMIT_OUTPUT);
    write_key(&w, "spill_limit");
    write_uint(&w, LIMIT_SPILL);
    write_key(&w, "env");
    r = writer_finish(&w);
    if (r == 0)
        r = buf_append(&message, buf_head(&session->options.env), session->options.env.size);
    return r < 0 ? r : guest_send(session->guest, &message);
}

static void on_hello(void *userdata, uint64_t epoch, uint64_t execution_count)
{
    Session *session = userdata;

    session->epoch = MAX(session->epoch, epoch);
    session->execution_count = MAX(session->execution_count, execution_count);
    if (send_welcome(session) < 0) {
        session_close(session, NULL, "its supervisor cannot be reached");
        return;
    }
    session->guest_ready = true;
    session_become_ready(session);
}

const GuestEvents session_guest_events = {
    .hello = on_hello,
    .message = on_guest_message,
    .violation = violation,
};
