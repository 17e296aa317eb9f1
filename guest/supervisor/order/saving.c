/* save and load: the interpreter writes its variables to a directory, or takes those of another one. Where
 * the sandbox is to end a copy of it writes its memory there first, and in another sandbox of the session a
 * process that becomes that copy has everything, where it can be. Otherwise the variables do, which the
 * controller asks for once the memory is there. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/supervisor/order/order.h"
#include "proto/base/clock.h"

/* More than limpet_saving allows itself. */
#define MOVE_LIMIT (SAVE_SECONDS * NSEC_PER_SEC)

/* For the memory. The controller waits for longer. */
#define KEEP_LIMIT (20 * NSEC_PER_SEC)

/* As the interpreter calls the file. */
#define MEMORY_NAME "memory"

/* ---- what no record has told yet ---- */

static int keep_unreported(Order *order, const Value *said, Problem *problem)
{
    MsgUnreported unreported;
    Writer w;

    if (!said->map)
        return 0;
    if (body_decode(&unreported, MsgUnreported, said->map, problem) < 0)
        return -EPROTO;
    order->epoch = unreported.epoch;
    writer_init(&w, &order->unreported);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *said->map});
    return writer_finish(&w) < 0 ? problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM)) : 0;
}

static void tell(Order *order)
{
    Problem problem = PROBLEM_NULL;
    msgpack_unpacked unpacked;
    MsgUnreported said;

    if (order->unreported.size == 0)
        return;
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, (const char *)buf_head(&order->unreported), order->unreported.size,
                            NULL) == MSGPACK_UNPACK_SUCCESS &&
        body_decode(&said, MsgUnreported, &unpacked.data.via.map, &problem) == 0)
        branch_take_unreported(order->branch, &said);
    msgpack_unpacked_destroy(&unpacked);
}

/* The state that was to go on is lost: what there is begins anew, and the next record says so. */
static void lose(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;
    Reason note;

    branch_end_processes(branch);
    branch_forget_line(branch);
    tell(order);
    branch->epoch = order->epoch + 1;
    branch->execution_count = order->execution_count;
    branch->unreported.state = STATE_LOST;
    reason_set(branch->unreported.reason, "%s", order->trouble);
    reason_set(note, "all variables: %s", order->trouble);
    notes_deinit(&branch->restored);
    notes_add(&branch->restored, text_of(note));
    branch->is_restored = true;
    order_answer(
        orders, order->id, MsgLoaded,
        (&(MsgLoaded){.missing = notes_say(&branch->restored), .execution_count = order->execution_count}));
    order_done(orders);
    branch_start(branch);
}

static ErrorCode failure(const Order *order)
{
    return !order->moves ? ERR_INTERNAL : order->loads ? ERR_RESTORE_FAILED : ERR_SAVE_FAILED;
}

void order_unanswered(Orders *orders, const char *why)
{
    Order *order = &orders->order;

    if (!order->resumes) {
        order_refuse(orders, failure(order), "%s", why);
        return;
    }
    loop_timer_cancel(&order->limit);
    reason_set(order->trouble, "%s", why);
    order_await(orders, AWAITS_BRANCH, lose);
}

void order_interpreter_lost(Orders *orders)
{
    bool saves = orders->order.moves && !orders->order.loads;

    order_unanswered(orders,
                     saves ? "the interpreter was lost while its variables were saved; the next call says "
                             "what became of them, and it can be tried again"
                           : "the interpreter was lost before it answered");
}

static void on_limit_due(LoopTimer *timer)
{
    Orders *orders = container_of(timer, Orders, order.limit);

    order_unanswered(orders, "the interpreter was not done in time; a thread of the code may keep it busy");
}

static int ask(Order *order)
{
    Interpreter *interpreter = &order->branch->interpreter;
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r = channel_say(
        &frame, order->loads ? MSG_LOAD : MSG_SAVE, ++interpreter->moves.asked, MsgSaveCell,
        (&(MsgSaveCell){.path = text_of(order->path), .whole = order->ends, .adds = order->adds}));

    return r < 0 ? r : interpreter_send(interpreter, &frame);
}

/* Begins as a call does: a state that is loaded is protected like that after a call. */
static void begin_load(Order *order)
{
    order->execution_count = MAX(order->execution_count, order->branch->execution_count);
    branch_occupy(order->branch, order->execution_count, clock_now());
}

static void move(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;
    int r;

    order->epoch = branch->epoch = MAX(branch->epoch, order->epoch);
    if (order->loads)
        begin_load(order);
    r = ask(order);
    if (r == 0)
        r = loop_timer_set(branch->set->loop, &order->limit, clock_now() + MOVE_LIMIT, on_limit_due);
    if (r < 0)
        order_refuse(orders, ERR_INTERNAL, "the interpreter cannot be asked: %s", strerror(-r));
    else
        order_await(orders, AWAITS_ANSWER, NULL);
}

/* Makes the path that the interpreter knows it by. NULL when out of memory. */
static char *path_inside(const Orders *orders, Text path)
{
    const char *directory = orders->branches->command_line->directory;
    const size_t n = strlen(SESSION_PATH "/");
    char *ret = NULL;

    if (path.size < n || memcmp(path.data, SESSION_PATH "/", n) != 0)
        return text_dup(path);
    return asprintf(&ret, "%s/%.*s", directory, (int)(path.size - n), path.data + n) < 0 ? NULL : ret;
}

/* ---- another sandbox's memory ---- */

/* The state is that of the checkpoint, and the session goes on with it. */
static void resume(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;

    notes_deinit(&branch->restored);
    branch->restored = branch->unreported.not_restored;
    branch->unreported.not_restored = NOTES_NULL;
    branch->is_restored = true;
    state_change_deinit(&branch->unreported);
    tell(order);
    branch->epoch = order->epoch;
    branch->execution_count = MAX(branch->execution_count, order->execution_count);
    if (policy_mode(branch) == CHECKPOINT_OFF && order->checkpoint)
        checkpoint_drop(order->checkpoint, NULL);
    order_answer(orders, order->id, MsgLoaded,
                 (&(MsgLoaded){.missing = notes_say(&branch->restored),
                               .execution_count = order->execution_count,
                               .memory = true}));
    order_done(orders);
}

static void load_variables(Orders *orders)
{
    order_await(orders, AWAITS_INTERPRETER, move);
}

static void gone_back(Orders *orders)
{
    Order *order = &orders->order;
    const StateChange *change = &order->branch->unreported;

    if (change->state == STATE_ROLLED_BACK && change->checkpoint == order->checkpoint_number) {
        resume(orders);
        return;
    }
    branch_forget_past(order->branch);
    load_variables(orders);
}

static void go_back(Orders *orders)
{
    Order *order = &orders->order;

    if (!order->checkpoint) {
        load_variables(orders);
        return;
    }
    order->checkpoint_number = order->checkpoint->number;
    branch_go_back(order->branch, order->checkpoint, order->forks ? COPY_FORK : COPY_BACK);
    order_await(orders, AWAITS_BRANCH, gone_back);
}

/* Tries the memory first. Only the process that is to become it finds out whether it is there and fits: the
 * supervisor may not look into the directory. */
static void thaw(Orders *orders)
{
    Order *order = &orders->order;
    char *file = NULL;

    if (asprintf(&file, "%s/" MEMORY_NAME, order->path) < 0)
        file = NULL;
    if (file && branch_thaw(order->branch, &(KeptMemory){file, order->passed, order->image},
                            order->execution_count, &order->checkpoint) == 0)
        order_await(orders, AWAITS_MEMORY, go_back);
    else
        load_variables(orders);
    free(file);
}

static void answer_saved(Orders *orders)
{
    Order *order = &orders->order;

    MsgSaveReply reply = {.memory = order->checkpoint && order->checkpoint->saved};

    orders->ended |= order->ends && reply.memory;
    reply.has_unreported = order->ends && branch_say_unreported(order->branch, &reply.unreported);
    if (order->implicit && order->checkpoint && policy_mode(order->branch) == CHECKPOINT_OFF)
        checkpoint_drop(order->checkpoint, NULL);
    order_answer(orders, order->id, MsgSaveReply, &reply);
    order_done(orders);
}

static void on_keep_due(LoopTimer *timer)
{
    answer_saved(container_of(timer, Orders, order.limit));
}

/* The copy itself makes a file, with the rights of the code in it; whoever reads a pipe waits until nobody
 * has it any more. */
static int write_memory(Order *order)
{
    int place _cleanup_(closep) = order->passed >= 0
                                      ? take_fd(&order->passed)
                                      : open(order->path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return place < 0 ? -errno : checkpoint_save(order->checkpoint, place, order->shares);
}

/* All of it is in the memory; the variables are written where that cannot be. */
static void kept(Orders *orders)
{
    const Checkpoint *checkpoint = orders->order.checkpoint;

    if (checkpoint && checkpoint->saved)
        answer_saved(orders);
    else
        order_await(orders, AWAITS_INTERPRETER, move);
}

static void on_memory_due(LoopTimer *timer)
{
    kept(container_of(timer, Orders, order.limit));
}

static int begin_keeping(Orders *orders, void (*late)(LoopTimer *), void (*next)(Orders *))
{
    Order *order = &orders->order;
    int r = order->checkpoint ? write_memory(order) : -ESRCH;

    if (r == 0)
        r = loop_timer_set(order->branch->set->loop, &order->limit, clock_now() + KEEP_LIMIT, late);
    if (r == 0)
        order_await(orders, AWAITS_MEMORY, next);
    return r;
}

static void keep_alone(Orders *orders)
{
    if (begin_keeping(orders, on_memory_due, kept) < 0)
        kept(orders);
}

/* Without it the variables are there. */
static void keep_memory(Orders *orders)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;

    if (branch->epoch != order->epoch)
        order_interpreter_lost(orders);
    else if (begin_keeping(orders, on_keep_due, answer_saved) < 0)
        answer_saved(orders);
}

/* Without an engine's container, paths in the memory are those of one session alone. */
static bool is_contained(const Orders *orders)
{
    return strcmp(orders->branches->command_line->directory, SESSION_PATH) == 0;
}

static bool keeps_memory_alone(const Orders *orders, const MsgSaveOrder *asked)
{
    return !orders->order.loads && (asked->ends || (asked->forks && is_contained(orders)));
}

/* Refuses to end a sandbox in which other programs run. */
static int check_end(const Branch *branch, const MsgSaveOrder *asked, Problem *problem)
{
    const char *what = asked->ends ? branch->set->events->in_use(branch->set) : NULL;

    return what ? problem_set(problem, ERR_BUSY, "%s", what) : 0;
}

static int begin(Orders *orders, const Message *message, const MsgSaveOrder *asked, Problem *problem)
{
    int image _cleanup_(closep) =
        message->kind == MSG_LOAD && asked->shares ? link_take_passed(orders->link) : -1;
    int passed _cleanup_(closep) = asked->forks ? link_take_passed(orders->link) : -1;
    Branch *branch = NULL;
    int r = order_find_branch(&branch, orders, asked->branch, problem);

    if (r == 0 && branch_is_foreign(branch))
        r = problem_set(problem, ERR_BAD_REQUEST, "the variables of a context of %s cannot be saved",
                        branch->place.language);
    if (r == 0)
        r = check_end(branch, asked, problem);
    if (r == 0)
        r = order_begin(orders, message, branch, problem);
    if (r < 0)
        return r;
    orders->order.image = take_fd(&image);
    orders->order.passed = take_fd(&passed);
    orders->order.moves = true;
    orders->order.loads = message->kind == MSG_LOAD;
    orders->order.ends = asked->ends;
    orders->order.resumes = asked->epoch != NO_UINT;
    orders->order.adds = asked->adds;
    orders->order.shares = asked->shares;
    orders->order.memory = orders->order.resumes || (asked->memory && is_contained(orders));
    orders->order.forks = asked->forks || asked->memory; /* a file may be restored more than once */
    orders->order.epoch = uint_or(asked->epoch, branch->epoch);
    orders->order.execution_count = uint_or(asked->execution_count, 0);
    if (keep_unreported(&orders->order, &asked->unreported, problem) < 0)
        return -EPROTO;
    orders->order.path = path_inside(orders, asked->path);
    if (!orders->order.path)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    if (orders->order.loads && orders->order.memory)
        thaw(orders);
    else if (keeps_memory_alone(orders, asked) && branch_make_place(branch, orders->order.path))
        order_take_checkpoint(orders, CHECKPOINT_AUTOMATIC, keep_alone);
    else
        order_await(orders, AWAITS_INTERPRETER, move);
    return 0;
}

/* Saves or loads. An order of an earlier controller does not hold up the same one of the next. */
int order_move(Orders *orders, const Message *message, Problem *problem)
{
    MsgSaveOrder body;
    int r = body_decode(&body, MsgSaveOrder, &message->body, problem);

    if (r == 0 && body.adds && !orders->ended) /* what is there is being loaded */
        return problem_set(problem, ERR_BAD_REQUEST, "this sandbox has not written its memory");
    if (r == 0 && orders_are_active(orders) && orders->order.moves)
        order_cancel(orders, "it was asked for again");
    return r < 0 ? r : begin(orders, message, &body, problem);
}

static void loaded(Orders *orders, const MsgSavedCell *said)
{
    Order *order = &orders->order;
    Branch *branch = order->branch;
    Reason note;

    branch->execution_count = order->execution_count;
    branch->is_restored = true;
    branch_call_ended(branch, 0, clock_now());
    if (order->resumes) /* a call may follow at once */
        policy_protect(branch);
    notes_take(&branch->restored, &said->missing);
    if (order->memory && !order->resumes) {
        reason_set(note, "the memory was not taken: %s", order->trouble);
        notes_add(&branch->restored, text_of(note));
    }
    tell(order);
    order_answer(
        orders, order->id, MsgLoaded,
        (&(MsgLoaded){.missing = notes_say(&branch->restored), .execution_count = order->execution_count}));
}

/* An answer that comes too late is nobody's. */
int orders_on_moved(Orders *orders, Branch *branch, const Message *message, Problem *problem)
{
    Order *order = &orders->order;
    Inquiries *moves = &branch->interpreter.moves;
    bool awaited = order->awaits == AWAITS_ANSWER && order->branch == branch && message->id == moves->asked;
    MsgSavedCell said;
    Reason why;
    int r;

    if (!inquiries_answered(moves, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`%s` that answers nothing",
                           message_name(message->kind));
    r = body_decode(&said, MsgSavedCell, &message->body, problem);
    if (r < 0 || !awaited)
        return r;
    if (said.error.data) {
        reason_set(why, "%.*s", (int)said.error.size, said.error.data);
        order_unanswered(orders, why);
        return 0;
    }
    if (!order->loads && order->memory) {
        loop_timer_cancel(&order->limit);
        order_take_checkpoint(orders, CHECKPOINT_AUTOMATIC, keep_memory);
        return 0;
    }
    if (!order->loads) {
        answer_saved(orders);
        return 0;
    }
    loaded(orders, &said);
    order_done(orders);
    return 0;
}
