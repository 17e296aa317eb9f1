/* close, reset: also while a call runs, which ends with that. */
#include "guest/supervisor/order/internal.h"

int order_close(Orders *orders, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, body.branch, problem);
    if (!branch)
        return r;
    if (branch->number == 0)
        return problem_set(problem, ERR_BAD_REQUEST, "the session itself ends with `stop`");
    order_cancel(orders, "a branch was closed meanwhile");
    calls_end_closed(orders->calls, branch);
    branch_end(branch);
    order_answer(orders, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* The reset that waits for that branch; of NULL: an unused one. */
static Reset *find_reset(Orders *orders, const Branch *branch)
{
    for (size_t i = 0; i < ARRAY_SIZE(orders->resets); i++)
        if (orders->resets[i].branch == branch)
            return &orders->resets[i];
    return NULL;
}

void orders_on_started(Orders *orders, Branch *branch)
{
    Reset *reset = find_reset(orders, branch);

    if (!reset)
        return;
    reset->branch = NULL;
    order_answer(orders, reset->id, MsgEpoch, &(MsgEpoch){.epoch = branch->epoch});
}

/* Begins the branch anew. A copy of the birth checkpoint in the making will do, as nothing has run in it. */
static void begin_anew(Orders *orders, Branch *branch)
{
    bool begins = branch_is_recovering(branch) && branch->recovery.fresh;

    if (!begins)
        branch_end_processes(branch);
    calls_end_reset(orders->calls, branch);
    if (begins)
        return;
    branch_forget_line(branch);
    branch_start(branch);
}

int order_reset(Orders *orders, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    Reset *reset;
    MsgReset body;
    int r = body_decode(&body, MsgReset, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, uint_or(body.branch, 0), problem);
    if (!branch)
        return r;
    /* A reset under way is done, as the state that it replaces is gone. */
    orders_on_started(orders, branch);
    order_cancel(orders, "the session was reset meanwhile");
    reset = find_reset(orders, NULL);
    if (!reset)
        return problem_set(problem, ERR_INTERNAL, "too many resets are under way");
    *reset = (Reset){.branch = branch, .id = message->id};
    branch->epoch++;
    begin_anew(orders, branch);
    return 0;
}
