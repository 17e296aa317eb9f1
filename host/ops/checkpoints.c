#include "host/ops.h"
#include "host/sandbox_files.h"
#include "host/session.h"

typedef struct Reply {
    const msgpack_object_array *checkpoints;
} Reply;

static const Field fields[] = {FIELD(FIELD_ARRAY, Reply, checkpoints, true, 0)};

static int write_reply(Buf *ret, const Sandbox *sandbox, const msgpack_object_array *list, Problem *problem)
{
    Writer w;
    int r = 0;

    writer_init(&w, ret);
    write_map(&w, 1);
    write_key(&w, "checkpoints");
    write_array(&w, list->size);
    for (uint32_t i = 0; r == 0 && i < list->size; i++) {
        Checkpoint checkpoint;
        r = checkpoint_decode(&checkpoint, &list->ptr[i], problem);
        if (r == 0)
            sandbox_write_checkpoint(&w, sandbox, &checkpoint);
    }
    writer_finish(&w);
    return r;
}

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Sandbox *sandbox = order->turn.session->sandbox;
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Reply said = {0};
    int r = fields_decode(&said, fields, ARRAY_SIZE(fields), reply, problem);

    if (r < 0)
        return r;
    if (said.checkpoints->size > LIMIT_CHECKPOINTS)
        return problem_set(problem, ERR_TOO_LARGE, "more than %u checkpoints", LIMIT_CHECKPOINTS);
    sandbox_prune_files(sandbox, said.checkpoints);
    r = write_reply(&body, sandbox, said.checkpoints, problem);
    if (r == 0)
        order_reply(order, &body);
    return r;
}

static const OrderOps checkpoints_ops = {.kind = MSG_CHECKPOINTS, .answer = answer};

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(controller, request, body);
    Order *order = session ? order_new(sizeof(*order), &checkpoints_ops, session, request) : NULL;
    Writer w;

    if (!order)
        return;
    writer_init(&w, &order->body);
    write_map(&w, 0);
    writer_finish(&w);
    session_order(session, order);
}

const Op op_checkpoints = {.kind = MSG_CHECKPOINTS, .handle = handle};
