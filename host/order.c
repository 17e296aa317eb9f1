#include "host/order.h"

#include "host/envelope.h"
#include "host/sandbox_parts.h"

/* The supervisor answers everything within this, but for what it must first end. */
#define ORDER_SECONDS 60.0

void *order_new(size_t size, const OrderOps *ops, Session *session, Request *request)
{
    Order *order = calloc(1, size);

    if (!order) {
        if (request)
            request_fail_text(request, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    order->ops = ops;
    order->request = request;
    order->turn.kind = TURN_ORDER;
    order->turn.session = session;
    list_init(&order->turn.link);
    return order;
}

void order_write(Order *order, const Schema *schema, const void *body)
{
    schema_append(&order->body, schema, body);
}

void order_say_branch(Order *order)
{
    order_say(order, MsgBranchTarget, &(MsgBranchTarget){.branch = order->turn.session->branch});
}

static void fail_unwritten(Order *order)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_INTERNAL, "out of memory");
    order_fail(order, &problem);
}

void order_send(Order *order)
{
    Sandbox *sandbox = order->turn.session->sandbox;
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    if (order->body.size == 0) {
        fail_unwritten(order);
        return;
    }
    order->turn.number = sandbox_next_number(sandbox->controller);
    r = envelope_write(&message, order->ops->kind, order->turn.number, encoded_text(&order->body));
    if (r == 0)
        r = guest_send(sandbox->guest, &message);
    if (r < 0)
        sandbox_close(sandbox, "its supervisor cannot be reached");
    else if (sandbox->running == &order->turn)
        sandbox_watch(sandbox, ORDER_SECONDS);
}

/* What it leaves is in order before anybody hears of it. */
static void settle(Order *order, const Problem *problem)
{
    Sandbox *sandbox = order->turn.session->sandbox;

    if (!list_empty(&order->turn.link))
        sandbox_unqueue(sandbox, &order->turn);
    if (order->ops->over)
        order->ops->over(order, problem);
}

/* The order is no more; whoever waits for its turn is next. */
static void order_free(Order *order)
{
    Session *session = order->turn.session;
    Sandbox *sandbox = session->sandbox;
    bool ran = sandbox->running == &order->turn;

    if (ran)
        sandbox_set_running(sandbox, NULL);
    turn_abandon_work(&order->turn);
    buf_deinit(&order->body);
    free(order);
    if (ran)
        sandbox_turn_over(sandbox, session);
}

void order_reply(Order *order, const Buf *body)
{
    settle(order, NULL);
    if (order->request && body)
        request_reply(order->request, body);
    else if (order->request)
        request_reply_empty(order->request);
    order_free(order);
}

/* Without memory for the answer it is done all the same, and the client told that it cannot be told of. */
void order_reply_with(Order *order, const Schema *schema, const void *body)
{
    settle(order, NULL);
    if (order->request)
        request_reply_with(order->request, schema, body);
    order_free(order);
}

void order_fail(Order *order, const Problem *problem)
{
    settle(order, problem);
    if (order->request)
        request_fail(order->request, problem);
    order_free(order);
}
