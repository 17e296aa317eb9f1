#include "host/ops.h"
#include "host/session.h"

typedef struct ResetReply {
    uint64_t epoch;
} ResetReply;

static const Field fields[] = {FIELD(FIELD_UINT, ResetReply, epoch, true, 0)};

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *session = order->turn.session;
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    ResetReply said = {0};
    Writer w;
    int r = fields_decode(&said, fields, ARRAY_SIZE(fields), reply, problem);

    if (r < 0)
        return r;
    session->epoch = MAX(session->epoch, said.epoch);
    writer_init(&w, &body);
    write_map(&w, 1);
    write_key(&w, "epoch");
    write_uint(&w, session->epoch);
    writer_finish(&w);
    order_reply(order, &body);
    return 0;
}

static const OrderOps reset_ops = {.kind = MSG_RESET, .answer = answer};

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(controller, request, body);
    Order *order = session ? order_new(sizeof(*order), &reset_ops, session, request) : NULL;

    if (!order)
        return;
    order_write_branch(order);
    session_reset(session, order);
}

const Op op_reset = {.kind = MSG_RESET, .handle = handle};
