#include "host/front/ops.h"

typedef struct BranchOrder {
    Order order;     /* of its origin */
    Session *branch; /* in the making; it ends by this order or with its sandbox */
} BranchOrder;

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *branch = container_of(order, BranchOrder, order)->branch;
    MsgBranchMade said;
    int r = body_decode(&said, MsgBranchMade, reply, problem);

    if (r < 0)
        return r;
    session_branch_made(branch, said.execution_count, said.epoch);
    order_reply(order, NULL);
    return 0;
}

static void over(Order *order, const Problem *problem)
{
    if (problem)
        session_end_branch(container_of(order, BranchOrder, order)->branch, problem);
}

static const OrderOps branch_ops = {.kind = MSG_BRANCH, .answer = answer, .over = over};

/* The client is answered as by `open`, when the branch is ready. */
static void make(Session *origin, Request *request, const MsgBranch *asked)
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
    order_say(&order->order, MsgBranchOrder,
              (&(MsgBranchOrder){
                  .branch = branch->branch, .from = origin->branch, .checkpoint = asked->checkpoint}));
    order_queue(&order->order);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgBranch asked;
    Session *origin;

    if (!op_decode(request, &asked, MsgBranch, body))
        return;
    origin = op_session(front, request, asked.session, asked.instance);
    if (!origin)
        return;
    if (asked.checkpoint.data && !name_valid(asked.checkpoint))
        request_fail_text(request, ERR_NO_SUCH_CHECKPOINT,
                          "the session has no checkpoint with this id or name");
    else
        make(origin, request, &asked);
}

const Op op_branch = {.kind = MSG_BRANCH, .handle = handle};
