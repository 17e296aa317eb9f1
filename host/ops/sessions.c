#include "host/adopt.h"
#include "host/engine/engine.h"
#include "host/ops.h"
#include "host/pool.h"
#include "host/session.h"
#include "proto/base/clock.h"

static void write_session(Writer *w, const Session *session)
{
    const EngineOps *engine = session->controller->engine->ops;
    const Sandbox *sandbox = session->sandbox;
    MsgSession said = {
        .session = text_of(session->name),
        .engine = text_of(engine->name),
        .container = text_of(sandbox->container_name),
        .status = text_of(session_status(session)),
        .created = session->created,
        .idle = session_busy(session) ? 0 : (double)(clock_now() - session->used) / 1e9,
        .execution_count = session->execution_count,
        .epoch = session->epoch,
    };

    if (!sandbox->container_started || engine->memory(sandbox->container, &said.memory, NULL) < 0)
        said.memory = NO_UINT;
    body_write(w, MsgSession, &said);
}

/* Not one that an earlier controller had opened to nobody yet, and which ends. */
static bool is_shown(const Session *session)
{
    const Adoption *adoption = session->sandbox->adoption;

    return !adoption || adoption->open;
}

static size_t count_shown(const Controller *controller)
{
    Session *session, *next;
    size_t n = 0;

    HASH_ITER (by_name, controller->sessions, session, next)
        n += is_shown(session);
    return n;
}

static void write_sessions(Writer *w, const void *source)
{
    const Controller *controller = source;
    Session *session, *next;

    write_array(w, count_shown(controller));
    HASH_ITER (by_name, controller->sessions, session, next)
        if (is_shown(session))
            write_session(w, session);
}

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    MsgNothing nothing;
    const MsgSessions reply = {
        .controller =
            {
                .pid = (uint64_t)getpid(),
                .version = text_of(LIMPET_VERSION),
                .socket = text_of(controller->paths->socket),
                .engine = text_of(controller->engine->ops->name),
                .spares = pool_ready(controller->pool),
            },
        .sessions = {.write = write_sessions, .source = controller},
    };

    if (op_decode(request, &nothing, MsgNothing, body))
        request_answer(request, MsgSessions, &reply);
}

const Op op_sessions = {.kind = MSG_SESSIONS, .handle = handle};
