/* Orders begin, wait, and are over. Most of them have files of their own. */
#include "guest/supervisor/order/order.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "guest/channel.h"
#include "proto/base/clock.h"

/* ---- close, reset ---- */

static int order_close(Orders *orders, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, body.branch, problem);
    if (!branch)
        return r;
    if (branch->number == 0)
        return problem_set(problem, ERR_BAD_REQUEST, "the session itself ends with `stop`");
    if (orders_are_about(orders, branch))
        order_cancel(orders, "the branch was closed meanwhile");
    calls_end_closed(orders->calls, branch);
    branch_end(branch);
    order_answer(orders, message->id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* The reset that waits for that branch; of NULL: an unused one. */
static Reset *find_reset(Orders *orders, const Branch *branch)
{
    for (size_t i = 0; i < ARRAY_SIZE(orders->resets); i++)
        if (orders->resets[i].branch == branch)
            return &orders->resets[i];
    return NULL;
}

void orders_on_started(Orders *orders, Branch *branch)
{
    Reset *reset = find_reset(orders, branch);

    if (!reset)
        return;
    reset->branch = NULL;
    order_answer(orders, reset->id, MsgEpoch, &(MsgEpoch){.epoch = branch->epoch});
}

/* Begins the branch anew. A copy of the pristine checkpoint in the making will do, as nothing has run in it.
 */
static void begin_anew(Orders *orders, Branch *branch)
{
    bool begins = branch_is_recovering(branch) && branch->recovery.purpose == COPY_ANEW;

    if (!begins)
        branch_end_processes(branch);
    calls_end_reset(orders->calls, branch);
    if (begins)
        return;
    branch_forget_line(branch);
    branch_forget_between(branch);
    branch_start(branch);
}

static int order_reset(Orders *orders, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    Reset *reset;
    MsgReset body;
    int r = body_decode(&body, MsgReset, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, uint_or(body.branch, 0), problem);
    if (!branch)
        return r;
    /* A reset under way is done, as the state that it replaces is gone. */
    orders_on_started(orders, branch);
    if (orders_are_about(orders, branch))
        order_cancel(orders, "the session was reset");
    reset = find_reset(orders, NULL);
    if (!reset)
        return problem_set(problem, ERR_INTERNAL, "too many resets are in progress");
    *reset = (Reset){.branch = branch, .id = message->id};
    branch->epoch++;
    begin_anew(orders, branch);
    return 0;
}

/* ---- context ---- */

#define PLACE_LIMIT (30 * NSEC_PER_SEC)

static void on_place_due(LoopTimer *timer)
{
    order_refuse(container_of(timer, Orders, order.limit), ERR_INTERNAL,
                 "the context did not get ready in time");
}

static void answer_context(Orders *orders)
{
    Order *order = &orders->order;
    const Branch *branch = order->branch;

    if (branch->misplaced[0]) {
        order_refuse(orders, ERR_BAD_REQUEST, "%s", branch->misplaced);
        return;
    }
    order->made = NULL;
    order_answer(orders, order->id, MsgBranchMade,
                 (&(MsgBranchMade){.execution_count = branch->execution_count, .epoch = branch->epoch}));
    order_done(orders);
}

static void started(Orders *orders)
{
    orders->order.epoch = orders->order.branch->epoch;
    order_await(orders, AWAITS_PLACE, answer_context);
}

static Branch *make(Orders *orders, const MsgContextOrder *asked)
{
    Branch *branch = branch_new(orders->branches, asked->branch);

    return branch && branch_set_place(branch, asked->language, asked->cwd) < 0 ? branch_free(branch) : branch;
}

static int order_context(Orders *orders, const Message *message, Problem *problem)
{
    Order *order = &orders->order;
    MsgContextOrder body;
    int r = body_decode(&body, MsgContextOrder, &message->body, problem);

    if (r == 0)
        r = order_check_new(orders, body.branch, problem);
    if (r == 0)
        r = order_begin(orders, message, NULL, problem);
    if (r < 0)
        return r;
    order->branch = order->made = make(orders, &body);
    if (!order->made)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    r = loop_timer_set(orders->branches->loop, &order->limit, clock_now() + PLACE_LIMIT, on_place_due);
    if (r < 0)
        order_refuse(orders, ERR_INTERNAL, "%s", strerror(-r));
    else
        order_await(orders, AWAITS_INTERPRETER, started);
    return 0;
}

/* ---- namespace ---- */

#define ANSWER_LIMIT (5 * NSEC_PER_SEC)

static void on_answer_due(LoopTimer *timer)
{
    order_refuse(container_of(timer, Orders, order.limit), ERR_INTERNAL,
                 "the interpreter did not list its variables in time; a thread of the code may keep it busy");
}

static int ask(Branch *branch, uint64_t id)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r = channel_say(&frame, MSG_NAMESPACE, id, MsgNothing, &(MsgNothing){0});

    return r < 0 ? r : interpreter_send(&branch->interpreter, &frame);
}

static void namespace_ask(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;
    int r;

    order->epoch = branch->epoch;
    r = ask(branch, ++branch->interpreter.listings.asked);
    if (r == 0)
        r = loop_timer_set(branch->set->loop, &order->limit, clock_now() + ANSWER_LIMIT, on_answer_due);
    if (r < 0)
        order_refuse(orders, ERR_INTERNAL, "the interpreter cannot be asked: %s", strerror(-r));
    else
        order_await(orders, AWAITS_ANSWER, NULL);
}

static int order_namespace(Orders *orders, const Message *message, Problem *problem)
{
    Branch *branch = NULL;
    MsgBranchTarget body;
    int r = body_decode(&body, MsgBranchTarget, &message->body, problem);

    if (r == 0)
        r = order_find_branch(&branch, orders, body.branch, problem);
    if (r == 0 && branch_is_foreign(branch))
        r = problem_set(problem, ERR_BAD_REQUEST, "the variables of a context of %s are not listed",
                        branch->place.language);
    if (r == 0)
        r = order_begin(orders, message, branch, problem);
    if (r == 0)
        order_await(orders, AWAITS_INTERPRETER, namespace_ask);
    return r;
}

/* An answer that comes too late is nobody's. */
int orders_on_namespace(Orders *orders, Branch *branch, const Message *message, Problem *problem)
{
    const Order *order = &orders->order;
    Inquiries *listings = &branch->interpreter.listings;
    bool awaited =
        order->awaits == AWAITS_ANSWER && order->branch == branch && message->id == listings->asked;
    MsgNamespace said;
    int r;

    if (!inquiries_answered(listings, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`namespace` that answers nothing");
    r = body_decode(&said, MsgNamespace, &message->body, problem);
    if (r < 0 || !awaited)
        return r;
    order_answer(orders, order->id, MsgNamespace, &said);
    order_done(orders);
    return 0;
}

/* ---- all orders ---- */

/* The time for an interpreter that owes a checkpoint, once another is wanted. */
#define LISTENER_LIMIT (5 * NSEC_PER_SEC)

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
        {MSG_CONTEXT, order_context},
        {MSG_COMMIT, order_commit},
        {MSG_NAMESPACE, order_namespace},
        {MSG_SAVE, order_move},
        {MSG_LOAD, order_move},
    };

    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++)
        if (handlers[i].kind == kind)
            return handlers[i].handle;
    return NULL;
}

/* ---- branches and checkpoints of an order ---- */

int order_find_branch(Branch **ret, const Orders *orders, uint64_t number, Problem *problem)
{
    Branch *branch = branches_find(orders->branches, number);

    if (!branch || branch == orders->order.made)
        return problem_set(problem, ERR_NO_SUCH_SESSION, "there is no branch %" PRIu64, number);
    *ret = branch;
    return 0;
}

int order_check_new(const Orders *orders, uint64_t number, Problem *problem)
{
    if (branches_find(orders->branches, number))
        return problem_set(problem, ERR_BRANCH_EXISTS, "branch %" PRIu64 " exists", number);
    if (orders->branches->count > LIMIT_BRANCHES)
        return problem_set(problem, ERR_TOO_LARGE, "a session may have at most %u branches; close one first",
                           LIMIT_BRANCHES);
    return 0;
}

int order_find_checkpoint(Checkpoint **ret, const Orders *orders, Text id_or_name, Problem *problem)
{
    Checkpoint *checkpoint = checkpoints_find(&orders->branches->checkpoints, id_or_name);

    if (!checkpoint)
        return problem_set(problem, ERR_NO_SUCH_CHECKPOINT,
                           "there is no checkpoint '%.*s'; `limpet checkpoints` lists those that there are",
                           (int)id_or_name.size, id_or_name.data);
    *ret = checkpoint;
    return 0;
}

/* ---- beginning and end ---- */

bool orders_are_about(const Orders *orders, const Branch *branch)
{
    const Order *order = &orders->order;

    return orders_are_active(orders) &&
           (order->branch == branch || order->into == branch || order->made == branch);
}

int order_check_idle(const Orders *orders, Problem *problem)
{
    if (branches_are_busy(orders->branches))
        return problem_set(problem, ERR_BUSY, "a call or an order is in progress");
    return 0;
}

int order_begin(Orders *orders, const Message *message, Branch *branch, Problem *problem)
{
    int r = order_check_idle(orders, problem);

    if (r == 0)
        orders->order = (Order){.id = message->id, .branch = branch, .passed = -1, .image = -1};
    return r;
}

void order_done(Orders *orders)
{
    Order *order = &orders->order;

    loop_timer_cancel(&order->limit);
    if (orders_are_active(orders) && order->loads)
        branch_vacate(order->branch);
    if (orders_are_active(orders)) {
        close_fd(&order->passed);
        close_fd(&order->image);
    }
    free(order->path);
    buf_deinit(&order->unreported);
    *order = (Order){0};
}

void order_refuse(Orders *orders, ErrorCode code, const char *format, ...)
{
    Branch *made = orders->order.made;
    char text[PROBLEM_TEXT_MAX];
    Problem problem = PROBLEM_NULL;
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    problem_set(&problem, code, "%s", text);
    link_refuse_problem(orders->link, orders->order.id, &problem);
    order_done(orders);
    if (made)
        branch_end(made);
}

void order_cancel(Orders *orders, const char *why)
{
    if (orders_are_active(orders))
        order_refuse(orders, ERR_CHECKPOINT_FAILED, "%s", why);
}

/* Its interpreter gives it up for the next message. */
/* Variables that are being loaded come in any case. */
void orders_on_controller_lost(Orders *orders)
{
    if (!orders->order.loads)
        order_cancel(orders, "the controller that asked for it is gone");
}

/* ---- waiting ---- */

void order_await(Orders *orders, OrderAwaits awaits, void (*next)(Orders *))
{
    Branch *branch = orders->order.branch;

    orders->order.awaits = awaits;
    orders->order.next = next;
    if (branch && (awaits == AWAITS_INTERPRETER || awaits == AWAITS_LISTENER) &&
        branch->state == BRANCH_EMPTY)
        branch_start(branch);
    branches_changed(orders->branches);
}

/* Each of these tells whether what is awaited is there. It may refuse the order. */

static bool has_interpreter(Orders *orders)
{
    const Branch *branch = orders->order.branch;

    if (branch->state == BRANCH_EMPTY)
        order_refuse(orders, ERR_INTERNAL, "cannot start the interpreter: %s", branch->why);
    return branch_is_ready(branch);
}

/* Variables that have been pickled are saved without it, too. */
static void do_without_checkpoint(Orders *orders, const char *why)
{
    Order *order = &orders->order;

    if (!order->moves) {
        order_refuse(orders, ERR_CHECKPOINT_FAILED, "no checkpoint could be taken: %s", why);
        return;
    }
    order->checkpoint = NULL;
    order_await(orders, AWAITS_MEMORY, order->taken);
}

static void on_listener_due(LoopTimer *timer)
{
    do_without_checkpoint(container_of(timer, Orders, order.limit),
                          "the interpreter still owes an earlier one; a thread of the code may keep it busy");
}

/* The limit counts from when there is an interpreter. */
static bool has_listener(Orders *orders)
{
    Order *order = &orders->order;
    Loop *loop = orders->branches->loop;

    if (!has_interpreter(orders))
        return false;
    if (order->branch->state == BRANCH_IDLE) {
        loop_timer_cancel(&order->limit);
        return true;
    }
    if (!loop_timer_is_set(&order->limit) &&
        loop_timer_set(loop, &order->limit, clock_now() + LISTENER_LIMIT, on_listener_due) < 0)
        order_refuse(orders, ERR_INTERNAL, "%s", strerror(ENOMEM));
    return false;
}

/* The interpreter has ended before there was a copy of it. Another one is on its way, or there. */
static bool is_of_another(const Order *order)
{
    return !branch_is_ready(order->branch) || order->branch->epoch != order->frozen_epoch;
}

/* Takes one that is to be saved again, of the interpreter that follows on one that has ended: that has the
 * state that there is. */
static bool has_checkpoint(Orders *orders)
{
    Order *order = &orders->order;
    const Checkpoint *checkpoint = order->checkpoint;

    if (!checkpoint && order->moves && is_of_another(order))
        order_take_checkpoint(orders, order->kind, order->taken);
    else if (!checkpoint)
        do_without_checkpoint(orders, order->trouble);
    return checkpoint && !checkpoint_is_pending(checkpoint);
}

static bool can_be_answered(Orders *orders)
{
    const Branch *branch = orders->order.branch;

    if (!branch_is_ready(branch) || branch->epoch != orders->order.epoch)
        order_interpreter_lost(orders);
    return false; /* the answer is a message */
}

static bool has_memory(const Orders *orders)
{
    const Checkpoint *checkpoint = orders->order.checkpoint;

    return !checkpoint || (!checkpoint_is_pending(checkpoint) && !checkpoint->saves);
}

static bool has_place(Orders *orders)
{
    const Branch *branch = orders->order.branch;
    const Inquiries *preparations = &branch->interpreter.preparations;

    if (branch_is_ready(branch) && branch->epoch == orders->order.epoch)
        return preparations->answered == preparations->asked;
    order_refuse(orders, ERR_INTERNAL, "the interpreter was lost before the context was ready");
    return false;
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
        return has_listener(orders);
    case AWAITS_CHECKPOINT:
        return has_checkpoint(orders);
    case AWAITS_PLACE:
        return has_place(orders);
    case AWAITS_BRANCH:
        return !branch_is_recovering(order->branch);
    case AWAITS_ANSWER:
        return can_be_answered(orders);
    case AWAITS_MEMORY:
        return has_memory(orders);
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

/* ---- checkpoints ---- */

/* The pristine checkpoint has no id that could be told. What is saved is what there is now: threads may have
 * gone on since the last call. */
static bool may_reuse(const Order *order)
{
    const Branch *branch = order->branch;

    return !order->moves && order->kind == CHECKPOINT_AUTOMATIC && branch_is_exact(branch) &&
           branch->base->kind != CHECKPOINT_PRISTINE;
}

static void freeze(Orders *orders)
{
    Order *order = &orders->order;
    int r;

    order->frozen_epoch = order->branch->epoch;
    order->implicit = !may_reuse(order);
    r = order->implicit ? branch_freeze(order->branch, order->kind, order->name, order->trouble) : 0;
    if ((r == -EPIPE || r == -ECONNRESET) && order->moves) { /* the loop tells of its end at once */
        order_await(orders, AWAITS_LISTENER, freeze);
        return;
    }
    if (r < 0) {
        do_without_checkpoint(orders, order->trouble);
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

/* ---- their life ---- */

void orders_init(Orders *orders, Branches *branches, Calls *calls, Link *link)
{
    *orders = (Orders){.branches = branches, .calls = calls, .link = link};
}

void orders_deinit(Orders *orders)
{
    order_done(orders);
}
