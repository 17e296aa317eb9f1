#include "host/ops.h"
#include "host/session.h"
#include "host/variables.h"

typedef struct Reply {
    const msgpack_object_array *names;
    uint64_t more;
} Reply;

static const Field fields[] = {
    FIELD(FIELD_ARRAY, Reply, names, true, 0),
    FIELD(FIELD_UINT, Reply, more, true, 0),
};

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Reply said = {0};
    Writer w;
    int r = fields_decode(&said, fields, ARRAY_SIZE(fields), reply, problem);

    if (r == 0)
        r = variables_check(said.names, LIMIT_NAMESPACE, problem);
    if (r < 0)
        return r;
    writer_init(&w, &body);
    write_map(&w, 2);
    write_key(&w, "names");
    variables_write(&w, said.names);
    write_key(&w, "more");
    write_uint(&w, said.more);
    writer_finish(&w);
    order_reply(order, &body);
    return 0;
}

static const OrderOps namespace_ops = {.kind = MSG_NAMESPACE, .answer = answer};

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(controller, request, body);
    Order *order = session ? order_new(sizeof(*order), &namespace_ops, session, request) : NULL;

    if (!order)
        return;
    order_write_branch(order);
    session_order(session, order);
}

const Op op_namespace = {.kind = MSG_NAMESPACE, .handle = handle};
