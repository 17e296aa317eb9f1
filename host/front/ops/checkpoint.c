#include <string.h>

#include "host/front/ops.h"
#include "host/session/checkpoint_files.h"

typedef struct TakeOrder {
    Order order;
    char name[LIMIT_SESSION_NAME + 1]; /* "": none */
    bool files;
    bool copied;
    uint64_t bytes;
} TakeOrder;

/* The files come first: when they cannot be kept no checkpoint is taken. */
static void on_copied(Order *order, const Problem *problem, uint64_t bytes)
{
    TakeOrder *checkpoint = container_of(order, TakeOrder, order);

    checkpoint->copied = !problem;
    checkpoint->bytes = bytes;
    if (checkpoint->copied)
        order_send(order);
    else
        order_fail(order, problem);
}

static void start(Order *order)
{
    TakeOrder *checkpoint = container_of(order, TakeOrder, order);
    Problem problem = PROBLEM_NULL;

    if (!checkpoint->files)
        order_send(order);
    else if (checkpoint_files_take(order, on_copied, &problem) < 0)
        order_fail(order, &problem);
}

static int keep_files(TakeOrder *checkpoint, const MsgGuestCheckpoint *said, Problem *problem)
{
    Text name = *checkpoint->name ? text_of(checkpoint->name) : (Text){0};
    int r = checkpoint_files_keep(checkpoint->order.turn.sandbox, said->id, name, checkpoint->bytes, problem);

    if (r == 0)
        checkpoint->copied = false;
    return r;
}

static void reply_to_client(Order *order, const MsgTakenOrder *said)
{
    Sandbox *sandbox = order->turn.sandbox;
    char name[BRANCH_NAME_SIZE];
    MsgTaken taken = {.dropped = said->dropped};

    for (uint32_t i = 0; i < value_count(&said->dropped); i++)
        checkpoint_files_drop(sandbox, value_text(&said->dropped, i));
    taken.checkpoint =
        checkpoint_say(sandbox->trunk, &said->checkpoint, container_of(order, TakeOrder, order)->files, name);
    order_answer(order, MsgTaken, &taken);
}

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    TakeOrder *checkpoint = container_of(order, TakeOrder, order);
    MsgTakenOrder said;
    int r = body_decode(&said, MsgTakenOrder, reply, problem);

    if (r < 0)
        return r;
    if (checkpoint->copied && keep_files(checkpoint, &said.checkpoint, problem) < 0) {
        Text id = said.checkpoint.id;

        problem_prefix(problem, "the checkpoint %.*s was taken, but without the files", (int)id.size,
                       id.data);
        order_fail(order, problem);
        return 0;
    }
    reply_to_client(order, &said);
    return 0;
}

static void over(Order *order, const Problem *problem)
{
    if (container_of(order, TakeOrder, order)->copied)
        checkpoint_files_give_up(order->turn.sandbox);
}

static const OrderOps checkpoint_ops = {
    .kind = MSG_CHECKPOINT, .start = start, .answer = answer, .over = over};

static void queue(Session *session, Request *request, const MsgTake *asked)
{
    TakeOrder *checkpoint = order_new(sizeof(*checkpoint), &checkpoint_ops, session, request);

    if (!checkpoint)
        return;
    checkpoint->files = asked->files;
    memcpy(checkpoint->name, asked->name.data ? asked->name.data : "", asked->name.size);
    order_say(&checkpoint->order, MsgTakeOrder,
              (&(MsgTakeOrder){.branch = session->branch, .name = asked->name}));
    order_queue(&checkpoint->order);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgTake asked;
    Session *session;

    if (!op_decode(request, &asked, MsgTake, body))
        return;
    session = op_session(front, request, asked.session, asked.instance);
    if (!session)
        return;
    if (asked.name.data && !name_valid(asked.name))
        request_fail_text(
            request, ERR_BAD_REQUEST,
            "a checkpoint name has 1 to %u characters of A-Z a-z 0-9 . _ - and begins with a letter or digit",
            LIMIT_SESSION_NAME);
    else
        queue(session, request, &asked);
}

const Op op_checkpoint = {.kind = MSG_CHECKPOINT, .handle = handle};
