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
    uint64_t bytes;
    bool known = sandbox->container_started && engine->memory(sandbox->container, &bytes, NULL) == 0;

    write_map(w, 9);
    write_key(w, "session");
    write_text(w, session->name);
    write_key(w, "engine");
    write_text(w, engine->name);
    write_key(w, "container");
    write_text(w, sandbox->container_name);
    write_key(w, "status");
    write_text(w, session_status(session));
    write_key(w, "created");
    write_double(w, session->created);
    write_key(w, "idle");
    write_double(w, session_busy(session) ? 0 : (double)(clock_now() - session->used) / 1e9);
    write_key(w, "execution_count");
    write_uint(w, session->execution_count);
    write_key(w, "epoch");
    write_uint(w, session->epoch);
    write_key(w, "memory");
    if (known)
        write_uint(w, bytes);
    else
        write_nil(w);
}

static void write_controller(Writer *w, const Controller *controller)
{
    write_map(w, 5);
    write_key(w, "pid");
    write_uint(w, (uint64_t)getpid());
    write_key(w, "version");
    write_text(w, LIMPET_VERSION);
    write_key(w, "socket");
    write_text(w, controller->paths->socket);
    write_key(w, "engine");
    write_text(w, controller->engine->ops->name);
    write_key(w, "spares");
    write_uint(w, pool_ready(controller->pool));
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

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Buf reply _cleanup_(buf_deinit) = BUF_NULL;
    Session *session, *next;
    Writer w;

    if (!op_decode(request, NULL, NULL, 0, body))
        return;
    writer_init(&w, &reply);
    write_map(&w, 2);
    write_key(&w, "controller");
    write_controller(&w, controller);
    write_key(&w, "sessions");
    write_array(&w, count_shown(controller));
    HASH_ITER (by_name, controller->sessions, session, next)
        if (is_shown(session))
            write_session(&w, session);
    writer_finish(&w);
    request_reply(request, &reply);
}

const Op op_sessions = {.kind = MSG_SESSIONS, .handle = handle};
