/* The list of sessions. */
#include "clients/c/answer.h"

typedef struct SessionsReply {
    const msgpack_object_map *controller;
    const msgpack_object_array *sessions;
} SessionsReply;

static const Field list_fields[] = {
    FIELD(FIELD_MAP, SessionsReply, controller, true, 0),
    FIELD(FIELD_ARRAY, SessionsReply, sessions, true, 0),
};

typedef struct ControllerBody {
    int64_t pid;
    Text version, socket, engine;
    uint64_t spares;
} ControllerBody;

static const Field controller_fields[] = {
    FIELD(FIELD_INT, ControllerBody, pid, true, 0),      FIELD(FIELD_TEXT, ControllerBody, version, true, 0),
    FIELD(FIELD_TEXT, ControllerBody, socket, true, 0),  FIELD(FIELD_TEXT, ControllerBody, engine, true, 0),
    FIELD(FIELD_UINT, ControllerBody, spares, false, 0),
};

typedef struct SessionBody {
    Text session, engine, container, status;
    double created, idle;
    uint64_t execution_count, epoch, memory;
} SessionBody;

static const Field session_fields[] = {
    FIELD(FIELD_TEXT, SessionBody, session, true, 0),         FIELD(FIELD_TEXT, SessionBody, engine, true, 0),
    FIELD(FIELD_TEXT, SessionBody, container, false, 0),      FIELD(FIELD_TEXT, SessionBody, status, true, 0),
    FIELD(FIELD_DOUBLE, SessionBody, created, true, 0),       FIELD(FIELD_DOUBLE, SessionBody, idle, true, 0),
    FIELD(FIELD_UINT, SessionBody, execution_count, true, 0), FIELD(FIELD_UINT, SessionBody, epoch, true, 0),
    FIELD(FIELD_UINT, SessionBody, memory, false, 0),
};

static int read_session(LimpetSession *ret, const msgpack_object *object, Arena *arena, Problem *problem)
{
    SessionBody body = {0};
    int r;

    if (object->type != MSGPACK_OBJECT_MAP)
        return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                           "the controller answered with a session that is no map");
    r = reply_fields(&body, session_fields, ARRAY_SIZE(session_fields), &object->via.map, problem);
    if (r < 0)
        return r;
    *ret = (LimpetSession){
        .session = arena_text(arena, body.session),
        .engine = arena_text(arena, body.engine),
        .container = arena_text(arena, body.container),
        .status = arena_text(arena, body.status),
        .created = body.created,
        .idle = body.idle,
        .execution_count = body.execution_count,
        .epoch = body.epoch,
        .memory = body.memory,
    };
    return 0;
}

static int read_list(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    SessionsReply body = {0};
    ControllerBody controller = {0};
    LimpetSession *sessions;
    int r = reply_fields(&body, list_fields, ARRAY_SIZE(list_fields), map, problem);

    if (!r)
        r = reply_fields(&controller, controller_fields, ARRAY_SIZE(controller_fields), body.controller,
                         problem);
    if (r < 0)
        return r;
    sessions = arena_new(arena, body.sessions->size, sizeof(*sessions));
    for (uint32_t i = 0; sessions && i < body.sessions->size && !r; i++)
        r = read_session(&sessions[i], &body.sessions->ptr[i], arena, problem);
    *(LimpetSessions *)value = (LimpetSessions){
        .pid = controller.pid,
        .version = arena_text(arena, controller.version),
        .socket = arena_text(arena, controller.socket),
        .engine = arena_text(arena, controller.engine),
        .spares = controller.spares,
        .sessions = sessions,
        .n_sessions = body.sessions->size,
    };
    return r;
}

int limpet_sessions(LimpetClient *client, LimpetSessions **ret)
{
    Call call = {.repeatable = true};
    void *list;
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_SESSIONS, 0);
    r = answer_call(client, &call, &w, sizeof(LimpetSessions), read_list, &list);
    if (!r)
        *ret = list;
    return client_result(client, r);
}

void limpet_sessions_free(LimpetSessions *list)
{
    answer_free(list);
}

char *limpet_sessions_json(const LimpetSessions *list)
{
    return answer_json(list);
}
