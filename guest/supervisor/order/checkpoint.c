/* checkpoint, checkpoints, drop, rollback */
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/order/internal.h"

/* checkpoint */

static void checkpoint_taken(Orders *orders)
{
    Checkpoints *set = &orders->branches->checkpoints;
    MsgTakenOrder taken = {.dropped = checkpoints_say_evicted(set)};
    CheckpointRow row;

    checkpoint_say(&row, orders->order.checkpoint);
    taken.checkpoint = row.said;
    if (order_answer(orders, orders->order.id, MsgTakenOrder, &taken) == 0)
        checkpoints_forget_evicted(set);
    order_done(orders);
}

/* Whether a name could be mistaken for another checkpoint's id. */
static bool is_id(Text text)
{
    size_t digits = 0;

    while (1 + digits < text.size && text.data[1 + digits] >= '0' && text.data[1 + digits] <= '9')
        digits++;
    return text.data[0] == 'c' && digits > 0 && 1 + digits == text.size;
}

static int check_name(const Orders *orders, Text name, Problem *problem)
{
    if (!name_valid(name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "`name` is 1 to %u of A-Z a-z 0-9 . _ -, beginning with a letter or digit",
                           LIMIT_SESSION_NAME);
    if (is_id(name))
        return problem_set(problem, ERR_BAD_REQUEST, "`name` looks like the id of a checkpoint");
    if (checkpoints_find(&orders->branches->checkpoints, name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a checkpoint named '%.*s' is kept already; drop it first", (int)name.size,
                           name.data);
    return 0;
}

int order_checkpoint(Orders *orders, const Message *message, Problem *problem)
{
    MsgTakeOrder body;
    Branch *branch = NULL;
    int r = body_decode(&body, MsgTakeOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, body.branch, problem);
    if (r == 0 && body.name.data)
        r = check_name(orders, body.name, problem);
    if (r == 0)
        r = order_begin(orders, message, branch, problem);
    if (r < 0)
        return r;
    if (body.name.data)
        memcpy(orders->order.name, body.name.data, body.name.size);
    order_take_checkpoint(orders, CHECKPOINT_BY_HAND, checkpoint_taken);
    return 0;
}

/* checkpoints */

int order_checkpoints(Orders *orders, const Message *message, Problem *problem)
{
    const MsgGuestCheckpoints reply = {.checkpoints = checkpoints_say(&orders->branches->checkpoints)};
    MsgNothing nothing;
    int r = body_decode(&nothing, MsgNothing, &message->body, problem);

    if (r < 0)
        return r;
    checkpoints_measure(&orders->branches->checkpoints);
    order_answer(orders, message->id, MsgGuestCheckpoints, &reply);
    return 0;
}

/* drop */

int order_drop(Orders *orders, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    MsgDropOrder body;
    int r = body_decode(&body, MsgDropOrder, &message->body, problem);

    if (r == 0)
        r = order_find_checkpoint(&checkpoint, orders, body.checkpoint, problem);
    if (r == 0)
        r = order_check_idle(orders, problem);
    if (r < 0)
        return r;
    checkpoint_drop(checkpoint, NULL);
    order_answer(orders, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* rollback */

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

/* The branch is where it went: at the checkpoint, or at another where that could not be had. */
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
