#include "host/envelope.h"
#include "host/ops.h"
#include "host/session.h"
#include "host/sessions.h"

typedef struct BranchOrder {
    Order order;     /* of its origin */
    Session *branch; /* that is being made; it ends by this order or with its sandbox */
} BranchOrder;

typedef struct Reply {
    uint64_t execution_count, epoch;
    Text checkpoint;
    const msgpack_object_array *not_restored;
} Reply;

static const Field reply_fields[] = {
    FIELD(FIELD_UINT, Reply, execution_count, true, 0),
    FIELD(FIELD_UINT, Reply, epoch, true, 0),
    FIELD(FIELD_TEXT, Reply, checkpoint, false, LIMIT_SESSION_NAME),
    FIELD(FIELD_ARRAY, Reply, not_restored, false, 0),
};

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *branch = container_of(order, BranchOrder, order)->branch;
    Reply said = {0};
    int r = fields_decode(&said, reply_fields, ARRAY_SIZE(reply_fields), reply, problem);

    if (r < 0)
        return r;
    branch->epoch = MAX(branch->epoch, said.epoch);
    branch->execution_count = said.execution_count;
    session_branch_made(branch);
    order_reply(order, NULL);
    return 0;
}

static void over(Order *order, const Problem *problem)
{
    if (problem)
        session_end_branch(container_of(order, BranchOrder, order)->branch, problem);
}

static const OrderOps branch_ops = {.kind = MSG_BRANCH, .answer = answer, .over = over};

typedef struct BranchRequest {
    Text session, instance;
    Text name;
    Text checkpoint;
} BranchRequest;

static const Field fields[] = {
    FIELD(FIELD_TEXT, BranchRequest, session, true, 0),
    FIELD(FIELD_TEXT, BranchRequest, instance, false, 0),
    FIELD(FIELD_TEXT, BranchRequest, name, true, 0),
    FIELD(FIELD_TEXT, BranchRequest, checkpoint, false, LIMIT_SESSION_NAME),
};

static int write_body(Buf *ret, const Session *origin, const Session *branch, Text checkpoint)
{
    Writer w;

    writer_init(&w, ret);
    write_map(&w, 3);
    write_key(&w, "branch");
    write_uint(&w, branch->branch);
    write_key(&w, "from");
    write_uint(&w, origin->branch);
    write_optional(&w, "checkpoint", checkpoint);
    return writer_finish(&w);
}

/* The client is answered as by `open`, when the branch is ready. */
static void make(Session *origin, Request *request, const BranchRequest *asked)
{
    Problem problem = PROBLEM_NULL;
    BranchOrder *order;
    Session *branch;

    if (session_start_branch(&branch, origin, asked->name, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    session_wait_open(branch, request);
    order = order_new(sizeof(*order), &branch_ops, origin, NULL);
    if (!order) {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        session_end_branch(branch, &problem);
        return;
    }
    order->branch = branch;
    write_body(&order->order.body, origin, branch, asked->checkpoint);
    session_order(origin, &order->order);
}

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    BranchRequest asked = {0};
    Session *origin;

    if (!op_decode(request, &asked, fields, ARRAY_SIZE(fields), body))
        return;
    origin = op_session(controller, request, asked.session, asked.instance);
    if (!origin)
        return;
    if (asked.checkpoint.data && !session_name_valid(asked.checkpoint))
        request_fail_text(request, ERR_NO_SUCH_CHECKPOINT, "no checkpoint has such a name");
    else
        make(origin, request, &asked);
}

const Op op_branch = {.kind = MSG_BRANCH, .handle = handle};
