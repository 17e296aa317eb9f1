/* namespace */
#include <errno.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/supervisor/task/internal.h"
#include "proto/base/clock.h"

#define ANSWER_LIMIT (5 * NSEC_PER_SEC)

static void on_limit_due(LoopTimer *timer)
{
    task_refuse(container_of(timer, Tasks, task.limit), ERR_INTERNAL,
                "the interpreter did not list its variables in time; a thread of the code may keep it busy");
}

static int ask(Branch *branch, uint64_t id)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r = channel_say(&frame, MSG_NAMESPACE, id, MsgNothing, &(MsgNothing){0});

    return r < 0 ? r : interpreter_send(&branch->interpreter, &frame);
}

static void namespace_ask(Tasks *tasks)
{
    Task *task = &tasks->task;
    Branch *branch = task->branch;
    int r;

    task->epoch = branch->epoch;
    r = ask(branch, ++branch->interpreter.listings.asked);
    if (r == 0)
        r = loop_timer_set(branch->set->loop, &task->limit, clock_now() + ANSWER_LIMIT, on_limit_due);
    if (r < 0)
        task_refuse(tasks, ERR_INTERNAL, "the interpreter cannot be asked: %s", strerror(-r));
    else
        task_await(tasks, AWAITS_ANSWER, NULL);
}

int task_namespace(Tasks *tasks, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = task_find_branch(&branch, tasks, body.branch, problem);
    if (r == 0 && branch_is_foreign(branch))
        r = problem_set(problem, ERR_BAD_REQUEST, "the variables of a context of %s are not listed",
                        branch->place.language);
    if (r == 0)
        r = task_begin(tasks, message, branch, problem);
    if (r == 0)
        task_await(tasks, AWAITS_INTERPRETER, namespace_ask);
    return r;
}

/* An answer that comes too late is nobody's. */
int tasks_on_namespace(Tasks *tasks, Branch *branch, const Message *message, Problem *problem)
{
    const Task *task = &tasks->task;
    Inquiries *listings = &branch->interpreter.listings;
    bool awaited = task->awaits == AWAITS_ANSWER && task->branch == branch && message->id == listings->asked;
    MsgNamespace said;
    int r;

    if (!inquiries_answered(listings, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`namespace` that answers nothing");
    r = body_decode(&said, MsgNamespace, &message->body, problem);
    if (r < 0 || !awaited)
        return r;
    task_answer(tasks, task->id, MsgNamespace, &said);
    task_done(tasks);
    return 0;
}
