#include <string.h>

#include "host/front/ops.h"
#include "host/session/order.h"
#include "host/session/checkpoint_files.h"

typedef struct DropOrder {
    Order order;
    char checkpoint[LIMIT_SESSION_NAME + 1];
} DropOrder;

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    order_reply(order, NULL);
    return 0;
}

/* Also when the checkpoint was lost before: its files are nobody's then. */
static void over(Order *order, const Problem *problem)
{
    const DropOrder *drop = container_of(order, DropOrder, order);

    if (!problem || problem->code == ERR_NO_SUCH_CHECKPOINT)
        checkpoint_files_drop(order->turn.sandbox, (Text){drop->checkpoint, strlen(drop->checkpoint)});
}

static const OrderOps drop_ops = {.kind = MSG_DROP, .answer = answer, .over = over};

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    char checkpoint[LIMIT_SESSION_NAME + 1];
    Session *session = op_checkpoint_target(front, request, body, checkpoint);
    DropOrder *drop = session ? order_new(sizeof(*drop), &drop_ops, session, request) : NULL;

    if (!drop)
        return;
    strcpy(drop->checkpoint, checkpoint);
    order_say(&drop->order, MsgDropOrder, &(MsgDropOrder){.checkpoint = text_of(checkpoint)});
    order_queue(&drop->order);
}

const Op op_drop = {.kind = MSG_DROP, .handle = handle};
