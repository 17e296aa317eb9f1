/* close, reset: also while a call runs, which ends with that. */
#include "guest/supervisor/task/internal.h"

int task_close(Tasks *tasks, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&branch, tasks, body.branch, problem);
    if (!branch)
        return r;
    if (branch->number == 0)
        return problem_set(problem, ERR_BAD_REQUEST, "the session itself ends with `stop`");
    if (tasks_are_about(tasks, branch))
        task_cancel(tasks, "the branch was closed meanwhile");
    executor_end_closed(tasks->executor, branch);
    branch_end(branch);
    task_answer(tasks, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* The reset that waits for that branch; of NULL: an unused one. */
static Reset *find_reset(Tasks *tasks, const Branch *branch)
{
    for (size_t i = 0; i < ARRAY_SIZE(tasks->resets); i++)
        if (tasks->resets[i].branch == branch)
            return &tasks->resets[i];
    return NULL;
}

void tasks_on_started(Tasks *tasks, Branch *branch)
{
    Reset *reset = find_reset(tasks, branch);

    if (!reset)
        return;
    reset->branch = NULL;
    task_answer(tasks, reset->id, MsgEpoch, &(MsgEpoch){.epoch = branch->epoch});
}

/* Begins the branch anew. A copy of the birth checkpoint in the making will do, as nothing has run in it. */
static void begin_anew(Tasks *tasks, Branch *branch)
{
    bool begins = branch_is_recovering(branch) && branch->recovery.fresh;

    if (!begins)
        branch_end_processes(branch);
    executor_end_reset(tasks->executor, branch);
    if (begins)
        return;
    branch_forget_line(branch);
    branch_forget_between(branch);
    branch_start(branch);
}

int task_reset(Tasks *tasks, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    Reset *reset;
    MsgReset body;
    int r = body_decode(&body, MsgReset, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&branch, tasks, uint_or(body.branch, 0), problem);
    if (!branch)
        return r;
    /* A reset under way is done, as the state that it replaces is gone. */
    tasks_on_started(tasks, branch);
    if (tasks_are_about(tasks, branch))
        task_cancel(tasks, "the session was reset");
    reset = find_reset(tasks, NULL);
    if (!reset)
        return problem_set(problem, ERR_INTERNAL, "too many resets are in progress");
    *reset = (Reset){.branch = branch, .id = message->id};
    branch->epoch++;
    begin_anew(tasks, branch);
    return 0;
}
