#include <string.h>

#include "host/front/ops.h"
#include "host/session/checkpoint_files.h"

typedef struct RollbackOrder {
    CheckpointOrder target;
    char files[LIMIT_SESSION_NAME + 1]; /* id of the one whose files are copied; "" when it has none */
    bool staged;                        /* a copy of these is ready */
    Buf reply;                          /* to the client */
    Problem problem;                    /* or this */
} RollbackOrder;

static void write_reply(Buf *ret, const MsgRolledBackOrder *said, bool restored)
{
    const MsgRollbackReply reply = {
        .checkpoint = said->checkpoint,
        .execution_count = said->execution_count,
        .epoch = said->epoch,
        .files = text_of(restored ? "restored" : "kept"),
        .not_restored = said->not_restored,
    };

    body_encode(ret, MsgRollbackReply, &reply);
}

static void answer_client(RollbackOrder *rollback)
{
    Buf body _cleanup_(buf_deinit) = rollback->reply;

    rollback->reply = BUF_NULL;
    order_reply(&rollback->target.order, &body);
}

/* First a copy of the files, which can fail and changes nothing; */

static void on_staged(Order *order, const Problem *problem, uint64_t bytes)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    rollback->staged = !problem;
    if (rollback->staged)
        order_send(order);
    else
        order_fail(order, problem);
}

static void start(Order *order)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Problem problem = PROBLEM_NULL;

    if (!checkpoint_files_find(order->turn.sandbox, text_of(rollback->target.checkpoint), rollback->files))
        order_send(order);
    else if (checkpoint_files_stage(order, rollback->files, on_staged, &problem) < 0)
        order_fail(order, &problem);
}

/* then the variables; then the files change places, and what is in artifacts is nothing new. */

static void on_accepted(Order *order)
{
    answer_client(container_of(order, RollbackOrder, target.order));
}

static void on_restored(Order *order, const Problem *problem, uint64_t bytes)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Problem failure;

    rollback->staged = false;
    if (!problem) {
        checkpoint_files_accept(order, on_accepted);
        return;
    }
    failure = *problem;
    problem_prefix(&failure, "the variables were rolled back, but the files in /session were not restored");
    order_fail(order, &failure);
}

/* Returns whether the staged copy belongs to the checkpoint that was restored. */
static bool staged_is(const RollbackOrder *rollback, Text checkpoint)
{
    return rollback->staged && text_equal(checkpoint, rollback->files);
}

/* or, when the variables could not be, the copy is not needed. */

static void on_unstaged(Order *order, const Problem *problem, uint64_t bytes)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    if (rollback->problem.code == ERR_NONE)
        answer_client(rollback);
    else
        order_fail(order, &rollback->problem);
}

static void begin(RollbackOrder *rollback, int (*what)(Order *, FilesThen *, Problem *), FilesThen *then)
{
    Problem problem = PROBLEM_NULL;

    if (what(&rollback->target.order, then, &problem) < 0)
        order_fail(&rollback->target.order, &problem);
}

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);
    Session *session = order->turn.session;
    MsgRolledBackOrder said;
    bool matches;
    int r = body_decode(&said, MsgRolledBackOrder, reply, problem);

    if (r < 0)
        return r;
    session_note(session, session->execution_count, said.epoch);
    session->all->events->back(session, said.execution_count);
    matches = staged_is(rollback, said.checkpoint);
    write_reply(&rollback->reply, &said, matches);
    if (matches)
        begin(rollback, checkpoint_files_restore, on_restored);
    else if (rollback->staged)
        begin(rollback, checkpoint_files_unstage, on_unstaged);
    else
        answer_client(rollback);
    return 0;
}

static void refused(Order *order, const Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    rollback->problem = *problem;
    if (rollback->staged)
        begin(rollback, checkpoint_files_unstage, on_unstaged);
    else
        order_fail(order, problem);
}

static void over(Order *order, const Problem *problem)
{
    RollbackOrder *rollback = container_of(order, RollbackOrder, target.order);

    if (problem && problem->code == ERR_NO_SUCH_CHECKPOINT && *rollback->files)
        op_checkpoint_gone(&rollback->target);
    buf_deinit(&rollback->reply);
}

static const OrderOps rollback_ops = {
    .kind = MSG_ROLLBACK, .start = start, .answer = answer, .refused = refused, .over = over};

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    RollbackOrder *rollback = op_checkpoint_order(front, request, body, sizeof(*rollback), &rollback_ops);

    if (!rollback)
        return;
    order_say(&rollback->target.order, MsgRollbackOrder,
              (&(MsgRollbackOrder){.branch = rollback->target.order.turn.session->branch,
                                   .checkpoint = text_of(rollback->target.checkpoint)}));
    order_queue(&rollback->target.order);
}

const Op op_rollback = {.kind = MSG_ROLLBACK, .handle = handle};
