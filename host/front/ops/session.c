/* Sessions: open, close, sleep, sessions, set_network. */
#include <errno.h>

#include "host/front/from_template.h"
#include "host/front/ops.h"
#include "host/link/envelope.h"
#include "proto/base/clock.h"

/* ---- open ---- */

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

/* A session that is to be opened. */
typedef struct OpenRequest {
    MsgOpen said;
    const RequestDirectory *data;
} OpenRequest;

static void begin_new(Front *front, Request *request, const OpenRequest *opened, const FromTemplate *from,
                      const msgpack_object_map *body)
{
    char name[LIMIT_SESSION_NAME + 1];
    const MsgOpen *open = &opened->said;
    const SandboxAssignment assignment = {
        .user = request->user,
        .name = name,
        .restorer = open->restoring ? request->peer : 0,
        .data = opened->data ? &opened->data->fd : NULL,
    };
    SessionOptions options = {0};
    Problem problem = PROBLEM_NULL;
    Session *session;
    int r = session_options_settle(&options, &open->options, front->options, &problem);

    snprintf(name, sizeof(name), "%.*s", (int)open->session.size, open->session.data);
    if (r == 0)
        r = session_start(&session, front->sessions, &assignment, from->template, &options, &problem);
    if (r == 0)
        session_wait_open(session, request);
    else if (r == -EAGAIN)
        from_template_wait(front, request, body, from, &options, false);
    else
        request_fail(request, &problem);
    session_options_deinit(&options);
}

/* Opens a new session. The request may have waited, and the client that is to restore the session may have
 * gone meanwhile: then it is forgotten. */
static void open_new(Front *front, Request *request, OpenRequest *open, const msgpack_object_map *body)
{
    FromTemplate from;

    if (open->said.restoring && !listener_has(request->listener, request->peer)) {
        request_forget(request);
        return;
    }
    if (from_template_find(&from, front, request, &open->said.options))
        begin_new(front, request, open, &from, body);
    from_template_deinit(&from);
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

static void open_session(Front *front, Request *request, OpenRequest *opened, const msgpack_object_map *body)
{
    const MsgOpen *open = &opened->said;
    Session *session = sessions_holder(front->sessions, request->user, open->session);

    if (!session)
        open_new(front, request, opened, body);
    else if (session_is_unsettled(session))
        front_park(request, &session->waiters, body);
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
        front_park(request, &session->waiters, body);
    else if (session)
        attach(front, session, request, &open->options);
}

static void handle_open(Front *front, Request *request, const msgpack_object_map *body)
{
    OpenRequest open;
    MsgOpen *said = &open.said;

    if (!op_decode(request, said, MsgOpen, body) ||
        !op_find_data_of(front, request, body, &said->options, &open.data))
        return;
    if (said->attach)
        attach_only(front, request, said, body);
    else if (name_valid(said->session))
        open_session(front, request, &open, body);
    else if (session_path_valid(said->session) && !said->restoring)
        open_branch(front, request, said->session, &said->options);
    else
        request_fail_text(
            request, ERR_BAD_REQUEST,
            "a session name has 1 to %u characters of A-Z a-z 0-9 . _ - and begins with a letter or digit",
            LIMIT_SESSION_NAME);
}

const Op op_open = {.kind = MSG_OPEN, .handle = handle_open};

/* ---- close ---- */

static void handle_close(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);

    if (session)
        session_close(session, request, "a client closed it");
}

const Op op_close = {.kind = MSG_CLOSE, .lets_sleep = true, .handle = handle_close};

/* ---- sessions ---- */

static void write_session(Writer *w, const Session *session)
{
    const Sandbox *sandbox = session->sandbox;
    MsgSession said = {
        .session = text_of(session->name),
        .user = session->user,
        .engine = text_of(sandboxes_engine(sandbox->all)),
        .container = text_of(sandbox->container_name),
        .status = text_of(session_status(session)),
        .created = session->created,
        .idle = session_is_busy(session) ? 0 : (double)(clock_now() - session->used) / 1e9,
        .execution_count = session->execution_count,
        .epoch = session->epoch,
        .saved = session_is_asleep(session),
    };

    if (session->language[0])
        said.language = text_of(session->language);
    if (said.saved) {
        said.container = (Text){0};
        said.memory = 0;
    } else if (sandbox_memory(sandbox, &said.memory) < 0)
        said.memory = NO_UINT;
    body_write(w, MsgSession, &said);
}

typedef struct Shown {
    const Sessions *sessions;
    uid_t user;
    bool all; /* sessions of every user */
} Shown;

static bool is_shown(const Shown *shown, const Session *session)
{
    return !session->hidden && (shown->all || session->user == shown->user);
}

static size_t count_shown(const Shown *shown)
{
    Session *session, *next;
    size_t n = 0;

    HASH_ITER (by_name, shown->sessions->by_name, session, next)
        n += is_shown(shown, session);
    return n;
}

static void write_sessions(Writer *w, const void *source)
{
    const Shown *shown = source;
    Session *session, *next;

    write_array(w, count_shown(shown));
    HASH_ITER (by_name, shown->sessions->by_name, session, next)
        if (is_shown(shown, session))
            write_session(w, session);
}

static void answer_sessions(const Front *front, Request *request, const Shown *shown)
{
    const MsgSessions reply = {
        .controller =
            {
                .pid = (uint64_t)front->paths->pid,
                .version = text_of(LIMPET_VERSION),
                .socket = text_of(front->paths->socket),
                .engine = text_of(sandboxes_engine(front->sandboxes)),
                .spares = pool_ready(front->pool),
                .misfits = pool_misfits(front->pool),
            },
        .sessions = {.write = write_sessions, .source = shown},
    };

    request_answer(request, MsgSessions, &reply);
}

static void handle_sessions(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgList asked;

    if (!op_decode(request, &asked, MsgList, body))
        return;
    if (asked.all && request->user != front->paths->user)
        request_fail_text(request, ERR_DENIED, "only root may list the sessions of other users");
    else
        answer_sessions(front, request, &(Shown){front->sessions, request->user, asked.all});
}

const Op op_sessions = {.kind = MSG_SESSIONS, .handle = handle_sessions};

/* ---- set_network ---- */

static void answer_network(Request *request, const SessionOptions *options)
{
    const MsgOptions told = session_options_to_wire_public(options);
    const MsgSetNetworkReply reply = {.allow = told.allow, .bindings = told.bindings};

    request_answer(request, MsgSetNetworkReply, &reply);
}

/* Sets the network of a session's container, which its branches and contexts share. */
static void handle_set_network(Front *front, Request *request, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    Session *session;
    MsgSetNetwork said;

    session = op_decode_session(front, request, &said, MsgSetNetwork, body);
    if (!session)
        return;
    if ((said.allow.array || said.bindings.map) &&
        sandbox_set_network(session->sandbox, &said, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    answer_network(request, &session->sandbox->options);
}

const Op op_set_network = {.kind = MSG_SET_NETWORK, .handle = handle_set_network};

/* ---- sleep ---- */

static void handle_sleep(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);

    if (session && session->branch != 0)
        request_fail_text(request, ERR_BAD_REQUEST, "'%s' shares its container: put '%s' to sleep",
                          session->name, session->sandbox->root->name);
    else if (session)
        session_sleep(session, request);
}

const Op op_sleep = {.kind = MSG_SLEEP, .lets_sleep = true, .handle = handle_sleep};
