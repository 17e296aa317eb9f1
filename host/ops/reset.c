#include "host/ops.h"
#include "host/session.h"

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *session = order->turn.session;
    MsgEpoch said;
    int r = body_decode(&said, MsgEpoch, reply, problem);

    if (r < 0)
        return r;
    session->epoch = said.epoch = MAX(session->epoch, said.epoch);
    order_answer(order, MsgEpoch, &said);
    return 0;
}

static const OrderOps reset_ops = {.kind = MSG_RESET, .answer = answer};

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(controller, request, body);
    Order *order = session ? order_new(sizeof(*order), &reset_ops, session, request) : NULL;

    if (!order)
        return;
    order_say(order, MsgReset, &(MsgReset){.branch = session->branch});
    session_reset(session, order);
}

const Op op_reset = {.kind = MSG_RESET, .handle = handle};
