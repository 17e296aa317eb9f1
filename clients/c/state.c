/* Variables, checkpoints and branches. */
#include "clients/c/client.h"
#include "clients/c/result.h"

/* ---- variables ---- */

static void read_shape(LimpetVariable *variable, const Value *shape, Arena *arena)
{
    uint32_t n = value_count(shape);
    uint64_t *numbers = arena_new(arena, n, sizeof(*numbers));

    for (uint32_t i = 0; numbers && i < n; i++)
        numbers[i] = value_uint(shape, i);
    variable->shape = numbers;
    variable->n_shape = n;
}

static void read_variable(LimpetVariable *ret, const MsgVariable *said, Arena *arena)
{
    *ret = (LimpetVariable){
        .name = arena_text(arena, said->name),
        .type = arena_text(arena, said->type),
        .dtype = arena_text(arena, said->dtype),
        .has_bytes = said->bytes != NO_UINT,
        .bytes = said->bytes != NO_UINT ? said->bytes : 0,
        .repr = arena_text(arena, said->repr),
    };
    if (said->shape.array)
        read_shape(ret, &said->shape, arena);
}

static void read_variables(const LimpetVariable **ret, size_t *ret_n, const Value *variables, Arena *arena)
{
    uint32_t n = value_count(variables);
    LimpetVariable *read = arena_new(arena, n, sizeof(*read));

    for (uint32_t i = 0; read && i < n; i++) {
        MsgVariable row;

        value_row(&row, MsgVariable, variables, i);
        read_variable(&read[i], &row, arena);
    }
    *ret = read;
    *ret_n = n;
}

const LimpetChanged *changed_read(const MsgChanged *said, Arena *arena)
{
    LimpetChanged *changed = arena_new(arena, 1, sizeof(*changed));

    if (!changed)
        return NULL;
    changed->more = said->more;
    read_variables(&changed->added, &changed->n_added, &said->added, arena);
    read_variables(&changed->changed, &changed->n_changed, &said->changed, arena);
    texts_read(&changed->deleted, &changed->n_deleted, &said->deleted, arena);
    return changed;
}

static int read_namespace(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetNamespace *names = value;
    MsgNamespace body;
    int r = reply_decode(&body, MsgNamespace, map, problem);

    if (r < 0)
        return r;
    names->more = body.more;
    read_variables(&names->variables, &names->n_variables, &body.names, arena);
    return 0;
}

int limpet_namespace(LimpetClient *client, const char *session, LimpetNamespace **ret)
{
    ClientCall call = {.repeatable = true};

    client_begin(client, &call, MSG_NAMESPACE, MsgTarget, &(MsgTarget){.session = text_of(session)});
    return answer_call(client, &call, sizeof(LimpetNamespace), read_namespace, ret);
}

/* ---- checkpoints ---- */

static void read_checkpoint(LimpetCheckpoint *ret, const MsgCheckpoint *said, Arena *arena)
{
    *ret = (LimpetCheckpoint){
        .id = arena_text(arena, said->id),
        .name = arena_text(arena, said->name),
        .session = arena_text(arena, said->session),
        .execution_count = said->execution_count,
        .created = said->created,
        .automatic = said->automatic,
        .files = said->files,
        .private_bytes = said->private_bytes,
        .parent = arena_text(arena, said->parent),
    };
}

static int read_taken(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetTaken *taken = value;
    MsgTaken body;
    int r = reply_decode(&body, MsgTaken, map, problem);

    if (r < 0)
        return r;
    read_checkpoint(&taken->checkpoint, &body.checkpoint, arena);
    texts_read(&taken->dropped, &taken->n_dropped, &body.dropped, arena);
    return 0;
}

int limpet_checkpoint(LimpetClient *client, const char *session, const char *name, bool files,
                      LimpetTaken **ret)
{
    const MsgTake take_one = {.session = text_of(session), .name = text_of(name), .files = files};
    ClientCall call = {0};

    client_begin(client, &call, MSG_CHECKPOINT, MsgTake, &take_one);
    return answer_call(client, &call, sizeof(LimpetTaken), read_taken, ret);
}

static int read_checkpoints(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetCheckpoint *checkpoints;
    MsgCheckpoints body;
    int r = reply_decode(&body, MsgCheckpoints, map, problem);

    if (r < 0)
        return r;
    checkpoints = arena_new(arena, value_count(&body.checkpoints), sizeof(*checkpoints));
    for (uint32_t i = 0; checkpoints && i < value_count(&body.checkpoints); i++) {
        MsgCheckpoint row;

        value_row(&row, MsgCheckpoint, &body.checkpoints, i);
        read_checkpoint(&checkpoints[i], &row, arena);
    }
    *(LimpetCheckpoints *)value = (LimpetCheckpoints){checkpoints, value_count(&body.checkpoints)};
    return 0;
}

int limpet_checkpoints(LimpetClient *client, const char *session, LimpetCheckpoints **ret)
{
    ClientCall call = {.repeatable = true};

    client_begin(client, &call, MSG_CHECKPOINTS, MsgTarget, &(MsgTarget){.session = text_of(session)});
    return answer_call(client, &call, sizeof(LimpetCheckpoints), read_checkpoints, ret);
}

static int read_rollback(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetRollback *rollback = value;
    MsgRollbackReply body;
    int r = reply_decode(&body, MsgRollbackReply, map, problem);

    if (r < 0)
        return r;
    rollback->checkpoint = arena_text(arena, body.checkpoint);
    rollback->execution_count = body.execution_count;
    rollback->epoch = body.epoch;
    rollback->files_restored = text_equal(body.files, "restored");
    texts_read(&rollback->not_restored, &rollback->n_not_restored, &body.not_restored, arena);
    return 0;
}

/* A request with a session and a checkpoint of it. */
static void begin_target(LimpetClient *client, ClientCall *call, MessageKind kind, const char *session,
                         const char *checkpoint)
{
    const MsgCheckpointTarget target = {.session = text_of(session), .checkpoint = text_of(checkpoint)};

    client_begin(client, call, kind, MsgCheckpointTarget, &target);
}

int limpet_rollback(LimpetClient *client, const char *session, const char *checkpoint, LimpetRollback **ret)
{
    ClientCall call = {0};

    begin_target(client, &call, MSG_ROLLBACK, session, checkpoint);
    return answer_call(client, &call, sizeof(LimpetRollback), read_rollback, ret);
}

int limpet_drop(LimpetClient *client, const char *session, const char *checkpoint)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    ClientCall call = {0};

    begin_target(client, &call, MSG_DROP, session, checkpoint);
    return client_result(client, client_call(client, &call, &reply));
}
