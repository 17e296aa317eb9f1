/* What orders have in common: they begin, wait, and are over. */
#include "guest/supervisor/order/order.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/order/internal.h"

OrderHandler order_handler(MessageKind kind)
{
    static const struct {
        MessageKind kind;
        OrderHandler handle;
    } handlers[] = {
        {MSG_RESET, order_reset},
        {MSG_CLOSE, order_close},
        {MSG_CHECKPOINT, order_checkpoint},
        {MSG_CHECKPOINTS, order_checkpoints},
        {MSG_DROP, order_drop},
        {MSG_ROLLBACK, order_rollback},
        {MSG_BRANCH, order_branch},
        {MSG_COMMIT, order_commit},
        {MSG_NAMESPACE, order_namespace},
    };

    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++)
        if (handlers[i].kind == kind)
            return handlers[i].handle;
    return NULL;
}

/* What an order is about */

int order_find_branch(Branch **ret, const Orders *orders, uint64_t number, Problem *problem)
{
    Branch *branch = branches_find(orders->branches, number);

    if (!branch || branch == orders->order.made)
        return problem_set(problem, ERR_NO_SUCH_SESSION, "there is no branch %" PRIu64, number);
    *ret = branch;
    return 0;
}

int order_find_checkpoint(Checkpoint **ret, const Orders *orders, Text id_or_name, Problem *problem)
{
    Checkpoint *checkpoint = checkpoints_find(&orders->branches->checkpoints, id_or_name);

    if (!checkpoint)
        return problem_set(problem, ERR_NO_SUCH_CHECKPOINT,
                           "no checkpoint '%.*s' is kept; it may have been lost", (int)id_or_name.size,
                           id_or_name.data);
    *ret = checkpoint;
    return 0;
}

/* Beginning and end */

bool orders_are_active(const Orders *orders)
{
    return orders->order.awaits != AWAITS_NOTHING;
}

int order_check_idle(const Orders *orders, Problem *problem)
{
    if (branches_are_busy(orders->branches))
        return problem_set(problem, ERR_BUSY, "a call or an order is under way");
    return 0;
}

int order_begin(Orders *orders, const Message *message, Branch *branch, Problem *problem)
{
    int r = order_check_idle(orders, problem);

    if (r == 0)
        orders->order = (Order){.id = message->id, .branch = branch};
    return r;
}

void order_done(Orders *orders)
{
    loop_timer_cancel(&orders->order.limit);
    orders->order.awaits = AWAITS_NOTHING;
}

void order_refuse(Orders *orders, ErrorCode code, const char *format, ...)
{
    char text[PROBLEM_TEXT_MAX];
    Problem problem = PROBLEM_NULL;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    problem_set(&problem, code, "%s", text);
    link_refuse_problem(orders->link, orders->order.id, &problem);
    order_done(orders);
    if (orders->order.made)
        branch_end(take(orders->order.made));
}

void order_cancel(Orders *orders, const char *why)
{
    if (orders_are_active(orders))
        order_refuse(orders, ERR_CHECKPOINT_FAILED, "%s", why);
}

/* Waiting */

void order_await(Orders *orders, OrderAwaits awaits, void (*next)(Orders *))
{
    orders->order.awaits = awaits;
    orders->order.next = next;
    branches_changed(orders->branches);
}

/* Each of these tells whether what is awaited is there. It may refuse the order. */

static bool has_interpreter(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;

    if (branch_is_recovering(branch))
        return false;
    if (branch_is_ready(branch))
        return true;
    if (interpreter_is_alive(&branch->interpreter))
        return false;
    if (!order->started) {
        order->started = true;
        if (branch_start(branch) == 0)
            return false;
    }
    order_refuse(orders, ERR_INTERNAL, "the interpreter could not be started: %s", branch->failure);
    return false;
}

static void refuse_without_checkpoint(Orders *orders)
{
    order_refuse(orders, ERR_CHECKPOINT_FAILED, "no checkpoint could be taken: %s", orders->order.trouble);
}

static bool has_checkpoint(Orders *orders)
{
    const Checkpoint *checkpoint = orders->order.checkpoint;

    if (!checkpoint)
        refuse_without_checkpoint(orders);
    return checkpoint && !checkpoint_is_pending(checkpoint);
}

static bool can_be_answered(Orders *orders)
{
    const Branch *branch = orders->order.branch;

    if (!branch_is_ready(branch) || branch->epoch != orders->order.epoch)
        order_refuse(orders, ERR_INTERNAL, "the interpreter was lost before it had listed its variables");
    return false; /* the answer is a message */
}

static bool is_there(Orders *orders)
{
    const Order *order = &orders->order;

    switch (order->awaits) {
    case AWAITS_NOTHING:
        return false;
    case AWAITS_INTERPRETER:
        return has_interpreter(orders);
    case AWAITS_LISTENER:
        return has_interpreter(orders) && !order->branch->interpreter.asked;
    case AWAITS_CHECKPOINT:
        return has_checkpoint(orders);
    case AWAITS_BRANCH:
        return !branch_is_recovering(order->branch);
    case AWAITS_ANSWER:
        return can_be_answered(orders);
    }
    return false;
}

void orders_advance(Orders *orders)
{
    if (is_there(orders))
        orders->order.next(orders);
}

void orders_on_gone(Orders *orders, const Checkpoint *checkpoint, const char *why)
{
    Order *order = &orders->order;

    if (!orders_are_active(orders) || order->checkpoint != checkpoint)
        return;
    order->checkpoint = NULL;
    reason_set(order->trouble, "%s", why ? why : "it was given up");
}

/* Checkpoints */

/* The birth checkpoint has no id that could be told. */
static bool may_reuse(const Order *order)
{
    const Branch *branch = order->branch;

    return order->kind == CHECKPOINT_AUTOMATIC && branch_is_exact(branch) &&
           branch->base->kind != CHECKPOINT_BIRTH;
}

static void freeze(Orders *orders)
{
    Order *order = &orders->order;

    order->implicit = !may_reuse(order);
    if (order->implicit && branch_freeze(order->branch, order->kind, order->name, order->trouble) < 0) {
        refuse_without_checkpoint(orders);
        return;
    }
    order->checkpoint = order->branch->base;
    order_await(orders, AWAITS_CHECKPOINT, order->taken);
}

void order_take_checkpoint(Orders *orders, CheckpointKind kind, void (*next)(Orders *))
{
    orders->order.kind = kind;
    orders->order.taken = next;
    order_await(orders, AWAITS_LISTENER, freeze);
}

/* Their life */

void orders_init(Orders *orders, Branches *branches, Calls *calls, Link *link)
{
    *orders = (Orders){.branches = branches, .calls = calls, .link = link};
}

void orders_deinit(Orders *orders)
{
    order_done(orders);
}
