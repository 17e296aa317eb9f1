/* The list of sessions. */
#include "clients/c/answer.h"

/* Status that people are told of a saved session. The wire says it beside `status`, for the sake of earlier
 * clients. */
static const char saved[] = "saved";

/* In the reply itself, which becomes the JSON. */
static void show_saved(const msgpack_object *row)
{
    const msgpack_object_map *map = &row->via.map;

    for (uint32_t i = 0; i < map->size; i++)
        if (map->ptr[i].key.type == MSGPACK_OBJECT_STR &&
            text_equal((Text){map->ptr[i].key.via.str.ptr, map->ptr[i].key.via.str.size}, "status"))
            map->ptr[i].val.via.str = (msgpack_object_str){.size = sizeof(saved) - 1, .ptr = saved};
}

static void read_session(LimpetSession *ret, const MsgSession *said, Arena *arena)
{
    *ret = (LimpetSession){
        .session = arena_text(arena, said->session),
        .user = said->user == NO_UINT ? -1 : (int64_t)said->user,
        .engine = arena_text(arena, said->engine),
        .container = arena_text(arena, said->container),
        .status = said->saved ? saved : arena_text(arena, said->status),
        .created = said->created,
        .idle = said->idle,
        .execution_count = said->execution_count,
        .epoch = said->epoch,
        .memory = uint_or(said->memory, 0),
    };
}

static int read_list(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetSession *sessions;
    MsgSessions body;
    int r = reply_decode(&body, MsgSessions, map, problem);

    if (r < 0)
        return r;
    sessions = arena_new(arena, value_count(&body.sessions), sizeof(*sessions));
    for (uint32_t i = 0; sessions && i < value_count(&body.sessions); i++) {
        MsgSession row;

        value_row(&row, MsgSession, &body.sessions, i);
        read_session(&sessions[i], &row, arena);
        if (row.saved)
            show_saved(&body.sessions.array->ptr[i]);
    }
    *(LimpetSessions *)value = (LimpetSessions){
        .pid = (int64_t)body.controller.pid,
        .version = arena_text(arena, body.controller.version),
        .socket = arena_text(arena, body.controller.socket),
        .engine = arena_text(arena, body.controller.engine),
        .spares = uint_or(body.controller.spares, 0),
        .sessions = sessions,
        .n_sessions = value_count(&body.sessions),
    };
    return 0;
}

static int list(LimpetClient *client, bool all, LimpetSessions **ret)
{
    ClientCall call = {.repeatable = true};
    void *sessions;
    int r;

    client_begin(client, &call, MSG_SESSIONS, MsgList, &(MsgList){.all = all});
    r = answer_call(client, &call, sizeof(LimpetSessions), read_list, &sessions);
    if (!r)
        *ret = sessions;
    return client_result(client, r);
}

int limpet_sessions(LimpetClient *client, LimpetSessions **ret)
{
    return list(client, false, ret);
}

int limpet_sessions_all(LimpetClient *client, LimpetSessions **ret)
{
    return list(client, true, ret);
}

void limpet_sessions_free(LimpetSessions *list)
{
    answer_free(list);
}

char *limpet_sessions_json(const LimpetSessions *list)
{
    return answer_json(list);
}
