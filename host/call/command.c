/* A command, or a process in the background, as a turn beside the others. What is stored of it, who waits for
 * it, and how its artifacts are published is as with code. */
#include <math.h>

#include "host/call/internal.h"
#include "host/call/record.h"
#include "proto/base/clock.h"

static Call *of(Turn *turn)
{
    return container_of(turn, Call, turn);
}

static bool in_background(const Call *call)
{
    return call->turn.ops == &process_turn_ops;
}

static void on_stuck(LoopTimer *timer)
{
    const Call *call = container_of(timer, Call, stuck);

    sandbox_close(call->turn.sandbox, "its supervisor did not answer in time");
}

/* Many commands may follow a cell. Its record goes from those that are stored then, and the supervisor may
 * not tell the next controller of it as if it had just ended. */
static void settle_cell(Sandbox *sandbox)
{
    if (sandbox->unsettled != 0)
        sandbox_send(sandbox, MSG_SETTLED, sandbox->unsettled);
    sandbox->unsettled = 0;
}

static int send_exec(Call *call)
{
    const Buf program = {.data = (uint8_t *)call->code, .size = call->code_size};
    Sandbox *sandbox = call->turn.sandbox;
    const MsgExecOrder order = {
        .branch = call->turn.session->branch,
        .run_id = text_of(call->run_id),
        .code_hash = call->code_hash,
        .timeout = in_background(call) ? NAN : call->timeout,
        .stream = call->stream,
        .program = value_encoded(&program),
    };

    settle_cell(sandbox);
    call->turn.state = TURN_SENT;
    call->turn.number = sandboxes_next_number(sandbox->all);
    return guest_say(sandbox->guest, MSG_EXEC, call->turn.number, MsgExecOrder, &order);
}

static void start(Turn *turn)
{
    Call *call = of(turn);
    int r;

    if (!in_background(call))
        loop_timer_set(call->all->loop, &call->stuck,
                       clock_now() + clock_from_seconds(call->timeout + WATCHDOG_SLACK), on_stuck);
    r = send_exec(call);
    if (r < 0)
        call_fail_unsent(call, r);
}

/* The supervisor never got it: otherwise it would tell of it. It is sent once more, with what waits, unless
 * that may be what breaks the connection. */
static void on_disconnected(Turn *turn)
{
    Call *call = of(turn);
    Problem problem = PROBLEM_NULL;

    loop_timer_cancel(&call->stuck);
    if (call->code && !call->resent) {
        call->resent = true;
        turn->state = TURN_WAITING;
        if (turn->interrupted)
            call_interrupt(call);
        return;
    }
    problem_set(&problem, ERR_INTERNAL, "the session's supervisor knows nothing of the command any more");
    call_finish_failed(call, &problem);
}

static int on_executed(Call *call, const Message *message, Problem *problem)
{
    MsgExecuted executed;
    int r = record_decode(&executed, &message->body, problem);

    if (r < 0)
        return r;
    if (!text_equal(executed.run_id, call->run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "it answers a command with the end of another");
    call->turn.state = TURN_ANSWERED;
    loop_timer_cancel(&call->stuck);
    call_publish(call, message, &executed);
    return 0;
}

/* Ends a command that could not be begun. */
static int on_refused(Call *call, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r < 0)
        return r;
    call_finish_failed(call, &why);
    return 0;
}

static int on_message(Turn *turn, const Message *message, Problem *problem)
{
    Call *call = of(turn);

    switch (message->kind) {
    case MSG_EXECUTED:
        return on_executed(call, message, problem);
    case MSG_OUTPUT:
        return call_on_event(call, message, problem);
    case MSG_REPLY:
        call_note_started(call);
        return 0;
    case MSG_ERROR:
        return on_refused(call, message, problem);
    default:
        return 0;
    }
}

/* The branch that it is of may be closed while the container lives on: then it is interrupted, and nobody
 * asks for its record. */
static void end(Turn *turn, const char *reason)
{
    Call *call = of(turn);
    bool ran = sandbox_take_out(turn);

    if (ran && !sandbox_is_ending(turn->sandbox))
        sandbox_send(turn->sandbox, MSG_INTERRUPT, turn->number);
    call_lose(call, ran, reason);
}

static void fail(Turn *turn, const Problem *problem)
{
    sandbox_take_out(turn);
    call_fail(of(turn), problem);
}

static void leave(Turn *turn)
{
    sandbox_take_out(turn);
    call_forget(of(turn));
}

const TurnOps command_turn_ops = {
    .beside = true,
    .start = start,
    .message = on_message,
    .disconnected = on_disconnected,
    .fail = fail,
    .end = end,
    .leave = leave,
};

/* Nobody waits for it. */
static bool is_idle(const Turn *turn)
{
    const Call *call = of((Turn *)turn);

    return call->started && list_empty(&call->asked) && list_empty(&call->joined);
}

const TurnOps process_turn_ops = {
    .beside = true,
    .is_idle = is_idle,
    .start = start,
    .message = on_message,
    .disconnected = on_disconnected,
    .fail = fail,
    .end = end,
    .leave = leave,
};
