/* branch, commit, close, reset */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"

/* branch: first a checkpoint of the origin, unless one is named; then the copy of it. */

/* The checkpoint that was taken for the new branch becomes its automatic one: of its state it is. Where there
 * are to be none, or there is no branch, it has served. */
static void branch_leave_checkpoint(Supervisor *supervisor, Order *order, bool made)
{
    Checkpoint *checkpoint = order->checkpoint;

    if (!order->implicit || !checkpoint)
        return;
    if (supervisor->settings.checkpoint == CHECKPOINT_OFF) {
        order->checkpoint = NULL;
        checkpoint_drop(checkpoint, NULL);
    } else if (made) {
        checkpoint->branch = order->branch->number;
    }
}

static void branch_finish(Supervisor *supervisor, Order *order)
{
    Branch *branch = order->branch;
    bool made = branch->untold.state == STATE_ROLLED_BACK;
    MsgBranchMade reply = {.execution_count = branch->execution_count,
                           .epoch = branch->epoch,
                           .not_restored = notes_say(&branch->untold.not_restored)};
    CheckpointId id;

    branch_leave_checkpoint(supervisor, order, made);
    if (!made) {
        order_refuse(supervisor, ERR_CHECKPOINT_FAILED, "%s", branch->untold.reason);
        return;
    }
    order->made = NULL;
    if (order->checkpoint)
        reply.checkpoint = checkpoint_id(id, order->checkpoint->number);
    order_answer(supervisor, order->id, MsgBranchMade, &reply);
    fate_deinit(&branch->untold);
    order_done(supervisor);
}

static void branch_await_copy(Supervisor *supervisor, Order *order)
{
    if (!order->branch->recovery.active)
        branch_finish(supervisor, order);
}

static void branch_step(Supervisor *supervisor, Order *order)
{
    Branch *from = order->from, *branch;

    if (order_take_checkpoint(supervisor, from, CHECKPOINT_AUTOMATIC, true) <= 0)
        return;
    branch = branch_new(supervisor, order->number);
    if (!branch) {
        order_refuse(supervisor, ERR_INTERNAL, "%s", strerror(ENOMEM));
        return;
    }
    branch->newborn = true;
    branch->execution_count = from->execution_count;
    order->branch = order->made = branch;
    order->step = branch_await_copy;
    branch_go_back(branch, order->checkpoint);
}

int order_branch(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    Branch *from = NULL;
    MsgBranchOrder body;
    int r = body_decode(&body, MsgBranchOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&from, supervisor, body.from, problem);
    if (r == 0 && supervisor_find(supervisor, body.branch))
        r = problem_set(problem, ERR_BRANCH_EXISTS, "branch %" PRIu64 " exists", body.branch);
    if (r == 0 && supervisor->branch_count > LIMIT_BRANCHES)
        r = problem_set(problem, ERR_TOO_LARGE, "a session may have %u branches; close one first",
                        LIMIT_BRANCHES);
    if (r == 0 && body.checkpoint.data)
        r = order_find_checkpoint(&checkpoint, supervisor, body.checkpoint, problem);
    if (r == 0)
        r = order_begin(supervisor, message, branch_step, problem);
    if (r < 0)
        return r;
    supervisor->order.from = from;
    supervisor->order.number = body.branch;
    supervisor->order.checkpoint = checkpoint;
    supervisor->order.asked = checkpoint;
    return 0;
}

/* commit: the one branch takes the other's place, with the interpreter it has. */

static void take_place(Branch *branch, Branch *of)
{
    Checkpoints *set = &branch->supervisor->checkpoints;
    uint64_t former = branch->number;
    Checkpoint *checkpoint;

    of->ending = true;
    branch_end_processes(of);
    branch->epoch = of->epoch + 1;
    branch->execution_count = MAX(branch->execution_count, of->execution_count);
    list_remove(&branch->link);
    list_append(of->link.next, &branch->link); /* right behind it */
    branch->number = of->number;
    branch_end(of); /* takes the automatic checkpoints of that number with it */
    list_foreach (checkpoint, &set->all, Checkpoint, link)
        if (checkpoint->kind == CHECKPOINT_AUTOMATIC && checkpoint->branch == former)
            checkpoint->branch = branch->number;
}

static void commit_step(Supervisor *supervisor, Order *order)
{
    MsgCommitReply reply;

    if (order_await(supervisor, order->from) <= 0)
        return;
    take_place(order->from, order->branch);
    reply = (MsgCommitReply){.execution_count = order->from->execution_count, .epoch = order->from->epoch};
    order_answer(supervisor, order->id, MsgCommitReply, &reply);
    order_done(supervisor);
}

int order_commit(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Branch *branch = NULL, *from = NULL;
    MsgCommitOrder body;
    int r = body_decode(&body, MsgCommitOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, supervisor, body.branch, problem);
    if (r == 0)
        r = order_find_branch(&from, supervisor, body.from, problem);
    if (r == 0 && (from == branch || from->number == 0))
        r = problem_set(problem, ERR_BAD_REQUEST, "only a branch is committed, and to another one");
    if (r == 0)
        r = order_begin(supervisor, message, commit_step, problem);
    if (r < 0)
        return r;
    supervisor->order.branch = branch;
    supervisor->order.from = from;
    return 0;
}

/* close and reset: also while a call runs; it ends with that. */

static void close_call(Branch *branch)
{
    Fate fate _cleanup_(fate_deinit) = {.state = STATE_LOST};
    Cell *cell = call_of(branch);

    if (!cell)
        return;
    outcome_failed(&cell->outcome, "SessionClosed", "the call was ended", "its branch was closed");
    call_ended(cell);
    call_finish(branch->supervisor, &fate);
}

int order_close(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, supervisor, body.branch, problem);
    if (!branch)
        return r;
    if (branch->number == 0)
        return problem_set(problem, ERR_BAD_REQUEST, "the session itself ends with `stop`");
    order_cancel(supervisor, "a branch was closed meanwhile");
    close_call(branch);
    branch_end(branch);
    order_answer(supervisor, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* The call ends as one that was interrupted. */
static void end_call(Branch *branch)
{
    Fate fate _cleanup_(fate_deinit) = {.state = STATE_LOST};
    Cell *cell = call_of(branch);

    if (!cell)
        return;
    if (cell->step != CELL_ENDED) {
        outcome_lost(&cell->outcome, &(Loss){.killed = LADDER_CAUSE_INTERRUPT, .reset = true});
        cell->outcome.cpu = branch->interpreter.cpu;
        cell->outcome.peak_memory = branch->interpreter.peak_memory;
        call_ended(cell);
    }
    reason_set(fate.reason, "the session was reset");
    call_finish(branch->supervisor, &fate);
}

int order_reset(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgReset body;
    int r = body_decode(&body, MsgReset, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, supervisor, uint_or(body.branch, 0), problem);
    if (!branch)
        return r;
    /* What is under way is done: what it was to get rid of is gone. */
    branch_finish_reset(branch);
    order_cancel(supervisor, "the session was reset meanwhile");
    branch->resetting = true;
    branch->reset_id = message->id;
    branch->epoch++;
    /* A copy of the birth that is in the making will do: nothing has run in it. */
    if (branch->recovery.active && branch->recovery.fresh) {
        end_call(branch);
        return 0;
    }
    branch->ending = true;
    branch_end_processes(branch);
    branch->ending = false;
    end_call(branch);
    recovery_abandon(branch);
    branch_start(branch);
    return 0;
}
