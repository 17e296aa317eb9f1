/* Execution of a call, as a request to the supervisor: what is sent of it, what comes back, and how its
 * record is made. Code goes one after the other; commands, and processes in the background, go beside it. */
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

static Call *of(GuestRequest *to_guest)
{
    return container_of(to_guest, Call, to_guest);
}

static RecordHead record_head(const Call *call)
{
    const Session *session = call->to_guest.session;
    bool command = call->to_guest.lane == LANE_PROGRAM;

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
    int r = session_check_queue(call->to_guest.session, problem);

    if (r == 0)
        sandbox_queue(call->to_guest.sandbox, &call->to_guest);
    return r;
}

void call_resume(Call *call, uint64_t number)
{
    call->to_guest.state = REQUEST_SENT;
    call->to_guest.number = number;
    sandbox_resume_request(call->to_guest.sandbox, &call->to_guest);
}

void call_watch(const Call *call)
{
    sandbox_watch(call->to_guest.sandbox, call->timeout + WATCHDOG_SLACK);
}

static int send_execute(Call *call)
{
    Sandbox *sandbox = call->to_guest.sandbox;
    const MsgExecute execute = {
        .branch = call->to_guest.session->branch,
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

    call->to_guest.state = REQUEST_SENT;
    call->to_guest.number = sandboxes_next_number(sandbox->all);
    return guest_send(sandbox->guest, MSG_EXECUTE, call->to_guest.number, MsgExecute, &execute);
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

static void start_code(GuestRequest *to_guest)
{
    Call *call = of(to_guest);
    int r;

    call_watch(call);
    r = send_execute(call);
    if (r < 0)
        fail_unsent(call, r);
}

/* ---- while it runs ---- */

Call *call_running(const Session *session)
{
    GuestRequest *to_guest = sandbox_running(session->sandbox, session, &call_turn_ops);

    return to_guest ? of(to_guest) : NULL;
}

void call_grant(const Call *call, unsigned count)
{
    if (count > 0)
        guest_send(call->to_guest.sandbox->guest, MSG_CREDIT, call->to_guest.number, MsgCredit,
                   &(MsgCredit){.count = count});
}

static bool interrupt_sent(Call *call)
{
    call->to_guest.interrupted = true;
    return sandbox_send(call->to_guest.sandbox, MSG_INTERRUPT, call->to_guest.number) == 0;
}

bool call_interrupt(Call *call)
{
    Sandbox *sandbox = call->to_guest.sandbox;

    if (call->to_guest.lane == LANE_PROGRAM && call->to_guest.state != REQUEST_WAITING)
        return interrupt_sent(call);
    if (sandbox->running == &call->to_guest) {
        asks_interrupt(call);
        return interrupt_sent(call);
    }
    sandbox_take_out(&call->to_guest);
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
    Session *session = call->to_guest.session;
    MsgExecuted executed;
    int r = record_decode(&executed, &message->body, problem);

    if (r < 0)
        return r;
    if (executed.branch != session->branch || !text_equal(executed.run_id, call->run_id))
        return problem_set(problem, ERR_BAD_REQUEST, "it answers a call with the result of another");
    call->to_guest.state = REQUEST_ANSWERED;
    sandbox_unwatch(call->to_guest.sandbox);
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

static int on_code_message(GuestRequest *to_guest, const Message *message, Problem *problem)
{
    Call *call = of(to_guest);

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

/* The request of a call that may have been freed since. The supervisor of a command need keep its record no
 * longer; that of a cell learns so from the next cell, or before the next command. */
static void request_over(const GuestRequest *to_guest)
{
    if (to_guest->lane != LANE_PROGRAM) {
        to_guest->sandbox->unsettled = to_guest->number;
        sandbox_exclusive_over(to_guest->sandbox, to_guest->session);
        return;
    }
    sandbox_send(to_guest->sandbox, MSG_SETTLED, to_guest->number);
    sandbox_program_over(to_guest->sandbox, to_guest->session);
}

/* Ends a call that ran and has no record. */
static void finish_failed(Call *call, const Problem *problem)
{
    GuestRequest to_guest = call->to_guest;

    sandbox_take_out(&call->to_guest);
    call_fail(call, problem);
    request_over(&to_guest);
}

/* Its record can be made; `artifacts` may be NULL. What waits is next. */
static void finish(Call *call, const MsgExecuted *executed, const ArtifactList *artifacts)
{
    GuestRequest to_guest = call->to_guest;
    Sandbox *sandbox = to_guest.sandbox;
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    RecordHead head = record_head(call);

    sandbox_take_out(&call->to_guest);
    if (call->last)
        keep_last_words(to_guest.session, executed);
    if (record_write(&record, &head, executed, record_was_killed(executed) && sandbox_has_killed(sandbox),
                     artifacts) == 0) {
        call_end(call, &record);
        if (to_guest.lane != LANE_PROGRAM && executed->duration > FILLING_SECONDS)
            sandbox_has_killed(sandbox);
    } else {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        call_fail(call, &problem);
    }
    request_over(&to_guest);
}

/* Ends a call with its session. */
static void lose(Call *call, bool ran, const char *reason)
{
    char message[512];

    snprintf(message, sizeof(message), "the session ended while the call %s: %s; its variables are lost",
             ran ? "ran" : "waited", reason);
    end_bare(call, "failed", "lost", "SandboxLost", message);
}

static void end_code(GuestRequest *to_guest, const char *reason)
{
    Problem problem = PROBLEM_NULL;
    Call *call = of(to_guest);
    bool ran = sandbox_take_out(to_guest);

    session_closed_problem(to_guest->session, reason, &problem);
    if (ran)
        to_guest->session->epoch++;
    if (ran || to_guest->sandbox->ephemeral)
        lose(call, ran, reason);
    else
        call_fail(call, &problem);
}

static void fail(GuestRequest *to_guest, const Problem *problem)
{
    sandbox_take_out(to_guest);
    call_fail(of(to_guest), problem);
}

static void leave(GuestRequest *to_guest)
{
    sandbox_take_out(to_guest);
    call_forget(of(to_guest));
}

const GuestRequestOps call_turn_ops = {
    .start = start_code,
    .message = on_code_message,
    .fail = fail,
    .end = end_code,
    .leave = leave,
};

/* ---- commands ----
 *
 * A command, or a process in the background, as a request beside the others. What is stored of it, who waits
 * for it, and how its artifacts are published is as with code. */

static bool in_background(const Call *call)
{
    return call->to_guest.ops == &process_turn_ops;
}

static void on_stuck(LoopTimer *timer)
{
    const Call *call = container_of(timer, Call, stuck);

    sandbox_close(call->to_guest.sandbox, "its supervisor did not answer in time");
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
    Sandbox *sandbox = call->to_guest.sandbox;
    const MsgExecOrder order = {
        .branch = call->to_guest.session->branch,
        .run_id = text_of(call->run_id),
        .code_hash = call->code_hash,
        .timeout = in_background(call) ? NAN : call->timeout,
        .stream = call->stream,
        .program = value_encoded(&program),
    };

    settle_cell(sandbox);
    call->to_guest.state = REQUEST_SENT;
    call->to_guest.number = sandboxes_next_number(sandbox->all);
    return guest_send(sandbox->guest, MSG_EXEC, call->to_guest.number, MsgExecOrder, &order);
}

static void start_command(GuestRequest *to_guest)
{
    Call *call = of(to_guest);
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
static void on_command_cut_off(GuestRequest *to_guest)
{
    Call *call = of(to_guest);
    Problem problem = PROBLEM_NULL;

    loop_timer_cancel(&call->stuck);
    if (call->code && !call->resent) {
        call->resent = true;
        to_guest->state = REQUEST_WAITING;
        if (to_guest->interrupted)
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
    call->to_guest.state = REQUEST_ANSWERED;
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

static int on_command_message(GuestRequest *to_guest, const Message *message, Problem *problem)
{
    Call *call = of(to_guest);

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
static void end_command(GuestRequest *to_guest, const char *reason)
{
    Call *call = of(to_guest);
    bool ran = sandbox_take_out(to_guest);

    if (ran && !sandbox_is_ending(to_guest->sandbox))
        sandbox_send(to_guest->sandbox, MSG_INTERRUPT, to_guest->number);
    lose(call, ran, reason);
}

const GuestRequestOps command_turn_ops = {
    .start = start_command,
    .message = on_command_message,
    .cut_off = on_command_cut_off,
    .fail = fail,
    .end = end_command,
    .leave = leave,
};

/* Nobody waits for it. */
static bool process_is_idle(const GuestRequest *to_guest)
{
    const Call *call = of((GuestRequest *)to_guest);

    return call->started && list_empty(&call->asked) && list_empty(&call->joined);
}

const GuestRequestOps process_turn_ops = {
    .is_idle = process_is_idle,
    .start = start_command,
    .message = on_command_message,
    .cut_off = on_command_cut_off,
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
    AsyncStep step;     /* of the call */
    Buf executed;       /* as the supervisor said it */
    ArtifactList *list; /* of what is published already */
} Publication;

static void publication_free(Publication *publication)
{
    async_step_detach(&publication->step);
    buf_deinit(&publication->executed);
    artifact_list_free(publication->list);
    free(publication);
}

/* The call that it is of; NULL once that has ended. */
static Call *call_of(const Publication *publication)
{
    GuestRequest *to_guest = publication->step.request;

    return to_guest ? container_of(to_guest, Call, to_guest) : NULL;
}

/* The call may be freed by what ends it, and detaches its step then. */
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
    SessionFiles *files = &publication->step.request->sandbox->files;

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
    async_step_attach(&publication->step, &call->to_guest);
    return publication;
}

/* Publishes the artifacts of a call that has ended, as its supervisor tells; then its record is made. */
static void publish_artifacts(Call *call, const Message *message, const MsgExecuted *executed)
{
    const Sandbox *sandbox = call->to_guest.sandbox;
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
