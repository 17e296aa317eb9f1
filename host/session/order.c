#include "host/session/order.h"

#include <errno.h>
#include <string.h>

/* The supervisor answers everything within this, but for what it must first end. */
#define ORDER_SECONDS 60.0
/* The same of one that was sent long before its turn came: what it ends has ended. */
#define SENT_SECONDS 8.0

static Order *of(GuestRequest *to_guest)
{
    return container_of(to_guest, Order, to_guest);
}

/* ---- its turn ---- */

/* Starts an order. An order that was sent while it waited has only its answer to come. */
static void start(GuestRequest *to_guest)
{
    Order *order = of(to_guest);

    if (to_guest->state == REQUEST_SENT)
        sandbox_watch(to_guest->sandbox, MAX(SENT_SECONDS, of(to_guest)->ops->seconds));
    else if (order->ops->start)
        order->ops->start(order);
    else
        order_send(order);
}

/* Takes the answer: no second one is for the order, which may still have files to see to. */
static void take_answer(Order *order)
{
    GuestRequest *to_guest = &order->to_guest;

    to_guest->state = REQUEST_ANSWERED;
    if (to_guest->sandbox->running == to_guest)
        sandbox_unwatch(to_guest->sandbox);
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

static int on_message(GuestRequest *to_guest, const Message *message, Problem *problem)
{
    Order *order = of(to_guest);

    if (message->kind == MSG_ERROR)
        return on_refused(order, message, problem);
    if (message->kind != MSG_REPLY)
        return 0;
    take_answer(order);
    return order->ops->answer(order, &message->body, problem);
}

static void on_disconnected(GuestRequest *to_guest)
{
    Problem problem = PROBLEM_NULL;

    problem_set(
        &problem, ERR_INTERNAL,
        "the connection to the supervisor of the session broke; check whether the operation was done");
    order_fail(of(to_guest), &problem);
}

static void fail(GuestRequest *to_guest, const Problem *problem)
{
    order_fail(of(to_guest), problem);
}

static void end(GuestRequest *to_guest, const char *reason)
{
    Problem problem = PROBLEM_NULL;

    session_closed_problem(to_guest->session, reason, &problem);
    order_fail(of(to_guest), &problem);
}

static void leave(GuestRequest *to_guest)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down");
    order_fail(of(to_guest), &problem);
}

static const GuestRequestOps request_ops = {
    .outlives_session = true,
    .start = start,
    .message = on_message,
    .cut_off = on_disconnected,
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
    guest_request_init(&order->to_guest, &request_ops, LANE_EXCLUSIVE, session->sandbox, session);
    order->to_guest.kind = ops->kind;
    order->ops = ops;
    order->request = request;
    return order;
}

bool order_is(const GuestRequest *to_guest, const OrderOps *ops)
{
    return to_guest->ops == &request_ops && of((GuestRequest *)to_guest)->ops == ops;
}

void order_queue(Order *order)
{
    Problem problem = PROBLEM_NULL;

    if (session_check_queue(order->to_guest.session, &problem) < 0)
        order_fail(order, &problem);
    else
        sandbox_queue(order->to_guest.sandbox, &order->to_guest);
}

void order_write(Order *order, const Schema *schema, const void *body)
{
    schema_append(&order->to_guest.body, schema, body);
}

void order_set_branch(Order *order)
{
    order_set_body(order, MsgBranchTarget, &(MsgBranchTarget){.branch = order->to_guest.session->branch});
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
    GuestRequest *to_guest = &order->to_guest;
    Sandbox *sandbox = to_guest->sandbox;
    int r = to_guest->body.size == 0 ? -ENOMEM : guest_request_send(to_guest);

    if (r < 0)
        fail_unsent(order, r);
    else if (sandbox->running == to_guest)
        sandbox_watch(sandbox, MAX(ORDER_SECONDS, order->ops->seconds));
}

/* Lets the order leave everything in order before anybody hears of its end. */
static void settle(Order *order, const Problem *problem)
{
    GuestRequest *to_guest = &order->to_guest;

    if (to_guest->sandbox->running != to_guest)
        sandbox_take_out(to_guest);
    if (order->ops->over)
        order->ops->over(order, problem);
}

/* The order is no more; whoever waits for its turn is next. */
static void order_free(Order *order)
{
    Session *session = order->to_guest.session;
    Sandbox *sandbox = order->to_guest.sandbox;
    bool ran = sandbox_take_out(&order->to_guest);

    guest_request_detach_step(&order->to_guest);
    buf_deinit(&order->to_guest.body);
    free(order);
    if (ran)
        sandbox_exclusive_over(sandbox, session);
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
