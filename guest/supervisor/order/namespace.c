/* namespace */
#include <errno.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/supervisor/order/internal.h"
#include "proto/base/clock.h"

#define ANSWER_LIMIT (5 * NSEC_PER_SEC)

static void on_limit_due(LoopTimer *timer)
{
    order_refuse(container_of(timer, Orders, order.limit), ERR_INTERNAL,
                 "the interpreter did not list its variables in time; a thread of it may keep it busy");
}

static int ask(Branch *branch, uint64_t id)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r = channel_say(&frame, MSG_NAMESPACE, id, MsgNothing, &(MsgNothing){0});

    return r < 0 ? r : interpreter_send(&branch->interpreter, &frame);
}

static void namespace_ask(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;
    int r;

    order->epoch = branch->epoch;
    r = ask(branch, ++branch->interpreter.listings.asked);
    if (r == 0)
        r = loop_timer_set(branch->set->loop, &order->limit, clock_now() + ANSWER_LIMIT, on_limit_due);
    if (r < 0)
        order_refuse(orders, ERR_INTERNAL, "the interpreter cannot be asked: %s", strerror(-r));
    else
        order_await(orders, AWAITS_ANSWER, NULL);
}

int order_namespace(Orders *orders, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, body.branch, problem);
    if (r == 0)
        r = order_begin(orders, message, branch, problem);
    if (r == 0)
        order_await(orders, AWAITS_INTERPRETER, namespace_ask);
    return r;
}

/* An answer that comes too late is nobody's. */
int orders_on_namespace(Orders *orders, Branch *branch, const Message *message, Problem *problem)
{
    const Order *order = &orders->order;
    Questions *listings = &branch->interpreter.listings;
    bool awaited =
        order->awaits == AWAITS_ANSWER && order->branch == branch && message->id == listings->asked;
    MsgNamespace said;
    int r;

    if (!questions_answered(listings, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`namespace` that answers nothing");
    r = body_decode(&said, MsgNamespace, &message->body, problem);
    if (r < 0 || !awaited)
        return r;
    order_answer(orders, order->id, MsgNamespace, &said);
    order_done(orders);
    return 0;
}
