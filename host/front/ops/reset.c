#include "host/front/ops.h"

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *session = order->turn.session;
    MsgEpoch said;
    int r = body_decode(&said, MsgEpoch, reply, problem);

    if (r < 0)
        return r;
    session_note(session, session->execution_count, said.epoch);
    session->all->events->back(session, 0);
    said.epoch = session->epoch;
    order_answer(order, MsgEpoch, &said);
    return 0;
}

static const OrderOps reset_ops = {.kind = MSG_RESET, .answer = answer};

/* Begins a reset: it ends the session's call that runs, and goes before everything that waits. */
static void begin(Session *session, Order *order)
{
    Call *running = call_running(session);

    sandbox_queue_first(session->sandbox, &order->turn);
    if (!running) {
        sandbox_next(session->sandbox);
        return;
    }
    asks_interrupt(running);
    order_send(order);
}

/* Refuses a reset for which too many others wait: it goes before a full queue of calls, but not before
 * resets. */
static Session *check(Session *session, Request *request)
{
    if (!session || sandbox_count_waiting(session->sandbox, session) < 2 * LIMIT_QUEUE)
        return session;
    request_fail_text(request, ERR_BUSY, "%u resets already wait for the session '%s'", LIMIT_QUEUE,
                      session->name);
    return NULL;
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = check(op_target(front, request, body), request);
    Order *order = session ? order_new(sizeof(*order), &reset_ops, session, request) : NULL;

    if (!order)
        return;
    order_say(order, MsgReset, &(MsgReset){.branch = session->branch});
    begin(session, order);
}

const Op op_reset = {.kind = MSG_RESET, .handle = handle};
