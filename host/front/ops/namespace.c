#include "host/front/ops.h"

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    MsgNamespace said;
    int r = body_decode(&said, MsgNamespace, reply, problem);

    if (r == 0)
        order_answer(order, MsgNamespace, &said);
    return r;
}

static const OrderOps namespace_ops = {.kind = MSG_NAMESPACE, .answer = answer};

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);
    Order *order = session ? order_new(sizeof(*order), &namespace_ops, session, request) : NULL;

    if (!order)
        return;
    order_say_branch(order);
    order_queue(order);
}

const Op op_namespace = {.kind = MSG_NAMESPACE, .handle = handle};
