#include "host/adopt.h"
#include "host/pool.h"
#include "host/record.h"
#include "host/sandbox_parts.h"
#include "host/spare.h"
#include "proto/base/log.h"

static void violation(void *userdata, const char *what)
{
    Sandbox *sandbox = userdata;

    log_warn("supervisor broke the protocol", "session=%s what=%s", sandbox->trunk->name, what);
    sandbox_close(sandbox, "its supervisor broke the protocol");
}

/* The running call when the message is about it and it has not ended. */
static Call *call_of_message(const Sandbox *sandbox, const Message *message)
{
    Call *call = sandbox_running_call(sandbox);

    return call && message->id == call->turn.number && !call->turn.work ? call : NULL;
}

/* After a reconnection the supervisor says the last one again. */
static void on_executed(Sandbox *sandbox, const Message *message)
{
    Call *call = call_of_message(sandbox, message);
    Problem problem = PROBLEM_NULL;
    MsgExecuted executed;
    Session *session;

    if (!call && !sandbox->adoption)
        return;
    if (record_decode(&executed, &message->body, &problem) < 0) {
        violation(sandbox, problem.text);
        return;
    }
    if (!call) {
        adopt_executed(sandbox, &executed, message->id);
        call = call_of_message(sandbox, message);
    }
    if (!call)
        return;
    session = call->turn.session;
    if (executed.branch != session->branch || !text_equal(executed.run_id, call->run_id)) {
        violation(sandbox, "it answers a call with the end of another");
        return;
    }
    loop_timer_cancel(&sandbox->watchdog);
    session->execution_count = MAX(session->execution_count, executed.execution_count);
    session->epoch = MAX(session->epoch, executed.epoch);
    sandbox_call_executed(sandbox, message, &executed);
}

static int check_event(const Message *message, Problem *problem)
{
    MsgDisplay display;
    MsgOutput output;

    if (message->kind == MSG_DISPLAY)
        return body_decode(&display, MsgDisplay, &message->body, problem);
    return body_decode(&output, MsgOutput, &message->body, problem);
}

/* Events are passed on as they are, once their form and size are checked: the rest is the cell's own words.
 */
static void on_event(Sandbox *sandbox, const Message *message)
{
    Call *call = sandbox_running_call(sandbox);
    Problem problem = PROBLEM_NULL;

    if (!call || message->id != call->turn.number)
        return;
    if (check_event(message, &problem) < 0) {
        violation(sandbox, problem.text);
        return;
    }
    sandbox_grant(sandbox, call, call_event(call, message->kind, message->encoded));
}

static void on_ask(Sandbox *sandbox, const Message *message)
{
    Call *call = call_of_message(sandbox, message);
    Problem problem = PROBLEM_NULL;

    if (call && asks_question(call, &message->body, &problem) < 0)
        violation(sandbox, problem.text);
}

/* Those with a meaning for clients are passed on; anything else is a fault of ours. */
static ErrorCode error_code(uint64_t number)
{
    static const ErrorCode known[] = {
        ERR_NO_SUCH_CHECKPOINT, ERR_CHECKPOINT_FAILED, ERR_BRANCH_EXISTS, ERR_BUSY, ERR_BAD_REQUEST,
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (known[i] == number)
            return known[i];
    return ERR_INTERNAL;
}

/* It may still have files to see to, and no second answer is for it. */
static void take_answer(Sandbox *sandbox, Order *order)
{
    order->turn.number = 0;
    if (sandbox->running == &order->turn)
        loop_timer_cancel(&sandbox->watchdog);
}

static void refuse_order(Sandbox *sandbox, Order *order, const Problem *problem)
{
    take_answer(sandbox, order);
    if (order->ops->refused)
        order->ops->refused(order, problem);
    else
        order_fail(order, problem);
}

/* The supervisor could not do it, or in the case of a call not tell how it ended. */
static void on_guest_error(Sandbox *sandbox, const Message *message)
{
    Order *order = sandbox_sent_order(sandbox, message->id);
    Problem problem = PROBLEM_NULL, why = PROBLEM_NULL;
    MsgError error;

    if (body_decode(&error, MsgError, &message->body, &problem) < 0) {
        violation(sandbox, problem.text);
        return;
    }
    problem_set(&why, order ? error_code(error.number) : ERR_INTERNAL, "%.*s", (int)error.message.size,
                error.message.data);
    if (why.code == ERR_INTERNAL)
        problem_prefix(&why, "the session's supervisor");
    if (order)
        refuse_order(sandbox, order, &why);
    else if (adopt_answered(sandbox, message->id, NULL))
        return;
    else if (call_of_message(sandbox, message))
        sandbox_fail_call(sandbox, &why);
}

static void on_reply(Sandbox *sandbox, const Message *message)
{
    Order *order = sandbox_sent_order(sandbox, message->id);
    Problem problem = PROBLEM_NULL;

    if (!order) {
        adopt_answered(sandbox, message->id, &message->body);
        return;
    }
    take_answer(sandbox, order);
    if (order->ops->answer(order, &message->body, &problem) < 0)
        violation(sandbox, problem.text);
}

static void on_prepared(Sandbox *sandbox, const Message *message)
{
    Problem problem = PROBLEM_NULL;

    if (spare_prepared(sandbox, message, &problem) < 0)
        violation(sandbox, problem.text);
}

static void on_message(void *userdata, const Message *message)
{
    Sandbox *sandbox = userdata;

    if (sandbox->state == SANDBOX_CLOSING)
        return;
    switch (message->kind) {
    case MSG_EXECUTED:
        on_executed(sandbox, message);
        break;
    case MSG_OUTPUT:
    case MSG_DISPLAY:
        on_event(sandbox, message);
        break;
    case MSG_ASK:
        on_ask(sandbox, message);
        break;
    case MSG_PREPARED:
        on_prepared(sandbox, message);
        break;
    case MSG_ERROR:
        on_guest_error(sandbox, message);
        break;
    case MSG_REPLY:
        on_reply(sandbox, message);
        break;
    default:
        violation(sandbox, message_name(message->kind));
    }
}

int sandbox_send(Sandbox *sandbox, MessageKind kind, uint64_t id)
{
    return guest_say(sandbox->guest, kind, id, MsgNothing, &(MsgNothing){0});
}

static int send_welcome(Sandbox *sandbox, uint64_t number)
{
    const SessionOptions *options = &sandbox->options;
    MsgGuestWelcome welcome = {
        .env = value_encoded(&options->env),
        .output_limit = LIMIT_OUTPUT,
        .spill_limit = LIMIT_SPILL,
        .checkpoint = text_of(options->checkpoint),
        .checkpoint_budget = options->memory / 2,
        .memory = options->memory,
        .orphan_timeout = MAX(sandbox->controller->options->orphan_timeout, 1), /* it is never 0 */
    };

    if (sandbox->spare)
        welcome.imports = (Value){.write = pool_write_imports, .source = sandbox};
    return guest_say(sandbox->guest, MSG_GUEST_WELCOME, number, MsgGuestWelcome, &welcome);
}

static bool is_known(const GuestHello *hello, const Session *session)
{
    for (size_t i = 0; i < hello->branch_count; i++)
        if (hello->branches[i].branch == session->branch)
            return true;
    return false;
}

/* A branch that was open, and that the supervisor does not have. */
static Session *first_lost(const Sandbox *sandbox, const GuestHello *hello)
{
    Session *session;

    list_foreach (session, &sandbox->sessions, Session, in_sandbox)
        if (session->branch != 0 && (session->state == SESSION_READY || sandbox->adoption) &&
            !is_known(hello, session))
            return session;
    return NULL;
}

/* What the supervisor has and what is known here are made the same. The end of one branch may be that of
 * others, so that each is looked for from the start. */
static void match_branches(Sandbox *sandbox, const GuestHello *hello)
{
    Problem lost = PROBLEM_NULL;
    Session *session;

    for (size_t i = 0; i < hello->branch_count; i++) {
        const MsgGuestBranch *said = &hello->branches[i];

        session = sandbox_find_branch(sandbox, said->branch);
        if (session) {
            session->epoch = MAX(session->epoch, said->epoch);
            session->execution_count = MAX(session->execution_count, said->execution_count);
        } else {
            sandbox_drop_branch(sandbox, said->branch);
        }
    }
    problem_set(&lost, ERR_SESSION_CLOSED, "the branch was lost with its interpreter");
    while (sandbox->state != SANDBOX_CLOSING && (session = first_lost(sandbox, hello)))
        session_end_branch(session, &lost);
}

/* The answer to an order that was under way when the connection broke does not come any more. What is sent
 * through the new one, behind its welcome, is answered there. */
static void fail_sent_orders(Sandbox *sandbox, uint64_t welcome)
{
    Problem problem = PROBLEM_NULL;
    Order *order;

    problem_set(&problem, ERR_INTERNAL,
                "the connection to the session's supervisor broke meanwhile; look whether it was done");
    while ((order = sandbox_order_sent_before(sandbox, welcome)))
        order_fail(order, &problem);
}

static void on_hello(void *userdata, const GuestHello *hello)
{
    Sandbox *sandbox = userdata;
    uint64_t welcome = sandbox_next_number(sandbox->controller);

    if (sandbox->state == SANDBOX_CLOSING)
        return;
    /* Of an adopted container nothing is known yet, as whether the kernel has killed for memory in it, which
     * the supervisor's last call is judged by. It comes again. */
    if (sandbox->adoption && !sandbox->container_started) {
        guest_drop(sandbox->guest);
        return;
    }
    if (send_welcome(sandbox, welcome) < 0) {
        sandbox_close(sandbox, "its supervisor cannot be reached");
        return;
    }
    fail_sent_orders(sandbox, welcome);
    match_branches(sandbox, hello);
    if (sandbox->state == SANDBOX_CLOSING)
        return;
    if (sandbox->adoption) {
        adopt_hello(sandbox, hello);
        return;
    }
    if (sandbox->spare) /* until it is prepared */
        return;
    sandbox->guest_ready = true;
    sandbox_become_ready(sandbox);
    sandbox_next(sandbox);
}

const GuestEvents sandbox_guest_events = {
    .hello = on_hello,
    .message = on_message,
    .violation = violation,
};
