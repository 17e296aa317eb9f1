#include "host/session/order.h"

#include <errno.h>
#include <string.h>

#include "host/link/envelope.h"

/* The supervisor answers everything within this, but for what it must first end. */
#define ORDER_SECONDS 60.0
/* The same of one that was sent long before its turn came: what it ends has ended. */
#define SENT_SECONDS 8.0

static Order *of(Turn *turn)
{
    return container_of(turn, Order, turn);
}

/* ---- its turn ---- */

/* Starts an order. An order that was sent while it waited has only its answer to come. */
static void start(Turn *turn)
{
    Order *order = of(turn);

    if (turn->state == TURN_SENT)
        sandbox_watch(turn->sandbox, MAX(SENT_SECONDS, of(turn)->ops->seconds));
    else if (order->ops->start)
        order->ops->start(order);
    else
        order_send(order);
}

/* Takes the answer: no second one is for the order, which may still have files to see to. */
static void take_answer(Order *order)
{
    Turn *turn = &order->turn;

    turn->state = TURN_ANSWERED;
    if (turn->sandbox->running == turn)
        sandbox_unwatch(turn->sandbox);
}

static int on_refused(Order *order, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r < 0)
        return r;
    take_answer(order);
    if (order->ops->refused)
        order->ops->refused(order, &why);
    else
        order_fail(order, &why);
    return 0;
}

static int on_message(Turn *turn, const Message *message, Problem *problem)
{
    Order *order = of(turn);

    if (message->kind == MSG_ERROR)
        return on_refused(order, message, problem);
    if (message->kind != MSG_REPLY)
        return 0;
    take_answer(order);
    return order->ops->answer(order, &message->body, problem);
}

static void on_disconnected(Turn *turn)
{
    Problem problem = PROBLEM_NULL;

    problem_set(
        &problem, ERR_INTERNAL,
        "the connection to the supervisor of the session broke; check whether the operation was done");
    order_fail(of(turn), &problem);
}

static void fail(Turn *turn, const Problem *problem)
{
    order_fail(of(turn), problem);
}

static void end(Turn *turn, const char *reason)
{
    Problem problem = PROBLEM_NULL;

    session_say_closed(turn->session, reason, &problem);
    order_fail(of(turn), &problem);
}

static void leave(Turn *turn)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down");
    order_fail(of(turn), &problem);
}

static const TurnOps turn_ops = {
    .outlives_session = true,
    .start = start,
    .message = on_message,
    .disconnected = on_disconnected,
    .fail = fail,
    .end = end,
    .leave = leave,
};

/* ---- its life ---- */

void *order_new(size_t size, const OrderOps *ops, Session *session, Request *request)
{
    Order *order = calloc(1, size);

    if (!order) {
        if (request)
            request_fail_text(request, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    turn_init(&order->turn, &turn_ops, session->sandbox, session);
    order->ops = ops;
    order->request = request;
    return order;
}

bool order_is(const Turn *turn, const OrderOps *ops)
{
    return turn->ops == &turn_ops && of((Turn *)turn)->ops == ops;
}

void order_queue(Order *order)
{
    Problem problem = PROBLEM_NULL;

    if (session_check_queue(order->turn.session, &problem) < 0)
        order_fail(order, &problem);
    else
        sandbox_queue(order->turn.sandbox, &order->turn);
}

void order_write(Order *order, const Schema *schema, const void *body)
{
    schema_append(&order->body, schema, body);
}

void order_say_branch(Order *order)
{
    order_say(order, MsgBranchTarget, &(MsgBranchTarget){.branch = order->turn.session->branch});
}

/* Nothing has been done of it, and its session goes on. */
static void fail_unsent(Order *order, int error)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_INTERNAL, "the session's supervisor cannot be reached now: %s; try again",
                strerror(-error));
    order_fail(order, &problem);
}

void order_send(Order *order)
{
    Turn *turn = &order->turn;
    Sandbox *sandbox = turn->sandbox;
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    if (order->body.size == 0) {
        fail_unsent(order, -ENOMEM);
        return;
    }
    turn->state = TURN_SENT;
    turn->number = sandboxes_next_number(sandbox->all);
    r = envelope_write(&message, order->ops->kind, turn->number, encoded_text(&order->body));
    if (r == 0)
        r = guest_send(sandbox->guest, &message);
    if (r < 0)
        fail_unsent(order, r);
    else if (sandbox->running == turn)
        sandbox_watch(sandbox, MAX(ORDER_SECONDS, order->ops->seconds));
}

/* Lets the order leave everything in order before anybody hears of its end. */
static void settle(Order *order, const Problem *problem)
{
    Turn *turn = &order->turn;

    if (turn->sandbox->running != turn)
        sandbox_take_out(turn);
    if (order->ops->over)
        order->ops->over(order, problem);
}

/* The order is no more; whoever waits for its turn is next. */
static void order_free(Order *order)
{
    Session *session = order->turn.session;
    Sandbox *sandbox = order->turn.sandbox;
    bool ran = sandbox_take_out(&order->turn);

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
