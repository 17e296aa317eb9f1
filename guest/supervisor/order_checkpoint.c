/* checkpoint, checkpoints, drop */
#include <string.h>

#include "guest/supervisor/order_internal.h"

/* checkpoint */

static void checkpoint_taken(Orders *orders)
{
    Checkpoints *set = &orders->branches->checkpoints;
    MsgTakenOrder taken = {.dropped = checkpoints_say_evicted(set)};
    CheckpointRow row;

    checkpoint_say(&row, orders->order.checkpoint);
    taken.checkpoint = row.said;
    if (order_answer(orders, orders->order.id, MsgTakenOrder, &taken) == 0)
        checkpoints_forget_evicted(set);
    order_done(orders);
}

/* Such a name could be mistaken for another one's id. */
static bool is_id(Text text)
{
    size_t digits = 0;

    while (1 + digits < text.size && text.data[1 + digits] >= '0' && text.data[1 + digits] <= '9')
        digits++;
    return text.data[0] == 'c' && digits > 0 && 1 + digits == text.size;
}

static int check_name(const Orders *orders, Text name, Problem *problem)
{
    if (!name_valid(name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "`name` is 1 to %u of A-Z a-z 0-9 . _ -, beginning with a letter or digit",
                           LIMIT_SESSION_NAME);
    if (is_id(name))
        return problem_set(problem, ERR_BAD_REQUEST, "`name` looks like the id of a checkpoint");
    if (checkpoints_find(&orders->branches->checkpoints, name))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "a checkpoint named '%.*s' is kept already; drop it first", (int)name.size,
                           name.data);
    return 0;
}

int order_checkpoint(Orders *orders, const Message *message, Problem *problem)
{
    MsgTakeOrder body;
    Branch *branch = NULL;
    int r = body_decode(&body, MsgTakeOrder, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, body.branch, problem);
    if (r == 0 && body.name.data)
        r = check_name(orders, body.name, problem);
    if (r == 0)
        r = order_begin(orders, message, branch, problem);
    if (r < 0)
        return r;
    if (body.name.data)
        memcpy(orders->order.name, body.name.data, body.name.size);
    order_take_checkpoint(orders, CHECKPOINT_BY_HAND, checkpoint_taken);
    return 0;
}

/* checkpoints */

int order_checkpoints(Orders *orders, const Message *message, Problem *problem)
{
    const MsgGuestCheckpoints reply = {.checkpoints = checkpoints_say(&orders->branches->checkpoints)};
    MsgNothing nothing;
    int r = body_decode(&nothing, MsgNothing, &message->body, problem);

    if (r < 0)
        return r;
    checkpoints_measure(&orders->branches->checkpoints);
    order_answer(orders, message->id, MsgGuestCheckpoints, &reply);
    return 0;
}

/* drop */

int order_drop(Orders *orders, const Message *message, Problem *problem)
{
    Checkpoint *checkpoint = NULL;
    MsgDropOrder body;
    int r = body_decode(&body, MsgDropOrder, &message->body, problem);

    if (r == 0)
        r = order_find_checkpoint(&checkpoint, orders, body.checkpoint, problem);
    if (r == 0)
        r = order_check_idle(orders, problem);
    if (r < 0)
        return r;
    checkpoint_drop(checkpoint, NULL);
    order_answer(orders, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}
