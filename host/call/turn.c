/* A call as a turn of its sandbox: what is sent of it, and what comes back. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/call/internal.h"
#include "host/call/record.h"

static Call *of(Turn *turn)
{
    return container_of(turn, Call, turn);
}

static RecordHead record_head(const Call *call)
{
    const Session *session = call->turn.session;
    bool command = call->turn.ops->beside;

    return (RecordHead){
        .run_id = call->run_id,
        .kind = command                ? "command"
                : session->language[0] ? session->language
                                       : "python",
        .session = session->sandbox->ephemeral ? NULL : session->name,
        .engine = sandboxes_engine(session->sandbox->all),
        .execution_count = command ? NO_UINT : session->execution_count,
        .epoch = session->epoch,
    };
}

void call_end_bare(Call *call, const char *status, const char *state, const char *name, const char *message)
{
    RecordHead head = record_head(call);
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;

    if (record_write_bare(&record, &head, status, state, name, message) == 0) {
        call_end(call, &record);
        return;
    }
    problem_set(&problem, ERR_INTERNAL, "out of memory");
    call_fail(call, &problem);
}

/* ---- its turn comes ---- */

int call_queue(Call *call, Problem *problem)
{
    int r = session_check_queue(call->turn.session, problem);

    if (r == 0)
        sandbox_queue(call->turn.sandbox, &call->turn);
    return r;
}

void call_resume(Call *call, uint64_t number)
{
    call->turn.state = TURN_SENT;
    call->turn.number = number;
    sandbox_resume_turn(call->turn.sandbox, &call->turn);
}

void call_watch(const Call *call)
{
    sandbox_watch(call->turn.sandbox, call->timeout + WATCHDOG_SLACK);
}

static int send_execute(Call *call)
{
    Sandbox *sandbox = call->turn.sandbox;
    const MsgExecute execute = {
        .branch = call->turn.session->branch,
        .code = {call->code, call->code_size},
        .code_hash = call->code_hash,
        .timeout = call->timeout,
        .stream = call->stream,
        .run_id = text_of(call->run_id),
        .on_error = text_of(call->rolls_back ? "rollback" : "keep"),
        .asks = text_of(ask_mode_name(call->asks.mode)),
        .script = sandbox->ephemeral,
        .last = call->last,
    };

    call->turn.state = TURN_SENT;
    call->turn.number = sandboxes_next_number(sandbox->all);
    return guest_say(sandbox->guest, MSG_EXECUTE, call->turn.number, MsgExecute, &execute);
}

void call_fail_unsent(Call *call, int error)
{
    Problem problem = PROBLEM_NULL;

    if (error == -EMSGSIZE)
        problem_set(&problem, ERR_TOO_LARGE, "the call is larger than a supervisor takes");
    else
        problem_set(&problem, ERR_INTERNAL, "the call could not be sent to its supervisor: %s",
                    strerror(-error));
    call_finish_failed(call, &problem);
}

static void start(Turn *turn)
{
    Call *call = of(turn);
    int r;

    call_watch(call);
    r = send_execute(call);
    if (r < 0)
        call_fail_unsent(call, r);
}

/* ---- while it runs ---- */

Call *call_running(const Session *session)
{
    Turn *turn = sandbox_running(session->sandbox, session, &call_turn_ops);

    return turn ? of(turn) : NULL;
}

void call_grant(const Call *call, unsigned count)
{
    if (count > 0)
        guest_say(call->turn.sandbox->guest, MSG_CREDIT, call->turn.number, MsgCredit,
                  &(MsgCredit){.count = count});
}

static bool interrupt_sent(Call *call)
{
    call->turn.interrupted = true;
    return sandbox_send(call->turn.sandbox, MSG_INTERRUPT, call->turn.number) == 0;
}

bool call_interrupt(Call *call)
{
    Sandbox *sandbox = call->turn.sandbox;

    if (call->turn.ops->beside && call->turn.state != TURN_WAITING)
        return interrupt_sent(call);
    if (sandbox->running == &call->turn) {
        asks_interrupt(call);
        return interrupt_sent(call);
    }
    sandbox_take_out(&call->turn);
    call_end_bare(call, "interrupted", "kept", "Interrupted",
                  "interrupted before it started; nothing was run");
    if (sandbox->ephemeral)
        sandbox_close(sandbox, "its call was interrupted");
    return true;
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
int call_on_event(Call *call, const Message *message, Problem *problem)
{
    int r = check_event(message, problem);

    if (r == 0)
        call_grant(call, call_event(call, message->kind, message->encoded));
    return r;
}

static int on_executed(Call *call, const Message *message, Problem *problem)
{
    Session *session = call->turn.session;
    MsgExecuted executed;
    int r = record_decode(&executed, &message->body, problem);

    if (r < 0)
        return r;
    if (executed.branch != session->branch || !text_equal(executed.run_id, call->run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "it answers a call with the result of another");
    call->turn.state = TURN_ANSWERED;
    sandbox_unwatch(call->turn.sandbox);
    session_note(session, executed.execution_count, executed.epoch);
    call_publish(call, message, &executed);
    return 0;
}

/* The supervisor cannot tell how it ended. */
static int on_error(Call *call, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    MsgError error;
    int r = body_decode(&error, MsgError, &message->body, problem);

    if (r < 0)
        return r;
    problem_set(&why, ERR_INTERNAL, "the supervisor of the session: %.*s", (int)error.message.size,
                error.message.data);
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
    case MSG_DISPLAY:
        return call_on_event(call, message, problem);
    case MSG_ASK:
        return asks_question(call, &message->body, problem);
    case MSG_ERROR:
        return on_error(call, message, problem);
    default:
        return 0;
    }
}

/* ---- it has ended ---- */

/* A call that lived on may have lost processes of its own to the kernel, which the next one is not to be
 * blamed for. In less than this no process fills the least memory a session has. */
#define FILLING_SECONDS 0.005

/* The turn of a call that may have been freed since. The supervisor of a command need keep its record no
 * longer; that of a cell learns so from the next cell, or before the next command. */
static void turn_over(const Turn *turn)
{
    if (!turn->ops->beside) {
        turn->sandbox->unsettled = turn->number;
        sandbox_turn_over(turn->sandbox, turn->session);
        return;
    }
    sandbox_send(turn->sandbox, MSG_SETTLED, turn->number);
    sandbox_beside_over(turn->sandbox, turn->session);
}

void call_finish_failed(Call *call, const Problem *problem)
{
    Turn turn = call->turn;

    sandbox_take_out(&call->turn);
    call_fail(call, problem);
    turn_over(&turn);
}

void call_finish(Call *call, const MsgExecuted *executed, const ArtifactList *artifacts)
{
    Turn turn = call->turn;
    Sandbox *sandbox = turn.sandbox;
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    RecordHead head = record_head(call);

    sandbox_take_out(&call->turn);
    if (call->last)
        call_keep_last_words(turn.session, executed);
    if (record_write(&record, &head, executed, record_was_killed(executed) && sandbox_has_killed(sandbox),
                     artifacts) == 0) {
        call_end(call, &record);
        if (!turn.ops->beside && executed->duration > FILLING_SECONDS)
            sandbox_has_killed(sandbox);
    } else {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        call_fail(call, &problem);
    }
    turn_over(&turn);
}

void call_lose(Call *call, bool ran, const char *reason)
{
    char message[512];

    snprintf(message, sizeof(message), "the session ended while the call %s: %s; its variables are lost",
             ran ? "ran" : "waited", reason);
    call_end_bare(call, "failed", "lost", "SandboxLost", message);
}

static void end(Turn *turn, const char *reason)
{
    Problem problem = PROBLEM_NULL;
    Call *call = of(turn);
    bool ran = sandbox_take_out(turn);

    session_say_closed(turn->session, reason, &problem);
    if (ran)
        turn->session->epoch++;
    if (ran || turn->sandbox->ephemeral)
        call_lose(call, ran, reason);
    else
        call_fail(call, &problem);
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

const TurnOps call_turn_ops = {
    .start = start,
    .message = on_message,
    .fail = fail,
    .end = end,
    .leave = leave,
};
