/* checkpoint, checkpoints, drop, rollback */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/order/order.h"

/* ---- checkpoint ---- */

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

/* Returns whether a name could be mistaken for another checkpoint's id. */
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
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "`name` must have 1 to %u characters of A-Z a-z 0-9 . _ - and begin with a letter or digit",
            LIMIT_SESSION_NAME);
    if (is_id(name))
        return problem_set(problem, ERR_BAD_REQUEST, "`name` looks like the id of a checkpoint");
    if (checkpoints_find(&orders->branches->checkpoints, name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a checkpoint named '%.*s' already exists; drop it first", (int)name.size,
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

/* ---- checkpoints ---- */

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

/* ---- drop ---- */

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

/* ---- rollback ---- */

static void refuse_restored(Orders *orders)
{
    const Order *order = &orders->order;
    const StateChange *change = &order->branch->unreported;
    const char *why = order->trouble[0] ? order->trouble : "it could not be copied";

    if (change->state == STATE_ROLLED_BACK)
        order_refuse(
            orders, ERR_CHECKPOINT_FAILED,
            "the checkpoint could not be restored: %s; the variables are as they were after call %" PRIu64,
            why, change->execution_count);
    else
        order_refuse(orders, ERR_CHECKPOINT_FAILED,
                     "the checkpoint could not be restored: %s; the variables are lost (%s)", why,
                     change->reason);
}

/* The branch is where it went: at the checkpoint, or at another where that could not be had. */
static void rollback_restored(Orders *orders)
{
    const Order *order = &orders->order;
    Branch *branch = order->branch;
    CheckpointId id;
    const MsgRolledBackOrder reply = {
        .checkpoint = checkpoint_id(id, order->checkpoint_number),
        .execution_count = branch->unreported.execution_count,
        .epoch = branch->epoch,
        .not_restored = notes_say(&branch->unreported.not_restored),
    };

    if (branch->unreported.state != STATE_ROLLED_BACK ||
        branch->unreported.checkpoint != order->checkpoint_number) {
        refuse_restored(orders);
        return;
    }
    order_answer(orders, order->id, MsgRolledBackOrder, &reply);
    state_change_deinit(&branch->unreported);
    order_done(orders);
}

static void rollback_begin(Orders *orders)
{
    Order *order = &orders->order;

    if (!order->checkpoint) {
        order_refuse(orders, ERR_NO_SUCH_CHECKPOINT, "the checkpoint is gone: %s", order->trouble);
        return;
    }
    order->checkpoint_number = order->checkpoint->number;
    branch_go_back(order->branch, order->checkpoint, COPY_BACK);
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

/* ---- branch, commit ---- */

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
    bool made = branch->unreported.state == STATE_ROLLED_BACK;
    MsgBranchMade reply = {.execution_count = branch->execution_count,
                           .epoch = branch->epoch,
                           .not_restored = notes_say(&branch->unreported.not_restored)};
    CheckpointId id;

    branch_leave_checkpoint(orders, made);
    if (!made) {
        order_refuse(orders, ERR_CHECKPOINT_FAILED, "%s", branch->unreported.reason);
        return;
    }
    order->made = NULL;
    if (order->checkpoint)
        reply.checkpoint = checkpoint_id(id, order->checkpoint->number);
    order_answer(orders, order->id, MsgBranchMade, &reply);
    state_change_deinit(&branch->unreported);
    order_done(orders);
}

static void branch_taken(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = branch_new_from(order->branch, order->new_branch);

    if (!branch) {
        order_refuse(orders, ERR_INTERNAL, "%s", strerror(ENOMEM));
        return;
    }
    order->branch = order->made = branch;
    branch_go_back(branch, order->checkpoint, COPY_BRANCH);
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
    if (r == 0)
        r = order_check_new(orders, body.branch, problem);
    if (r == 0 && body.checkpoint.data)
        r = order_find_checkpoint(&checkpoint, orders, body.checkpoint, problem);
    if (r == 0)
        r = order_begin(orders, message, from, problem);
    if (r < 0)
        return r;
    orders->order.new_branch = body.branch;
    orders->order.checkpoint = checkpoint;
    if (checkpoint)
        order_await(orders, AWAITS_CHECKPOINT, branch_taken);
    else
        order_take_checkpoint(orders, CHECKPOINT_AUTOMATIC, branch_taken);
    return 0;
}

/* ---- commit: the one branch takes the other's place, with the interpreter it has ---- */

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
    if (r == 0 && (branch_is_foreign(from) || branch_is_foreign(into)))
        r = problem_set(problem, ERR_BAD_REQUEST, "a context of another language is not committed");
    if (r == 0)
        r = order_begin(orders, message, from, problem);
    if (r < 0)
        return r;
    orders->order.into = into;
    order_await(orders, AWAITS_INTERPRETER, commit_ready);
    return 0;
}
