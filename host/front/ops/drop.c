#include "host/front/ops.h"

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    order_reply(order, NULL);
    return 0;
}

/* Also when the checkpoint was lost before: its files are nobody's then. */
static void over(Order *order, const Problem *problem)
{
    if (!problem || problem->code == ERR_NO_SUCH_CHECKPOINT)
        op_checkpoint_gone(container_of(order, CheckpointOrder, order));
}

static const OrderOps drop_ops = {.kind = MSG_DROP, .answer = answer, .over = over};

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    CheckpointOrder *drop = op_checkpoint_order(front, request, body, sizeof(*drop), &drop_ops);

    if (!drop)
        return;
    order_say(&drop->order, MsgDropOrder, &(MsgDropOrder){.checkpoint = text_of(drop->checkpoint)});
    order_queue(&drop->order);
}

const Op op_drop = {.kind = MSG_DROP, .handle = handle};
