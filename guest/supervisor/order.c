#include "guest/supervisor/order.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"

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

bool order_is_active(const Order *order)
{
    return order->step;
}

int order_begin(Supervisor *supervisor, const Message *message, void (*step)(Supervisor *, Order *),
                Problem *problem)
{
    Order *order = &supervisor->order;

    if (supervisor->cell || order_is_active(order))
        return problem_set(problem, ERR_BUSY, "a call or an order is under way");
    *order = (Order){.step = step, .id = message->id};
    supervisor_wake(supervisor);
    return 0;
}

void order_advance(Supervisor *supervisor)
{
    Order *order = &supervisor->order;

    if (order_is_active(order))
        order->step(supervisor, order);
}

void order_deinit(Order *order)
{
    loop_timer_cancel(&order->limit);
    order->step = NULL;
}

void order_done(Supervisor *supervisor)
{
    order_deinit(&supervisor->order);
}

void order_refuse(Supervisor *supervisor, ErrorCode code, const char *format, ...)
{
    char text[PROBLEM_TEXT_MAX];
    Problem problem = PROBLEM_NULL;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    problem_set(&problem, code, "%s", text);
    controller_answer_problem(&supervisor->controller, supervisor->order.id, &problem);
    order_done(supervisor);
    if (supervisor->order.made)
        branch_end(take(supervisor->order.made));
}

void order_cancel(Supervisor *supervisor, const char *why)
{
    if (order_is_active(&supervisor->order))
        order_refuse(supervisor, ERR_CHECKPOINT_FAILED, "%s", why);
}

void order_on_gone(Order *order, const Checkpoint *checkpoint, const char *why)
{
    if (!order_is_active(order) || order->checkpoint != checkpoint)
        return;
    order->checkpoint = NULL;
    reason_set(order->trouble, "%s", why ? why : "it was given up");
}

int order_find_branch(Branch **ret, Supervisor *supervisor, uint64_t number, Problem *problem)
{
    Branch *branch = supervisor_find(supervisor, number);

    if (!branch || branch == supervisor->order.made)
        return problem_set(problem, ERR_NO_SUCH_SESSION, "there is no branch %" PRIu64, number);
    *ret = branch;
    return 0;
}

int order_find_checkpoint(Checkpoint **ret, Supervisor *supervisor, Text id_or_name, Problem *problem)
{
    Checkpoint *checkpoint = checkpoints_find(&supervisor->checkpoints, id_or_name);

    if (!checkpoint)
        return problem_set(problem, ERR_NO_SUCH_CHECKPOINT,
                           "no checkpoint '%.*s' is kept; it may have been lost", (int)id_or_name.size,
                           id_or_name.data);
    *ret = checkpoint;
    return 0;
}

int order_await(Supervisor *supervisor, Branch *branch)
{
    Order *order = &supervisor->order;

    if (branch->recovery.active)
        return 0;
    if (branch_is_ready(branch))
        return 1;
    if (branch->interpreter.alive)
        return 0;
    if (!order->started) {
        order->started = true;
        if (branch_start(branch) == 0)
            return 0;
    }
    order_refuse(supervisor, ERR_INTERNAL, "the interpreter could not be started: %s", branch->failure);
    return -1;
}

/* That of the birth has no id to be told by. */
static bool may_reuse(const Branch *branch)
{
    return branch_is_exact(branch) && branch->base->kind != CHECKPOINT_BIRTH;
}

int order_take_checkpoint(Supervisor *supervisor, Branch *branch, CheckpointKind kind, bool reuse)
{
    Order *order = &supervisor->order;

    if (order->checkpoint)
        return order->checkpoint->state == CHECKPOINT_KEPT;
    if (!order->asked) {
        int r = order_await(supervisor, branch);

        if (r <= 0 || branch->interpreter.asked)
            return MIN(r, 0);
        order->asked = true;
        order->implicit = !(reuse && may_reuse(branch));
        if (!order->implicit || branch_freeze(branch, kind, order->name, order->trouble) == 0) {
            order->checkpoint = branch->base;
            return order->checkpoint->state == CHECKPOINT_KEPT;
        }
    }
    order_refuse(supervisor, ERR_CHECKPOINT_FAILED, "no checkpoint could be taken: %s", order->trouble);
    return -1;
}
