#include "host/front/ops.h"
#include "host/session/checkpoint_files.h"

/* Checkpoints of a sandbox as its supervisor lists them. */
typedef struct CheckpointList {
    const Session *trunk;
    CheckpointsKept kept;
    const Value *said;
} CheckpointList;

static void write_rows(Writer *w, const void *source)
{
    const CheckpointList *listed = source;
    char name[BRANCH_NAME_SIZE];
    MsgGuestCheckpoint said;
    MsgCheckpoint checkpoint;

    write_array(w, value_count(listed->said));
    for (uint32_t i = 0; i < value_count(listed->said); i++) {
        value_row(&said, MsgGuestCheckpoint, listed->said, i);
        checkpoint = checkpoint_say(listed->trunk, &said, checkpoints_kept_has(&listed->kept, said.id), name);
        body_write(w, MsgCheckpoint, &checkpoint);
    }
}

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Sandbox *sandbox = order->turn.sandbox;
    MsgGuestCheckpoints said;
    CheckpointList listed = {.trunk = sandbox->trunk, .said = &said.checkpoints};
    MsgCheckpoints body = {.checkpoints = {.write = write_rows, .source = &listed}};
    int r = body_decode(&said, MsgGuestCheckpoints, reply, problem);

    if (r < 0)
        return r;
    checkpoint_files_prune(sandbox, &said.checkpoints, &listed.kept);
    order_answer(order, MsgCheckpoints, &body);
    free(listed.kept.ids);
    return 0;
}

static const OrderOps checkpoints_ops = {.kind = MSG_CHECKPOINTS, .answer = answer};

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);
    Order *order = session ? order_new(sizeof(*order), &checkpoints_ops, session, request) : NULL;

    if (!order)
        return;
    order_say(order, MsgNothing, &(MsgNothing){0});
    order_queue(order);
}

const Op op_checkpoints = {.kind = MSG_CHECKPOINTS, .handle = handle};
