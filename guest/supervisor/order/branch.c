/* branch, commit */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/order/internal.h"

/* branch: first a checkpoint of the origin, unless one is named; then the copy of it. */

/* The checkpoint that was taken for the new branch is one of its state, and becomes its automatic one. It is
 * dropped where checkpoints are off, and stays the origin's where no branch was made. */
static void branch_leave_checkpoint(Orders *orders, bool made)
{
    Order *order = &orders->order;
    Checkpoint *checkpoint = order->checkpoint;

    if (!order->implicit || !checkpoint)
        return;
    if (orders->branches->mode == CHECKPOINT_OFF) {
        order->checkpoint = NULL;
        checkpoint_drop(checkpoint, NULL);
    } else if (made) {
        checkpoint->branch = order->branch->number;
    }
}

static void branch_copied(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;
    bool made = branch->untold.state == STATE_ROLLED_BACK;
    MsgBranchMade reply = {.execution_count = branch->execution_count,
                           .epoch = branch->epoch,
                           .not_restored = notes_say(&branch->untold.not_restored)};
    CheckpointId id;

    branch_leave_checkpoint(orders, made);
    if (!made) {
        order_refuse(orders, ERR_CHECKPOINT_FAILED, "%s", branch->untold.reason);
        return;
    }
    order->made = NULL;
    if (order->checkpoint)
        reply.checkpoint = checkpoint_id(id, order->checkpoint->number);
    order_answer(orders, order->id, MsgBranchMade, &reply);
    fate_deinit(&branch->untold);
    order_done(orders);
}

static void branch_taken(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = branch_new_from(order->branch, order->number);

    if (!branch) {
        order_refuse(orders, ERR_INTERNAL, "%s", strerror(ENOMEM));
        return;
    }
    order->branch = order->made = branch;
    branch_go_back(branch, order->checkpoint);
    order_await(orders, AWAITS_BRANCH, branch_copied);
}

int order_branch(Orders *orders, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    Branch *from = NULL;
    MsgBranchOrder body;
    int r = body_decode(&body, MsgBranchOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&from, orders, body.from, problem);
    if (r == 0 && branches_find(orders->branches, body.branch))
        r = problem_set(problem, ERR_BRANCH_EXISTS, "branch %" PRIu64 " exists", body.branch);
    if (r == 0 && orders->branches->count > LIMIT_BRANCHES)
        r = problem_set(problem, ERR_TOO_LARGE, "a session may have %u branches; close one first",
                        LIMIT_BRANCHES);
    if (r == 0 && body.checkpoint.data)
        r = order_find_checkpoint(&checkpoint, orders, body.checkpoint, problem);
    if (r == 0)
        r = order_begin(orders, message, from, problem);
    if (r < 0)
        return r;
    orders->order.number = body.branch;
    orders->order.checkpoint = checkpoint;
    if (checkpoint)
        order_await(orders, AWAITS_CHECKPOINT, branch_taken);
    else
        order_take_checkpoint(orders, CHECKPOINT_AUTOMATIC, branch_taken);
    return 0;
}

/* commit: the one branch takes the other's place, with the interpreter it has. */

static void commit_ready(Orders *orders)
{
    Branch *branch = orders->order.branch;
    MsgCommitReply reply;

    branch_take_place(branch, orders->order.into);
    reply = (MsgCommitReply){.execution_count = branch->execution_count, .epoch = branch->epoch};
    order_answer(orders, orders->order.id, MsgCommitReply, &reply);
    order_done(orders);
}

int order_commit(Orders *orders, const Message *message, Problem *problem)
{
    Branch *into = NULL, *from = NULL;
    MsgCommitOrder body;
    int r = body_decode(&body, MsgCommitOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&into, orders, body.branch, problem);
    if (r == 0)
        r = order_find_branch(&from, orders, body.from, problem);
    if (r == 0 && (from == into || from->number == 0))
        r = problem_set(problem, ERR_BAD_REQUEST, "only a branch is committed, and to another one");
    if (r == 0)
        r = order_begin(orders, message, from, problem);
    if (r < 0)
        return r;
    orders->order.into = into;
    order_await(orders, AWAITS_INTERPRETER, commit_ready);
    return 0;
}
