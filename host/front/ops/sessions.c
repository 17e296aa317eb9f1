#include "host/front/ops.h"
#include "proto/base/clock.h"

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

static void answer(const Front *front, Request *request, const Shown *shown)
{
    const MsgSessions reply = {
        .controller =
            {
                .pid = (uint64_t)front->paths->pid,
                .version = text_of(LIMPET_VERSION),
                .socket = text_of(front->paths->socket),
                .engine = text_of(sandboxes_engine(front->sandboxes)),
                .spares = pool_ready(front->pool),
            },
        .sessions = {.write = write_sessions, .source = shown},
    };

    request_answer(request, MsgSessions, &reply);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgList asked;

    if (!op_decode(request, &asked, MsgList, body))
        return;
    if (asked.all && request->user != front->paths->user)
        request_fail_text(request, ERR_DENIED, "only root may list the sessions of other users");
    else
        answer(front, request, &(Shown){front->sessions, request->user, asked.all});
}

const Op op_sessions = {.kind = MSG_SESSIONS, .handle = handle};
