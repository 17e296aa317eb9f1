/* rollback */
#include <inttypes.h>

#include "guest/supervisor/order_internal.h"

static void refuse_restored(Orders *orders)
{
    const Order *order = &orders->order;
    const Fate *fate = &order->branch->untold;
    const char *why = order->trouble[0] ? order->trouble : "no copy of it could be made";

    if (fate->state == STATE_ROLLED_BACK)
        order_refuse(
            orders, ERR_CHECKPOINT_FAILED,
            "the checkpoint could not be restored: %s; the variables are as they were after call %" PRIu64,
            why, fate->execution_count);
    else
        order_refuse(orders, ERR_CHECKPOINT_FAILED,
                     "the checkpoint could not be restored: %s; the variables are lost (%s)", why,
                     fate->reason);
}

/* The branch's variables are where it went: there, or somewhere else because that could not be had. */
static void rollback_restored(Orders *orders)
{
    const Order *order = &orders->order;
    Branch *branch = order->branch;
    CheckpointId id;
    const MsgRolledBackOrder reply = {
        .checkpoint = checkpoint_id(id, order->number),
        .execution_count = branch->untold.execution_count,
        .epoch = branch->epoch,
        .not_restored = notes_say(&branch->untold.not_restored),
    };

    if (branch->untold.state != STATE_ROLLED_BACK || branch->untold.checkpoint != order->number) {
        refuse_restored(orders);
        return;
    }
    order_answer(orders, order->id, MsgRolledBackOrder, &reply);
    fate_deinit(&branch->untold);
    order_done(orders);
}

static void rollback_begin(Orders *orders)
{
    Order *order = &orders->order;

    if (!order->checkpoint) {
        order_refuse(orders, ERR_NO_SUCH_CHECKPOINT, "the checkpoint is gone: %s", order->trouble);
        return;
    }
    order->number = order->checkpoint->number;
    branch_go_back(order->branch, order->checkpoint);
    order_await(orders, AWAITS_BRANCH, rollback_restored);
}

int order_rollback(Orders *orders, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    Branch *branch = NULL;
    MsgRollbackOrder body;
    int r = body_decode(&body, MsgRollbackOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, body.branch, problem);
    if (r == 0)
        r = order_find_checkpoint(&checkpoint, orders, body.checkpoint, problem);
    if (r == 0)
        r = order_begin(orders, message, branch, problem);
    if (r < 0)
        return r;
    orders->order.checkpoint = checkpoint;
    order_await(orders, AWAITS_BRANCH, rollback_begin);
    return 0;
}
