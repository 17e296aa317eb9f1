/* branch, commit */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/task/internal.h"

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
    bool made = branch->untold.state == STATE_ROLLED_BACK;
    MsgBranchMade reply = {.execution_count = branch->execution_count,
                           .epoch = branch->epoch,
                           .not_restored = notes_say(&branch->untold.not_restored)};
    CheckpointId id;

    branch_leave_checkpoint(tasks, made);
    if (!made) {
        task_refuse(tasks, ERR_CHECKPOINT_FAILED, "%s", branch->untold.reason);
        return;
    }
    task->made = NULL;
    if (task->checkpoint)
        reply.checkpoint = checkpoint_id(id, task->checkpoint->number);
    task_answer(tasks, task->id, MsgBranchMade, &reply);
    fate_deinit(&branch->untold);
    task_done(tasks);
}

static void branch_taken(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = branch_new_from(task->branch, task->number);

    if (!branch) {
        task_refuse(tasks, ERR_INTERNAL, "%s", strerror(ENOMEM));
        return;
    }
    task->branch = task->made = branch;
    branch_go_back(branch, task->checkpoint);
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
    tasks->task.number = body.branch;
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
