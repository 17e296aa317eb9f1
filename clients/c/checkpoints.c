/* Checkpoints of a session: taking, listing, going back to and dropping them. */
#include "clients/c/answer.h"

typedef struct CheckpointBody {
    Text id, name, session, parent;
    uint64_t execution_count, private_bytes;
    double created;
    bool automatic, files;
} CheckpointBody;

static const Field checkpoint_fields[] = {
    FIELD(FIELD_TEXT, CheckpointBody, id, true, 0),
    FIELD(FIELD_TEXT, CheckpointBody, name, false, 0),
    FIELD(FIELD_TEXT, CheckpointBody, session, true, 0),
    FIELD(FIELD_UINT, CheckpointBody, execution_count, true, 0),
    FIELD(FIELD_DOUBLE, CheckpointBody, created, true, 0),
    FIELD(FIELD_BOOL, CheckpointBody, automatic, true, 0),
    FIELD(FIELD_BOOL, CheckpointBody, files, true, 0),
    FIELD(FIELD_UINT, CheckpointBody, private_bytes, true, 0),
    FIELD(FIELD_TEXT, CheckpointBody, parent, false, 0),
};

static int read_checkpoint(LimpetCheckpoint *ret, const msgpack_object_map *map, Arena *arena,
                           Problem *problem)
{
    CheckpointBody body = {0};
    int r = reply_fields(&body, checkpoint_fields, ARRAY_SIZE(checkpoint_fields), map, problem);

    if (r < 0)
        return r;
    *ret = (LimpetCheckpoint){
        .id = arena_text(arena, body.id),
        .name = arena_text(arena, body.name),
        .session = arena_text(arena, body.session),
        .execution_count = body.execution_count,
        .created = body.created,
        .automatic = body.automatic,
        .files = body.files,
        .private_bytes = body.private_bytes,
        .parent = arena_text(arena, body.parent),
    };
    return 0;
}

typedef struct TakenBody {
    const msgpack_object_map *checkpoint;
    const msgpack_object_array *dropped;
} TakenBody;

static const Field taken_fields[] = {
    FIELD(FIELD_MAP, TakenBody, checkpoint, true, 0),
    FIELD(FIELD_ARRAY, TakenBody, dropped, true, 0),
};

static int read_taken(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetTaken *taken = value;
    TakenBody body = {0};
    int r = reply_fields(&body, taken_fields, ARRAY_SIZE(taken_fields), map, problem);

    if (!r)
        r = read_checkpoint(&taken->checkpoint, body.checkpoint, arena, problem);
    if (!r)
        r = texts_read(&taken->dropped, &taken->n_dropped, body.dropped, arena, problem);
    return r;
}

int limpet_checkpoint(LimpetClient *client, const char *session, const char *name, bool files,
                      LimpetTaken **ret)
{
    Call call = {0};
    void *taken;
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_CHECKPOINT, 3);
    write_pair(&w, "session", session);
    write_pair(&w, "name", name);
    write_key(&w, "files");
    write_bool(&w, files);
    r = answer_call(client, &call, &w, sizeof(LimpetTaken), read_taken, &taken);
    if (!r)
        *ret = taken;
    return client_result(client, r);
}

static int read_checkpoints(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    struct {
        const msgpack_object_array *checkpoints;
    } body = {0};
    const Field field = {.name = "checkpoints", .type = FIELD_ARRAY, .need = FIELD_REQUIRED};
    LimpetCheckpoints *list = value;
    LimpetCheckpoint *checkpoints;
    int r = reply_fields(&body, &field, 1, map, problem);

    if (r < 0)
        return r;
    checkpoints = arena_new(arena, body.checkpoints->size, sizeof(*checkpoints));
    for (uint32_t i = 0; checkpoints && i < body.checkpoints->size && !r; i++) {
        const msgpack_object *object = &body.checkpoints->ptr[i];

        if (object->type == MSGPACK_OBJECT_MAP)
            r = read_checkpoint(&checkpoints[i], &object->via.map, arena, problem);
        else
            r = problem_set(problem, ERR_PROTOCOL_MISMATCH,
                            "the controller answered with a checkpoint that is no map");
    }
    *list = (LimpetCheckpoints){checkpoints, body.checkpoints->size};
    return r;
}

int limpet_checkpoints(LimpetClient *client, const char *session, LimpetCheckpoints **ret)
{
    Call call = {.repeatable = true};
    void *checkpoints;
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_CHECKPOINTS, 1);
    write_pair(&w, "session", session);
    r = answer_call(client, &call, &w, sizeof(LimpetCheckpoints), read_checkpoints, &checkpoints);
    if (!r)
        *ret = checkpoints;
    return client_result(client, r);
}

typedef struct RollbackBody {
    Text checkpoint, files;
    uint64_t execution_count, epoch;
    const msgpack_object_array *not_restored;
} RollbackBody;

static const Field rollback_fields[] = {
    FIELD(FIELD_TEXT, RollbackBody, checkpoint, true, 0),
    FIELD(FIELD_UINT, RollbackBody, execution_count, true, 0),
    FIELD(FIELD_UINT, RollbackBody, epoch, true, 0),
    FIELD(FIELD_TEXT, RollbackBody, files, true, 0),
    FIELD(FIELD_ARRAY, RollbackBody, not_restored, true, 0),
};

static int read_rollback(void *value, const msgpack_object_map *map, Arena *arena, Problem *problem)
{
    LimpetRollback *rollback = value;
    RollbackBody body = {0};
    int r = reply_fields(&body, rollback_fields, ARRAY_SIZE(rollback_fields), map, problem);

    if (r < 0)
        return r;
    rollback->checkpoint = arena_text(arena, body.checkpoint);
    rollback->execution_count = body.execution_count;
    rollback->epoch = body.epoch;
    rollback->files_restored = text_equal(body.files, "restored");
    return texts_read(&rollback->not_restored, &rollback->n_not_restored, body.not_restored, arena, problem);
}

int limpet_rollback(LimpetClient *client, const char *session, const char *checkpoint, LimpetRollback **ret)
{
    Call call = {0};
    void *rollback;
    Writer w;
    int r;

    client_begin(client, &call, &w, MSG_ROLLBACK, 2);
    write_pair(&w, "session", session);
    write_pair(&w, "checkpoint", checkpoint);
    r = answer_call(client, &call, &w, sizeof(LimpetRollback), read_rollback, &rollback);
    if (!r)
        *ret = rollback;
    return client_result(client, r);
}

int limpet_drop(LimpetClient *client, const char *session, const char *checkpoint)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    Call call = {0};
    Writer w;

    client_begin(client, &call, &w, MSG_DROP, 2);
    write_pair(&w, "session", session);
    write_pair(&w, "checkpoint", checkpoint);
    return client_result(client, client_call(client, &call, &w, &reply));
}

void limpet_taken_free(LimpetTaken *taken)
{
    answer_free(taken);
}

void limpet_checkpoints_free(LimpetCheckpoints *checkpoints)
{
    answer_free(checkpoints);
}

void limpet_rollback_free(LimpetRollback *rollback)
{
    answer_free(rollback);
}

char *limpet_taken_json(const LimpetTaken *taken)
{
    return answer_json(taken);
}

char *limpet_checkpoints_json(const LimpetCheckpoints *checkpoints)
{
    return answer_json(checkpoints);
}

char *limpet_rollback_json(const LimpetRollback *rollback)
{
    return answer_json(rollback);
}
