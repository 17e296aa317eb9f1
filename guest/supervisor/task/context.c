/* context: a branch that begins with nothing in it, in a place of its own. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/task/internal.h"
#include "proto/base/clock.h"

#define PLACE_LIMIT (30 * NSEC_PER_SEC)

static void on_limit_due(LoopTimer *timer)
{
    task_refuse(container_of(timer, Tasks, task.limit), ERR_INTERNAL,
                "the context did not get ready in time");
}

static void answer(Tasks *tasks)
{
    Task *task = &tasks->task;
    const Branch *branch = task->branch;

    if (branch->misplaced[0]) {
        task_refuse(tasks, ERR_BAD_REQUEST, "%s", branch->misplaced);
        return;
    }
    task->made = NULL;
    task_answer(tasks, task->id, MsgBranchMade,
                (&(MsgBranchMade){.execution_count = branch->execution_count, .epoch = branch->epoch}));
    task_done(tasks);
}

static void started(Tasks *tasks)
{
    tasks->task.epoch = tasks->task.branch->epoch;
    task_await(tasks, AWAITS_PLACE, answer);
}

static Branch *make(Tasks *tasks, const MsgContextOrder *asked)
{
    Branch *branch = branch_new(tasks->branches, asked->branch);

    return branch && branch_set_place(branch, asked->language, asked->cwd) < 0 ? branch_free(branch) : branch;
}

int task_context(Tasks *tasks, const Message *message, Problem *problem)
{
    Task *task = &tasks->task;
    MsgContextOrder body;
    int r = body_decode(&body, MsgContextOrder, &message->body, problem);

    if (r == 0)
        r = task_check_new(tasks, body.branch, problem);
    if (r == 0)
        r = task_begin(tasks, message, NULL, problem);
    if (r < 0)
        return r;
    task->branch = task->made = make(tasks, &body);
    if (!task->made)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    r = loop_timer_set(tasks->branches->loop, &task->limit, clock_now() + PLACE_LIMIT, on_limit_due);
    if (r < 0)
        task_refuse(tasks, ERR_INTERNAL, "%s", strerror(-r));
    else
        task_await(tasks, AWAITS_INTERPRETER, started);
    return 0;
}
