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
    session = sessions_find(controller, text);
    if (session)
        attach(session, request, &given);
    else
        open_new(controller, request, name, &given);
}

const Op op_open = {.kind = MSG_OPEN, .handle = handle};
