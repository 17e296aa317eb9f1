/* checkpoint, checkpoints, drop, rollback */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/task/task.h"

/* checkpoint */

static void checkpoint_taken(Tasks *tasks)
{
    Checkpoints *set = &tasks->branches->checkpoints;
    MsgTakenOrder taken = {.dropped = checkpoints_say_evicted(set)};
    CheckpointRow row;

    checkpoint_say(&row, tasks->task.checkpoint);
    taken.checkpoint = row.said;
    if (task_answer(tasks, tasks->task.id, MsgTakenOrder, &taken) == 0)
        checkpoints_forget_evicted(set);
    task_done(tasks);
}

/* Returns whether a name could be mistaken for another checkpoint's id. */
static bool is_id(Text text)
{
    size_t digits = 0;

    while (1 + digits < text.size && text.data[1 + digits] >= '0' && text.data[1 + digits] <= '9')
        digits++;
    return text.data[0] == 'c' && digits > 0 && 1 + digits == text.size;
}

static int check_name(const Tasks *tasks, Text name, Problem *problem)
{
    if (!name_valid(name))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "`name` must have 1 to %u characters of A-Z a-z 0-9 . _ - and begin with a letter or digit",
            LIMIT_SESSION_NAME);
    if (is_id(name))
        return problem_set(problem, ERR_BAD_REQUEST, "`name` looks like the id of a checkpoint");
    if (checkpoints_find(&tasks->branches->checkpoints, name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a checkpoint named '%.*s' already exists; drop it first", (int)name.size,
                           name.data);
    return 0;
}

int task_checkpoint(Tasks *tasks, const Message *message, Problem *problem)
{
    MsgTakeOrder body;
    Branch *branch = NULL;
    int r = body_decode(&body, MsgTakeOrder, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&branch, tasks, body.branch, problem);
    if (r == 0 && body.name.data)
        r = check_name(tasks, body.name, problem);
    if (r == 0)
        r = task_begin(tasks, message, branch, problem);
    if (r < 0)
        return r;
    if (body.name.data)
        memcpy(tasks->task.name, body.name.data, body.name.size);
    task_take_checkpoint(tasks, CHECKPOINT_BY_HAND, checkpoint_taken);
    return 0;
}

/* checkpoints */

int task_checkpoints(Tasks *tasks, const Message *message, Problem *problem)
{
    const MsgGuestCheckpoints reply = {.checkpoints = checkpoints_say(&tasks->branches->checkpoints)};
    MsgNothing nothing;
    int r = body_decode(&nothing, MsgNothing, &message->body, problem);

    if (r < 0)
        return r;
    checkpoints_measure(&tasks->branches->checkpoints);
    task_answer(tasks, message->id, MsgGuestCheckpoints, &reply);
    return 0;
}

/* drop */

int task_drop(Tasks *tasks, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    MsgDropOrder body;
    int r = body_decode(&body, MsgDropOrder, &message->body, problem);

    if (r == 0)
        r = task_find_checkpoint(&checkpoint, tasks, body.checkpoint, problem);
    if (r == 0)
        r = task_check_idle(tasks, problem);
    if (r < 0)
        return r;
    checkpoint_drop(checkpoint, NULL);
    task_answer(tasks, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* rollback */

static void refuse_restored(Tasks *tasks)
{
    const Task *task = &tasks->task;
    const StateChange *change = &task->branch->unreported;
    const char *why = task->trouble[0] ? task->trouble : "it could not be copied";

    if (change->state == STATE_ROLLED_BACK)
        task_refuse(
            tasks, ERR_CHECKPOINT_FAILED,
            "the checkpoint could not be restored: %s; the variables are as they were after call %" PRIu64,
            why, change->execution_count);
    else
        task_refuse(tasks, ERR_CHECKPOINT_FAILED,
                    "the checkpoint could not be restored: %s; the variables are lost (%s)", why,
                    change->reason);
}

/* The branch is where it went: at the checkpoint, or at another where that could not be had. */
static void rollback_restored(Tasks *tasks)
{
    const Task *task = &tasks->task;
    Branch *branch = task->branch;
    CheckpointId id;
    const MsgRolledBackOrder reply = {
        .checkpoint = checkpoint_id(id, task->checkpoint_number),
        .execution_count = branch->unreported.execution_count,
        .epoch = branch->epoch,
        .not_restored = notes_say(&branch->unreported.not_restored),
    };

    if (branch->unreported.state != STATE_ROLLED_BACK ||
        branch->unreported.checkpoint != task->checkpoint_number) {
        refuse_restored(tasks);
        return;
    }
    task_answer(tasks, task->id, MsgRolledBackOrder, &reply);
    state_change_deinit(&branch->unreported);
    task_done(tasks);
}

static void rollback_begin(Tasks *tasks)
{
    Task *task = &tasks->task;

    if (!task->checkpoint) {
        task_refuse(tasks, ERR_NO_SUCH_CHECKPOINT, "the checkpoint is gone: %s", task->trouble);
        return;
    }
    task->checkpoint_number = task->checkpoint->number;
    branch_go_back(task->branch, task->checkpoint, COPY_BACK);
    task_await(tasks, AWAITS_BRANCH, rollback_restored);
}

int task_rollback(Tasks *tasks, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    Branch *branch = NULL;
    MsgRollbackOrder body;
    int r = body_decode(&body, MsgRollbackOrder, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&branch, tasks, body.branch, problem);
    if (r == 0)
        r = task_find_checkpoint(&checkpoint, tasks, body.checkpoint, problem);
    if (r == 0)
        r = task_begin(tasks, message, branch, problem);
    if (r < 0)
        return r;
    tasks->task.checkpoint = checkpoint;
    task_await(tasks, AWAITS_BRANCH, rollback_begin);
    return 0;
}

/* ---- branch, commit ---- */

/* branch: first a checkpoint of the origin, unless one is named; then the copy of it. */

/* The checkpoint that was taken for the new branch is one of its state, and becomes its automatic one. It is
 * dropped where checkpoints are off, and stays the origin's where no branch was made. */
static void branch_leave_checkpoint(Tasks *tasks, bool made)
{
    Task *task = &tasks->task;
    Checkpoint *checkpoint = task->checkpoint;

    if (!task->implicit || !checkpoint)
        return;
    if (tasks->branches->mode == CHECKPOINT_OFF) {
        task->checkpoint = NULL;
        checkpoint_drop(checkpoint, NULL);
    } else if (made) {
        checkpoint->branch = task->branch->number;
    }
}

static void branch_copied(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;
    bool made = branch->unreported.state == STATE_ROLLED_BACK;
    MsgBranchMade reply = {.execution_count = branch->execution_count,
                           .epoch = branch->epoch,
                           .not_restored = notes_say(&branch->unreported.not_restored)};
    CheckpointId id;

    branch_leave_checkpoint(tasks, made);
    if (!made) {
        task_refuse(tasks, ERR_CHECKPOINT_FAILED, "%s", branch->unreported.reason);
        return;
    }
    task->made = NULL;
    if (task->checkpoint)
        reply.checkpoint = checkpoint_id(id, task->checkpoint->number);
    task_answer(tasks, task->id, MsgBranchMade, &reply);
    state_change_deinit(&branch->unreported);
    task_done(tasks);
}

static void branch_taken(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = branch_new_from(task->branch, task->new_branch);

    if (!branch) {
        task_refuse(tasks, ERR_INTERNAL, "%s", strerror(ENOMEM));
        return;
    }
    task->branch = task->made = branch;
    branch_go_back(branch, task->checkpoint, COPY_BRANCH);
    task_await(tasks, AWAITS_BRANCH, branch_copied);
}

int task_branch(Tasks *tasks, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    Branch *from = NULL;
    MsgBranchOrder body;
    int r = body_decode(&body, MsgBranchOrder, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&from, tasks, body.from, problem);
    if (r == 0)
        r = task_check_new(tasks, body.branch, problem);
    if (r == 0 && body.checkpoint.data)
        r = task_find_checkpoint(&checkpoint, tasks, body.checkpoint, problem);
    if (r == 0)
        r = task_begin(tasks, message, from, problem);
    if (r < 0)
        return r;
    tasks->task.new_branch = body.branch;
    tasks->task.checkpoint = checkpoint;
    if (checkpoint)
        task_await(tasks, AWAITS_CHECKPOINT, branch_taken);
    else
        task_take_checkpoint(tasks, CHECKPOINT_AUTOMATIC, branch_taken);
    return 0;
}

/* commit: the one branch takes the other's place, with the interpreter it has. */

static void commit_ready(Tasks *tasks)
{
    Branch *branch = tasks->task.branch;
    MsgCommitReply reply;

    branch_take_place(branch, tasks->task.into);
    reply = (MsgCommitReply){.execution_count = branch->execution_count, .epoch = branch->epoch};
    task_answer(tasks, tasks->task.id, MsgCommitReply, &reply);
    task_done(tasks);
}

int task_commit(Tasks *tasks, const Message *message, Problem *problem)
{
    Branch *into = NULL, *from = NULL;
    MsgCommitOrder body;
    int r = body_decode(&body, MsgCommitOrder, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&into, tasks, body.branch, problem);
    if (r == 0)
        r = task_find_branch(&from, tasks, body.from, problem);
    if (r == 0 && (from == into || from->number == 0))
        r = problem_set(problem, ERR_BAD_REQUEST, "only a branch is committed, and to another one");
    if (r == 0 && (branch_is_foreign(from) || branch_is_foreign(into)))
        r = problem_set(problem, ERR_BAD_REQUEST, "a context of another language is not committed");
    if (r == 0)
        r = task_begin(tasks, message, from, problem);
    if (r < 0)
        return r;
    tasks->task.into = into;
    task_await(tasks, AWAITS_INTERPRETER, commit_ready);
    return 0;
}
