#include "host/ops.h"
#include "host/session.h"
#include "host/sessions.h"

/* Attaches when nothing that was asked for differs; otherwise says what does. */
static void attach(Session *session, Request *request, const OptionsGiven *given)
{
    const char *names[SESSION_OPTION_COUNT];
    size_t n = session_options_differ(&session->options, given, names);
    Problem problem = PROBLEM_NULL;
    char list[128] = "";

    if (n == 0) {
        session_wait_open(session, request);
        return;
    }
    for (size_t i = 0, at = 0; i < n; i++)
        at += (size_t)snprintf(list + at, sizeof(list) - at, "%s%s", i ? ", " : "", names[i]);
    problem_set(&problem, ERR_OPTIONS_DIFFER,
                "the session '%s' is open with other options: %s; attach without them, or close it first",
                session->name, list);
    request_fail_options(request, &problem, names, n);
}

static void open_new(Controller *controller, Request *request, const char *name, const OptionsGiven *given)
{
    SessionOptions options = {0};
    Problem problem = PROBLEM_NULL;
    Session *session;

    if (session_options_settle(&options, given, controller->options, &problem) < 0 ||
        session_start(&session, controller, name, false, NULL, &options, &problem) < 0) {
        session_options_deinit(&options);
        request_fail(request, &problem);
        return;
    }
    session_wait_open(session, request);
}

static void handle(Controller *controller, Request *request, const msgpack_object_map *body);

/* An open whose name is held by a session that is closing: asked again when that is gone. */
typedef struct Again {
    SessionWaiter waiter;
    Controller *controller;
    Request *request;
    Buf message;
} Again;

static void on_gone(SessionWaiter *waiter)
{
    Again *again = container_of(waiter, Again, waiter);
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (again->controller->closing)
        problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down");
    else
        message_decode(&message, buf_head(&again->message), again->message.size, &problem);
    if (problem.code == ERR_NONE)
        handle(again->controller, again->request, &message.body);
    else
        request_fail(again->request, &problem);
    buf_deinit(&again->message);
    free(again);
}

static void open_later(Controller *controller, Request *request, const msgpack_object_map *body,
                       Session *closing)
{
    Again *again = calloc(1, sizeof(*again));
    Writer w;

    if (!again) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    *again = (Again){.waiter.on_gone = on_gone, .controller = controller, .request = request};
    writer_init(&w, &again->message);
    write_array(&w, 4);
    write_uint(&w, PROTOCOL_VERSION);
    write_uint(&w, MSG_OPEN);
    write_uint(&w, 0);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *body});
    writer_finish(&w); /* a message that is not whole is refused when it is read */
    session_wait_gone(closing, &again->waiter);
}

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    static const char *const own[] = {"session", NULL};
    const msgpack_object *value = map_find(body, "session");
    Problem problem = PROBLEM_NULL;
    OptionsGiven given;
    Text text = {0};
    char name[LIMIT_SESSION_NAME + 1];
    Session *session;

    if (value && value->type == MSGPACK_OBJECT_STR)
        text = (Text){value->via.str.ptr, value->via.str.size};
    if (!session_name_valid(text)) {
        request_fail_text(
            request, ERR_BAD_REQUEST,
            "a session's name has 1 to %u of A-Z a-z 0-9 . _ - and begins with a letter or digit",
            LIMIT_SESSION_NAME);
        return;
    }
    if (options_given_decode(&given, body, own, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    snprintf(name, sizeof(name), "%.*s", (int)text.size, text.data);
    session = sessions_holder(controller, text);
    if (!session)
        open_new(controller, request, name, &given);
    else if (session->state == SESSION_CLOSING)
        open_later(controller, request, body, session);
    else
        attach(session, request, &given);
}

const Op op_open = {.kind = MSG_OPEN, .handle = handle};
