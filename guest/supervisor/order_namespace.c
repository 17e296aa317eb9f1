/* namespace */
#include <errno.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/supervisor/supervisor.h"
#include "proto/base/clock.h"

#define ANSWER_LIMIT (5 * NSEC_PER_SEC)

static void on_limit_due(LoopTimer *timer)
{
    Order *order = container_of(timer, Order, limit);

    order_refuse(container_of(order, Supervisor, order), ERR_INTERNAL,
                 "the interpreter did not list its variables in time; a thread of it may keep it busy");
}

static int ask(Branch *branch, uint64_t id)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r = channel_say(&frame, MSG_NAMESPACE, id, MsgNothing, &(MsgNothing){0});

    return r < 0 ? r : interpreter_send(&branch->interpreter, &frame);
}

static void namespace_step(Supervisor *supervisor, Order *order)
{
    Branch *branch = order->branch;
    int r;

    if (order->asked && (!branch_is_ready(branch) || branch->epoch != order->epoch)) {
        order_refuse(supervisor, ERR_INTERNAL, "the interpreter was lost before it had listed its variables");
        return;
    }
    if (order->asked || order_await(supervisor, branch) <= 0)
        return;
    order->asked = true;
    order->epoch = branch->epoch;
    r = ask(branch, ++branch->interpreter.questions);
    if (r == 0)
        r = loop_timer_set(supervisor->loop, &order->limit, clock_now() + ANSWER_LIMIT, on_limit_due);
    if (r < 0)
        order_refuse(supervisor, ERR_INTERNAL, "the interpreter cannot be asked: %s", strerror(-r));
}

int order_namespace(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, supervisor, body.branch, problem);
    if (r == 0)
        r = order_begin(supervisor, message, namespace_step, problem);
    if (r == 0)
        supervisor->order.branch = branch;
    return r;
}

/* Each question is answered once, in order; an answer that came too late is nobody's. */
int order_on_namespace(Branch *branch, const Message *message, Problem *problem)
{
    Supervisor *supervisor = branch->supervisor;
    Order *order = &supervisor->order;
    Interpreter *interpreter = &branch->interpreter;
    bool awaited = order->step == namespace_step && order->branch == branch && order->asked &&
                   message->id == interpreter->questions;
    MsgNamespace said;
    int r;

    if (message->id != interpreter->answers + 1 || message->id > interpreter->questions)
        return problem_set(problem, ERR_BAD_REQUEST, "`namespace` that answers nothing");
    interpreter->answers++;
    r = body_decode(&said, MsgNamespace, &message->body, problem);
    if (r < 0 || !awaited)
        return r;
    order_answer(supervisor, order->id, MsgNamespace, &said);
    order_done(supervisor);
    return 0;
}
