/* checkpoint, checkpoints, drop, rollback */
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"

/* checkpoint */

static void checkpoint_step(Supervisor *supervisor, Order *order)
{
    Checkpoints *set = &supervisor->checkpoints;
    MsgTakenOrder taken = {.dropped = checkpoints_say_evicted(set)};
    CheckpointRow row;

    if (order_take_checkpoint(supervisor, order->branch, CHECKPOINT_BY_HAND, false) <= 0)
        return;
    checkpoint_say(&row, order->checkpoint);
    taken.checkpoint = row.said;
    if (order_answer(supervisor, order->id, MsgTakenOrder, &taken) == 0)
        checkpoints_forget_evicted(set);
    order_done(supervisor);
}

/* Such a name could be mistaken for another one's id. */
static bool is_id(Text text)
{
    size_t digits = 0;

    while (1 + digits < text.size && text.data[1 + digits] >= '0' && text.data[1 + digits] <= '9')
        digits++;
    return text.data[0] == 'c' && digits > 0 && 1 + digits == text.size;
}

static int check_name(Supervisor *supervisor, Text name, Problem *problem)
{
    if (!name_valid(name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "`name` is 1 to %u of A-Z a-z 0-9 . _ -, beginning with a letter or digit",
                           LIMIT_SESSION_NAME);
    if (is_id(name))
        return problem_set(problem, ERR_BAD_REQUEST, "`name` looks like the id of a checkpoint");
    if (checkpoints_find(&supervisor->checkpoints, name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a checkpoint named '%.*s' is kept already; drop it first", (int)name.size,
                           name.data);
    return 0;
}

int order_checkpoint(Supervisor *supervisor, const Message *message, Problem *problem)
{
    MsgTakeOrder body;
    Branch *branch = NULL;
    int r = body_decode(&body, MsgTakeOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, supervisor, body.branch, problem);
    if (r == 0 && body.name.data)
        r = check_name(supervisor, body.name, problem);
    if (r == 0)
        r = order_begin(supervisor, message, checkpoint_step, problem);
    if (r < 0)
        return r;
    supervisor->order.branch = branch;
    if (body.name.data)
        memcpy(supervisor->order.name, body.name.data, body.name.size);
    return 0;
}

/* checkpoints */

int order_checkpoints(Supervisor *supervisor, const Message *message, Problem *problem)
{
    const MsgGuestCheckpoints reply = {.checkpoints = checkpoints_say(&supervisor->checkpoints)};
    MsgNothing nothing;
    int r = body_decode(&nothing, MsgNothing, &message->body, problem);

    if (r < 0)
        return r;
    checkpoints_measure(&supervisor->checkpoints);
    order_answer(supervisor, message->id, MsgGuestCheckpoints, &reply);
    return 0;
}

/* drop */

int order_drop(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    MsgDropOrder body;
    int r = body_decode(&body, MsgDropOrder, &message->body, problem);

    if (r == 0)
        r = order_find_checkpoint(&checkpoint, supervisor, body.checkpoint, problem);
    if (r == 0)
        r = order_begin(supervisor, message, NULL, problem);
    if (r < 0)
        return r;
    checkpoint_drop(checkpoint, NULL);
    order_answer(supervisor, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* rollback */

static void rollback_fail(Supervisor *supervisor, Order *order)
{
    const Fate *fate = &order->branch->untold;
    const char *why = order->trouble[0] ? order->trouble : "no copy of it could be made";

    if (fate->state == STATE_ROLLED_BACK)
        order_refuse(
            supervisor, ERR_CHECKPOINT_FAILED,
            "the checkpoint could not be restored: %s; the variables are as they were after call %" PRIu64,
            why, fate->execution_count);
    else
        order_refuse(supervisor, ERR_CHECKPOINT_FAILED,
                     "the checkpoint could not be restored: %s; the variables are lost (%s)", why,
                     fate->reason);
}

/* The branch's variables are where it went: there, or somewhere else because that could not be had. */
static void rollback_finish(Supervisor *supervisor, Order *order)
{
    Branch *branch = order->branch;
    CheckpointId id;
    const MsgRolledBackOrder reply = {
        .checkpoint = checkpoint_id(id, order->number),
        .execution_count = branch->untold.execution_count,
        .epoch = branch->epoch,
        .not_restored = notes_say(&branch->untold.not_restored),
    };

    if (branch->untold.state != STATE_ROLLED_BACK || branch->untold.checkpoint != order->number) {
        rollback_fail(supervisor, order);
        return;
    }
    order_answer(supervisor, order->id, MsgRolledBackOrder, &reply);
    fate_deinit(&branch->untold);
    order_done(supervisor);
}

static void rollback_step(Supervisor *supervisor, Order *order)
{
    if (order->branch->recovery.active)
        return;
    if (order->asked) {
        rollback_finish(supervisor, order);
        return;
    }
    if (!order->checkpoint) {
        order_refuse(supervisor, ERR_NO_SUCH_CHECKPOINT, "the checkpoint is gone: %s", order->trouble);
        return;
    }
    order->asked = true;
    order->number = order->checkpoint->number;
    branch_go_back(order->branch, order->checkpoint);
}

int order_rollback(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    Branch *branch = NULL;
    MsgRollbackOrder body;
    int r = body_decode(&body, MsgRollbackOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, supervisor, body.branch, problem);
    if (r == 0)
        r = order_find_checkpoint(&checkpoint, supervisor, body.checkpoint, problem);
    if (r == 0)
        r = order_begin(supervisor, message, rollback_step, problem);
    if (r < 0)
        return r;
    supervisor->order.branch = branch;
    supervisor->order.checkpoint = checkpoint;
    return 0;
}
