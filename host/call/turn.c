/* A call as a turn of its sandbox: what is sent of it, what comes back, and how its record is made. Code goes
 * one after the other; commands, and processes in the background, go beside it. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/call/call.h"
#include "host/call/record.h"
#include "host/link/envelope.h"
#include "proto/base/clock.h"

/* The supervisor answers a call by its deadline and three seconds; this much later it counts as stuck. */
#define WATCHDOG_SLACK 8.0

static void publish_artifacts(Call *call, const Message *message, const MsgExecuted *executed);
static void finish_failed(Call *call, const Problem *problem);
static void keep_last_words(Session *session, const MsgExecuted *executed);

/* ---- code ---- */

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

/* Ends a call that has no more than a reason. */
static void end_bare(Call *call, const char *status, const char *state, const char *name, const char *message)
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

static void fail_unsent(Call *call, int error)
{
    Problem problem = PROBLEM_NULL;

    if (error == -EMSGSIZE)
        problem_set(&problem, ERR_TOO_LARGE, "the call is larger than a supervisor takes");
    else
        problem_set(&problem, ERR_INTERNAL, "the call could not be sent to its supervisor: %s",
                    strerror(-error));
    finish_failed(call, &problem);
}

static void start_code(Turn *turn)
{
    Call *call = of(turn);
    int r;

    call_watch(call);
    r = send_execute(call);
    if (r < 0)
        fail_unsent(call, r);
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
    end_bare(call, "interrupted", "kept", "Interrupted", "interrupted before it started; nothing was run");
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
static int on_event(Call *call, const Message *message, Problem *problem)
{
    int r = check_event(message, problem);

    if (r == 0)
        call_grant(call, call_event(call, message->kind, message->encoded));
    return r;
}

static int on_code_executed(Call *call, const Message *message, Problem *problem)
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
    publish_artifacts(call, message, &executed);
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
    finish_failed(call, &why);
    return 0;
}

static int on_code_message(Turn *turn, const Message *message, Problem *problem)
{
    Call *call = of(turn);

    switch (message->kind) {
    case MSG_EXECUTED:
        return on_code_executed(call, message, problem);
    case MSG_OUTPUT:
    case MSG_DISPLAY:
        return on_event(call, message, problem);
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

/* Ends a call that ran and has no record. */
static void finish_failed(Call *call, const Problem *problem)
{
    Turn turn = call->turn;

    sandbox_take_out(&call->turn);
    call_fail(call, problem);
    turn_over(&turn);
}

/* Its record can be made; `artifacts` may be NULL. What waits is next. */
static void finish(Call *call, const MsgExecuted *executed, const ArtifactList *artifacts)
{
    Turn turn = call->turn;
    Sandbox *sandbox = turn.sandbox;
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    RecordHead head = record_head(call);

    sandbox_take_out(&call->turn);
    if (call->last)
        keep_last_words(turn.session, executed);
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

/* Ends a call with its session. */
static void lose(Call *call, bool ran, const char *reason)
{
    char message[512];

    snprintf(message, sizeof(message), "the session ended while the call %s: %s; its variables are lost",
             ran ? "ran" : "waited", reason);
    end_bare(call, "failed", "lost", "SandboxLost", message);
}

static void end_code(Turn *turn, const char *reason)
{
    Problem problem = PROBLEM_NULL;
    Call *call = of(turn);
    bool ran = sandbox_take_out(turn);

    session_say_closed(turn->session, reason, &problem);
    if (ran)
        turn->session->epoch++;
    if (ran || turn->sandbox->ephemeral)
        lose(call, ran, reason);
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
    .start = start_code,
    .message = on_code_message,
    .fail = fail,
    .end = end_code,
    .leave = leave,
};

/* ---- commands ----
 *
 * A command, or a process in the background, as a turn beside the others. What is stored of it, who waits for
 * it, and how its artifacts are published is as with code. */

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

static void start_command(Turn *turn)
{
    Call *call = of(turn);
    int r;

    if (!in_background(call))
        loop_timer_set(call->all->loop, &call->stuck,
                       clock_now() + clock_from_seconds(call->timeout + WATCHDOG_SLACK), on_stuck);
    r = send_exec(call);
    if (r < 0)
        fail_unsent(call, r);
}

/* The supervisor never got it: otherwise it would tell of it. It is sent once more, with what waits, unless
 * that may be what breaks the connection. */
static void on_command_cut_off(Turn *turn)
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
    finish_failed(call, &problem);
}

static int on_command_executed(Call *call, const Message *message, Problem *problem)
{
    MsgExecuted executed;
    int r = record_decode(&executed, &message->body, problem);

    if (r < 0)
        return r;
    if (!text_equal(executed.run_id, call->run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "it answers a command with the end of another");
    call->turn.state = TURN_ANSWERED;
    loop_timer_cancel(&call->stuck);
    publish_artifacts(call, message, &executed);
    return 0;
}

/* Ends a command that could not be begun. */
static int on_command_refused(Call *call, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r < 0)
        return r;
    finish_failed(call, &why);
    return 0;
}

static int on_command_message(Turn *turn, const Message *message, Problem *problem)
{
    Call *call = of(turn);

    switch (message->kind) {
    case MSG_EXECUTED:
        return on_command_executed(call, message, problem);
    case MSG_OUTPUT:
        return on_event(call, message, problem);
    case MSG_REPLY:
        call_note_started(call);
        return 0;
    case MSG_ERROR:
        return on_command_refused(call, message, problem);
    default:
        return 0;
    }
}

/* The branch that it is of may be closed while the container lives on: then it is interrupted, and nobody
 * asks for its record. */
static void end_command(Turn *turn, const char *reason)
{
    Call *call = of(turn);
    bool ran = sandbox_take_out(turn);

    if (ran && !sandbox_is_ending(turn->sandbox))
        sandbox_send(turn->sandbox, MSG_INTERRUPT, turn->number);
    lose(call, ran, reason);
}

const TurnOps command_turn_ops = {
    .beside = true,
    .start = start_command,
    .message = on_command_message,
    .disconnected = on_command_cut_off,
    .fail = fail,
    .end = end_command,
    .leave = leave,
};

/* Nobody waits for it. */
static bool process_is_idle(const Turn *turn)
{
    const Call *call = of((Turn *)turn);

    return call->started && list_empty(&call->asked) && list_empty(&call->joined);
}

const TurnOps process_turn_ops = {
    .beside = true,
    .is_idle = process_is_idle,
    .start = start_command,
    .message = on_command_message,
    .disconnected = on_command_cut_off,
    .fail = fail,
    .end = end_command,
    .leave = leave,
};

/* ---- the last call of a session ----
 *
 * The last call of a session: no code, but the end of Python. */

/* Time limit of exit functions, after which they are interrupted. */
#define LAST_SECONDS 5.0

static bool make_run_id(char ret[static LIMIT_RUN_ID + 1])
{
    char half[2][INSTANCE_SIZE];

    static_assert(LIMIT_RUN_ID == 2 * (INSTANCE_SIZE - 1), "it has as many random digits as two instances");
    if (!instance_make(half[0]) || !instance_make(half[1]))
        return false;
    snprintf(ret, LIMIT_RUN_ID + 1, "%s%s", half[0], half[1]);
    return true;
}

bool call_last(Calls *all, Session *session)
{
    Problem problem = PROBLEM_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Call *call = NULL;

    if (make_run_id(run_id))
        call = call_new(all, &call_turn_ops, session, run_id, (Text){"", 0}, LAST_SECONDS);
    if (!call)
        return false;
    call->last = true;
    if (call_queue(call, &problem) == 0)
        return true;
    call_fail(call, &problem);
    return false;
}

static int append_both(Buf *ret, Text before, Text last)
{
    int r = buf_append(ret, before.data, before.size);

    return r < 0 ? r : buf_append(ret, last.data, last.size);
}

static Text said(const Buf *text)
{
    return text->size > 0 ? (Text){(const char *)buf_head(text), text->size} : (Text){0};
}

/* Keeps the text that exit functions wrote at the end of the session, for its close() to return. Without
 * memory for it nobody is told. */
static void publish_artifacts(Call *call, const Message *message, const MsgExecuted *executed);
static void finish_failed(Call *call, const Problem *problem);
static void keep_last_words(Session *session, const MsgExecuted *executed)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL, err _cleanup_(buf_deinit) = BUF_NULL;
    MsgBetween between = {0};

    if (executed->has_between)
        between = executed->between;
    if (append_both(&out, between.out, executed->out) == 0 &&
        append_both(&err, between.err, executed->err) == 0)
        body_encode(&session->last_words, MsgCloseReply,
                    (&(MsgCloseReply){.out = said(&out), .err = said(&err)}));
}

/* ---- artifacts ----
 *
 * Publishing the artifacts of a call that has ended; then its record can be made. */

typedef struct Publication {
    Work work;          /* of the call's turn */
    Buf executed;       /* as the supervisor said it */
    ArtifactList *list; /* of what is published already */
} Publication;

static void publication_free(Publication *publication)
{
    work_end(&publication->work);
    buf_deinit(&publication->executed);
    artifact_list_free(publication->list);
    free(publication);
}

/* The call that it is of; NULL once that has ended. */
static Call *call_of(const Publication *publication)
{
    Turn *turn = publication->work.turn;

    return turn ? container_of(turn, Call, turn) : NULL;
}

/* The call may be freed by what ends it, and abandons its work then. */
static void finish_publication(Publication *publication)
{
    const Buf *kept = &publication->executed;
    Call *call = call_of(publication);
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    MsgExecuted executed;

    if (message_decode(&message, buf_head(kept), kept->size, &problem) < 0 ||
        record_decode(&executed, &message.body, &problem) < 0)
        finish_failed(call, &problem);
    else
        finish(call, &executed, publication->list);
    publication_free(publication);
}

/* Adds to the list. False when nobody is interested any more: it is freed then. */
static bool take_list(Publication *publication, ArtifactList *list)
{
    publication->list = artifact_list_merge(publication->list, list);
    if (call_of(publication))
        return true;
    publication_free(publication);
    return false;
}

static void on_work_published(void *userdata, ArtifactList *list)
{
    if (take_list(userdata, list))
        finish_publication(userdata);
}

/* Begins to publish a place. False when there is nothing in it, or it could not begin. */
static bool publish(Publication *publication, FilesPlace place, FilesPublished *done)
{
    SessionFiles *files = &publication->work.turn->sandbox->files;

    return session_files_dirty(files, place) && session_files_publish(files, place, done, publication) == 0;
}

static void publish_work(Publication *publication)
{
    if (!publish(publication, FILES_WORK, on_work_published))
        finish_publication(publication);
}

static void on_published(void *userdata, ArtifactList *list)
{
    if (take_list(userdata, list))
        publish_work(userdata);
}

static bool leaves_artifacts(const Sandbox *sandbox)
{
    return session_files_dirty(&sandbox->files, FILES_SESSION) ||
           (sandbox->ephemeral && session_files_dirty(&sandbox->files, FILES_WORK));
}

static Publication *publication_new(Call *call, const Message *message)
{
    Publication *publication = calloc(1, sizeof(*publication));

    if (!publication)
        return NULL;
    if (envelope_write(&publication->executed, message->kind, message->id, message->encoded) < 0) {
        publication_free(publication);
        return NULL;
    }
    work_begin(&publication->work, &call->turn);
    return publication;
}

/* Publishes the artifacts of a call that has ended, as its supervisor tells; then its record is made. */
static void publish_artifacts(Call *call, const Message *message, const MsgExecuted *executed)
{
    const Sandbox *sandbox = call->turn.sandbox;
    Problem problem = PROBLEM_NULL;
    Publication *publication;

    if (!leaves_artifacts(sandbox)) {
        finish(call, executed, NULL);
        return;
    }
    publication = publication_new(call, message);
    if (!publication) {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        finish_failed(call, &problem);
    } else if (!publish(publication, FILES_SESSION, on_published)) {
        publish_work(publication);
    }
}
