#include "host/front/ops.h"
#include "proto/base/clock.h"

static void write_session(Writer *w, const Session *session)
{
    const Sandbox *sandbox = session->sandbox;
    MsgSession said = {
        .session = text_of(session->name),
        .engine = text_of(sandboxes_engine(sandbox->all)),
        .container = text_of(sandbox->container_name),
        .status = text_of(session_status(session)),
        .created = session->created,
        .idle = session_is_busy(session) ? 0 : (double)(clock_now() - session->used) / 1e9,
        .execution_count = session->execution_count,
        .epoch = session->epoch,
    };

    if (sandbox_memory(sandbox, &said.memory) < 0)
        said.memory = NO_UINT;
    body_write(w, MsgSession, &said);
}

static size_t count_shown(const Sessions *sessions)
{
    Session *session, *next;
    size_t n = 0;

    HASH_ITER (by_name, sessions->by_name, session, next)
        n += !session->hidden;
    return n;
}

static void write_sessions(Writer *w, const void *source)
{
    const Sessions *sessions = source;
    Session *session, *next;

    write_array(w, count_shown(sessions));
    HASH_ITER (by_name, sessions->by_name, session, next)
        if (!session->hidden)
            write_session(w, session);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgNothing nothing;
    const MsgSessions reply = {
        .controller =
            {
                .pid = (uint64_t)getpid(),
                .version = text_of(LIMPET_VERSION),
                .socket = text_of(front->paths->socket),
                .engine = text_of(sandboxes_engine(front->sandboxes)),
                .spares = pool_ready(front->pool),
            },
        .sessions = {.write = write_sessions, .source = front->sessions},
    };

    if (op_decode(request, &nothing, MsgNothing, body))
        request_answer(request, MsgSessions, &reply);
}

const Op op_sessions = {.kind = MSG_SESSIONS, .handle = handle};
