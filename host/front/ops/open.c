#include <errno.h>

#include "host/link/envelope.h"
#include "host/front/from_template.h"
#include "host/front/ops.h"

static size_t differ(const Front *front, const Request *request, const Session *session, MsgOptions given,
                     const char *ret[static SESSION_OPTION_COUNT])
{
    FromTemplate from;
    size_t n;

    from_template_compare(&from, front, request, &given);
    n = session_options_differ(&session->sandbox->options, &given, ret);
    from_template_deinit(&from);
    return n;
}

/* As much of the list as there is room for. */
static void list_names(char *ret, size_t size, const char *const *names, size_t n)
{
    *ret = '\0';
    for (size_t i = 0, at = 0; i < n && at < size; i++)
        at += (size_t)snprintf(ret + at, size - at, "%s%s", i ? ", " : "", names[i]);
}

/* Attaches when nothing that was asked for differs; otherwise says what does. */
static void attach(const Front *front, Session *session, Request *request, const MsgOptions *given)
{
    const char *names[SESSION_OPTION_COUNT];
    size_t n = differ(front, request, session, *given, names);
    Problem problem = PROBLEM_NULL;
    char list[32 * SESSION_OPTION_COUNT];

    if (n == 0) {
        session_wait_open(session, request);
        return;
    }
    list_names(list, sizeof(list), names, n);
    problem_set(&problem, ERR_OPTIONS_DIFFER,
                "the session '%s' is open with other options: %s; attach without them, or close it first",
                session->name, list);
    request_fail_options(request, &problem, names, n);
}

static void begin_new(Front *front, Request *request, const MsgOpen *open, const FromTemplate *from,
                      const msgpack_object_map *body)
{
    char name[LIMIT_SESSION_NAME + 1];
    const SandboxHolder holder = {
        .user = request->user, .name = name, .restorer = open->restoring ? request->peer : 0};
    SessionOptions options = {0};
    Problem problem = PROBLEM_NULL;
    Session *session;
    int r = session_options_settle(&options, &open->options, front->options, &problem);

    snprintf(name, sizeof(name), "%.*s", (int)open->session.size, open->session.data);
    if (r == 0)
        r = session_start(&session, front->sessions, &holder, from->template, &options, &problem);
    if (r == 0)
        session_wait_open(session, request);
    else if (r == -EAGAIN)
        from_template_wait(front, request, MSG_OPEN, body, from, &options, false);
    else
        request_fail(request, &problem);
    session_options_deinit(&options);
}

/* Opens a new session. The request may have waited, and the client that is to restore the session may have
 * gone meanwhile: then it is forgotten. */
static void open_new(Front *front, Request *request, MsgOpen *open, const msgpack_object_map *body)
{
    FromTemplate from;

    if (open->restoring && !listener_has(request->listener, request->peer)) {
        request_forget(request);
        return;
    }
    if (from_template_find(&from, front, request, &open->options))
        begin_new(front, request, open, &from, body);
    from_template_deinit(&from);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body);

/* An open whose name is held by a session that is closing, or being restored: asked again when it is not. */
typedef struct Again {
    SessionWaiter waiter;
    Front *front;
    Request *request;
    Buf message;
} Again;

static void on_settled(SessionWaiter *waiter)
{
    Again *again = container_of(waiter, Again, waiter);
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;

    if (again->front->closing)
        problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down");
    else
        message_decode(&message, buf_head(&again->message), again->message.size, &problem);
    if (problem.code == ERR_NONE)
        handle(again->front, again->request, &message.body);
    else
        request_fail(again->request, &problem);
    buf_deinit(&again->message);
    free(again);
}

static void open_later(Front *front, Request *request, const msgpack_object_map *body, Session *unsettled)
{
    Again *again = calloc(1, sizeof(*again));

    if (!again) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    *again = (Again){.waiter.on_settled = on_settled, .front = front, .request = request};
    /* A message that is not whole is refused when it is read. */
    envelope_wrap(&again->message, MSG_OPEN, 0, body);
    session_wait_settled(unsettled, &again->waiter);
}

/* Branches are made by `branch` alone, and attached to here. */
static void open_branch(Front *front, Request *request, Text path, const MsgOptions *given)
{
    Session *session = sessions_find(front->sessions, request->user, path);

    if (session)
        attach(front, session, request, given);
    else if (!op_refuse_ended(front, request, path))
        request_fail_text(request, ERR_NO_SUCH_SESSION, "no branch '%.*s' is open; open one with `branch`",
                          (int)path.size, path.data);
}

static void open_session(Front *front, Request *request, MsgOpen *open, const msgpack_object_map *body)
{
    Session *session = sessions_holder(front->sessions, request->user, open->session);

    if (!session)
        open_new(front, request, open, body);
    else if (session_is_unsettled(session))
        open_later(front, request, body, session);
    else if (open->restoring)
        request_fail_text(request, ERR_SESSION_EXISTS,
                          "the session '%s' is open; close it first, or restore under another name",
                          session->name);
    else
        attach(front, session, request, &open->options);
}

static void attach_only(Front *front, Request *request, const MsgOpen *open, const msgpack_object_map *body)
{
    Session *session = op_session(front, request, open->session, (Text){0});

    if (session && session_is_unsettled(session))
        open_later(front, request, body, session);
    else if (session)
        attach(front, session, request, &open->options);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    char *data _cleanup_(freep) = NULL;
    MsgOpen open;

    if (!op_decode(request, &open, MsgOpen, body) || !op_find_data(front, request, &open.options, &data))
        return;
    if (open.attach)
        attach_only(front, request, &open, body);
    else if (name_valid(open.session))
        open_session(front, request, &open, body);
    else if (session_path_valid(open.session) && !open.restoring)
        open_branch(front, request, open.session, &open.options);
    else
        request_fail_text(
            request, ERR_BAD_REQUEST,
            "a session name has 1 to %u characters of A-Z a-z 0-9 . _ - and begins with a letter or digit",
            LIMIT_SESSION_NAME);
}

const Op op_open = {.kind = MSG_OPEN, .handle = handle};
