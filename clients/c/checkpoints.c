/* Checkpoints of a session: taking, listing, going back to and dropping them. */
#include "clients/c/answer.h"

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
    void *taken;
    int r;

    client_begin(client, &call, MSG_CHECKPOINT, MsgTake, &take_one);
    r = answer_call(client, &call, sizeof(LimpetTaken), read_taken, &taken);
    if (!r)
        *ret = taken;
    return client_result(client, r);
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
    void *checkpoints;
    int r;

    client_begin(client, &call, MSG_CHECKPOINTS, MsgTarget, &(MsgTarget){.session = text_of(session)});
    r = answer_call(client, &call, sizeof(LimpetCheckpoints), read_checkpoints, &checkpoints);
    if (!r)
        *ret = checkpoints;
    return client_result(client, r);
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
    void *rollback;
    int r;

    begin_target(client, &call, MSG_ROLLBACK, session, checkpoint);
    r = answer_call(client, &call, sizeof(LimpetRollback), read_rollback, &rollback);
    if (!r)
        *ret = rollback;
    return client_result(client, r);
}

int limpet_drop(LimpetClient *client, const char *session, const char *checkpoint)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    ClientCall call = {0};

    begin_target(client, &call, MSG_DROP, session, checkpoint);
    return client_result(client, client_call(client, &call, &reply));
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
