/* A call, from its `execute` to its record. */
#include "guest/supervisor/call/call.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guest/channel.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/limits.h"

/* ---- its interruption ---- */

static void on_due(LoopTimer *timer);

static void take_next_step(Interruption *interruption)
{
    /* Until the next step, from when this one is taken: where the supervisor itself was held up, the call has
     * its time all the same. */
    static const double pause[] = {
        [INTERRUPTION_STEP_ASK] = LADDER_SECOND_SIGINT,
        [INTERRUPTION_STEP_ASK_MORE] = LADDER_KILL - LADDER_SECOND_SIGINT,
    };

    interruption->step++;
    /* Setting a timer of this interruption again needs no memory: it was set before. */
    if (interruption->step < INTERRUPTION_STEP_KILL)
        loop_timer_set(interruption->loop, &interruption->timer,
                       clock_now() + clock_from_seconds(pause[interruption->step]), on_due);
    interruption->on_step(interruption, interruption->step);
}

static void on_due(LoopTimer *timer)
{
    Interruption *interruption = container_of(timer, Interruption, timer);

    if (interruption->cause == INTERRUPTION_CAUSE_NONE)
        interruption->cause = INTERRUPTION_CAUSE_DEADLINE;
    take_next_step(interruption);
}

int interruption_begin(Interruption *interruption, Loop *loop, uint64_t deadline,
                       void (*on_step)(Interruption *, InterruptionStep))
{
    *interruption = (Interruption){.loop = loop, .on_step = on_step};
    return loop_timer_set(loop, &interruption->timer, deadline, on_due);
}

/* Takes the first step now, unless it has been taken before. */
static void interruption_now(Interruption *interruption)
{
    if (interruption->step != INTERRUPTION_STEP_WAIT)
        return;
    interruption->cause = INTERRUPTION_CAUSE_INTERRUPT;
    take_next_step(interruption);
}

/* From here to interruption_resume() the deadline comes no nearer. An interrupt is not held up, nor the steps
 * after the first. */
static void interruption_pause(Interruption *interruption)
{
    uint64_t now;

    if (interruption->step != INTERRUPTION_STEP_WAIT || interruption->paused)
        return;
    now = clock_now();
    interruption->left = interruption->timer.due > now ? interruption->timer.due - now : 0;
    interruption->paused = true;
    /* The timer is not cancelled, so that it keeps its memory. */
    loop_timer_set(interruption->loop, &interruption->timer, UINT64_MAX, on_due);
}

static void interruption_resume(Interruption *interruption)
{
    if (interruption->step != INTERRUPTION_STEP_WAIT || !interruption->paused)
        return;
    interruption->paused = false;
    loop_timer_set(interruption->loop, &interruption->timer, clock_now() + interruption->left, on_due);
}

void interruption_end(Interruption *interruption)
{
    if (interruption->loop)
        loop_timer_cancel(&interruption->timer);
}

/* ---- its parts ---- */

static int encode_request(Call *call, const MsgExecute *asked)
{
    const MsgCell request = {
        .code = asked->code,
        .run_id = asked->run_id,
        .execution_count = call->execution_count,
        .asks = call->questions.mode != ASK_NOBODY,
        .script = asked->script,
        .last = asked->last,
    };

    return channel_say(&call->request, MSG_EXECUTE, call->execution_count, MsgCell, &request);
}

static void init_outputs(Call *call, const OutputLimits *limits)
{
    char stem[SPILL_STEM];

    if (call->branch_number > 0)
        snprintf(stem, sizeof(stem), "%" PRIu64 "-%" PRIu64, call->branch_number, call->execution_count);
    else
        snprintf(stem, sizeof(stem), "%" PRIu64, call->execution_count);
    outputs_init(call->output, limits, stem);
    for (unsigned i = 0; i < STREAMS; i++)
        output_init(&call->between[i], 0, &limits->spill, "");
}

Call *call_new(Branch *branch, uint64_t id, const MsgExecute *asked, uint64_t execution_count,
               const OutputLimits *limits)
{
    Call *call = calloc(1, sizeof(*call));

    if (!call)
        return NULL;
    call->branch = branch;
    call->branch_number = uint_or(asked->branch, 0);
    call->id = id;
    call->execution_count = execution_count;
    call->code_hash = uint_or(asked->code_hash, 0);
    call->timeout = asked->timeout;
    subscription_begin(&call->subscription, asked->stream);
    call->undo = text_equal(asked->on_error, "rollback");
    if (asked->run_id.size > 0)
        memcpy(call->run_id, asked->run_id.data, MIN(asked->run_id.size, LIMIT_RUN_ID));
    init_outputs(call, limits);
    displays_init(&call->displays);
    questions_init(&call->questions, ask_mode_parse(asked->asks));
    return encode_request(call, asked) == 0 ? call : call_free(call);
}

Call *call_free(Call *call)
{
    if (!call)
        return NULL;
    interruption_end(&call->interruption);
    outputs_deinit(call->output);
    outputs_deinit(call->between);
    displays_deinit(&call->displays);
    questions_deinit(&call->questions);
    buf_deinit(&call->request);
    buf_deinit(&call->words);
    free(call);
    return NULL;
}

/* The call has written to stream 1 or 2. That is kept, counted, and sent as an event where there is credit.
 */
static void call_output(Call *call, Link *link, unsigned stream, const uint8_t *bytes, size_t n)
{
    output_write(&call->output[stream - 1], bytes, n);
    subscription_output(&call->subscription, link, call->id, stream, bytes, n);
}

/* The call shows something. That is kept, and sent as an event. */
static void call_display(Call *call, Link *link, const MsgDisplay *display)
{
    MsgDisplay event = *display;

    if (!displays_add(&call->displays, display) || !call->subscription.active || !link_has_room(link))
        return;
    event.metadata = display_metadata(display);
    link_say(link, MSG_DISPLAY, call->id, MsgDisplay, &event);
}

/* The controller is gone, and with it events and credit that were under way. The first credit of the next one
 * resumes. */
static void call_unattended(Call *call)
{
    subscription_lost(&call->subscription);
    questions_send_again(&call->questions);
}

static void call_credit(Call *call, uint64_t count)
{
    subscription_credit(&call->subscription, count);
}

/* Returns whether the pipes are read now. Where nobody takes the output the writer waits. */
static bool call_takes_output(const Call *call)
{
    return subscription_takes(&call->subscription) || call->interruption.step != INTERRUPTION_STEP_WAIT;
}

/* ---- its end ---- */

/* The running or waiting call if it is the branch's, otherwise NULL. */
static Call *call_of(const Calls *calls, const Branch *branch)
{
    Call *call = calls->call;

    return call && call->branch == branch ? call : NULL;
}

/* Reads the pipes of the branch, or lets them wait, as its call has it. */
static void call_update_flow(const Calls *calls, Branch *branch)
{
    const Call *call = call_of(calls, branch);
    bool takes = !call || call_takes_output(call);

    if (streams_pause(&branch->interpreter.streams, !takes) < 0)
        log_error("a pipe cannot be read", "error=%s", strerror(ENOMEM));
}

/* The time that a record waits to learn whether a checkpoint in the making exists. */
#define SETTLE_LIMIT NSEC_PER_SEC

static void call_send_record(Calls *calls)
{
    const Buf *record = &calls->record;

    if (calls->link->accepted && record->size > 0 && link_send(calls->link, record) == -ENOMEM)
        log_error("no memory to send a record", "bytes=%zu", record->size);
}

/* Notes what the call ran under. The newest checkpoint counts once it is certain that it exists. */
static void note_protection(Call *call)
{
    Branch *branch = call->branch;

    if (branch->base && checkpoint_is_pending(branch->base))
        checkpoints_settle(branch->base->set, SETTLE_LIMIT);
    branch_protection(branch, &call->protection);
}

/* The call has ended. The caller has written to the call's outcome how. */
static void call_ended(Call *call)
{
    uint64_t now = clock_now(), busy = call->step == CALL_RUNS ? now - call->started : 0;

    interruption_end(&call->interruption);
    questions_deinit(&call->questions);
    if (call->step == CALL_RUNS)
        call->duration = (double)busy / NSEC_PER_SEC;
    call->step = CALL_ENDED;
    branch_call_ended(call->branch, busy, now);
    note_protection(call);
}

/* A checkpoint that was there at the call's end, and could not be gone back to, protected nothing. */
static void correct_protection(Protection *protection, const StateChange *change)
{
    if (change->state != STATE_LOST || !protection->exists)
        return;
    *protection = (Protection){.exists = false};
    reason_set(protection->reason, "%s", change->reason[0] ? change->reason : state_change_no_checkpoint);
}

static void set_call(MsgExecuted *record, const Call *call)
{
    record->run_id = text_of(call->run_id);
    record->code_hash = call->code_hash;
    record->branch = call->branch_number;
    record->execution_count = call->execution_count;
    record->duration = call->duration;
    record->displays = displays_say(&call->displays);
}

int call_record(Call *call, const StateChange *change, uint64_t epoch, const EncodedNotes *restored, Buf *ret)
{
    OutputWords words _cleanup_(output_words_deinit) = {0}, between _cleanup_(output_words_deinit) = {0};
    MsgExecuted record = {.epoch = epoch};
    CheckpointId id;
    int r;

    set_call(&record, call);
    result_say(&record, &call->outcome, change, &call->protection, id);
    if (restored)
        record.restored = notes_say(restored);
    r = outputs_say(&record, call->output, &words);
    if (r == 0)
        r = outputs_say_between(&record, call->between, &between);
    return r < 0 ? r : message_encode(ret, MSG_EXECUTED, call->id, MsgExecuted, &record);
}

static void make_record(Calls *calls, Call *call, const StateChange *change)
{
    Branch *branch = call->branch;
    int r = call_record(call, change, branch->epoch, branch->is_restored ? &branch->restored : NULL,
                        &calls->record);

    branch->is_restored = false;
    notes_deinit(&branch->restored);
    calls->record_id = call->id;
    if (r == 0)
        call_send_record(calls);
    else
        link_refuse(calls->link, call->id, ERR_INTERNAL, "the call's record cannot be made", strerror(-r));
    log_debug("call finished", "execution_count=%" PRIu64 " status=%s", call->execution_count,
              call->outcome.status);
}

/* Sends the record, as it is certain what became of the variables. Takes what is in `change`. */
static void call_finish(Calls *calls, StateChange *change)
{
    Call *call = calls->call;
    Branch *branch = call->branch;

    if (change->state == STATE_KEPT)
        state_change_move(change, &branch->unreported);
    else
        state_change_deinit(&branch->unreported);
    outcome_settle(&call->outcome, change);
    correct_protection(&call->protection, change);
    calls->call = NULL;
    make_record(calls, call, change);
    if (call->checkpoint_asked && calls->branches->mode == CHECKPOINT_OFF)
        checkpoints_drop_automatic(&calls->branches->checkpoints, branch->number, NULL);
    call_free(call);
    call_update_flow(calls, branch);
}

/* Does both. The variables are what they were, or what the call made of them. */
static void call_finish_kept(Calls *calls)
{
    StateChange change _cleanup_(state_change_deinit) = STATE_UNCHANGED;

    call_ended(calls->call);
    call_finish(calls, &change);
}

/* Ends a call that cannot be run. */
static void call_abandon(Calls *calls, const char *name, const char *what, const char *why)
{
    outcome_failed(&calls->call->outcome, name, what, why);
    call_finish_kept(calls);
}

/* ---- the interpreter is lost ---- */

static void end_lost(Call *call, const Loss *loss)
{
    const Interpreter *interpreter = &call->branch->interpreter;

    outcome_lost(&call->outcome, loss);
    call->outcome.cpu = interpreter->cpu;
    call->outcome.peak_memory = interpreter->peak_memory;
    call_ended(call);
}

void calls_on_lost(Calls *calls, Branch *branch, const char *fault)
{
    Call *call = call_of(calls, branch);

    if (!call || call->step == CALL_ENDED)
        return;

    bool killed = call->interruption.step == INTERRUPTION_STEP_KILL, waited = call->step == CALL_WAITS;

    if (waited && !killed)
        return; /* the call begins when there is an interpreter again */
    end_lost(call, &(Loss){
                       .killed = killed ? call->interruption.cause : INTERRUPTION_CAUSE_NONE,
                       .fault = fault,
                       .status = branch->interpreter.status,
                       .timeout = call->timeout,
                       .waited = waited,
                   });
}

bool calls_on_settled(Calls *calls, Branch *branch, StateChange *change)
{
    const Call *call = call_of(calls, branch);

    if (!call || call->step != CALL_ENDED)
        return false;
    if (change->calls > 0 && call->started)
        change->calls--; /* the call that ended it is not counted */
    call_finish(calls, change);
    return true;
}

void calls_end_closed(Calls *calls, Branch *branch)
{
    StateChange change _cleanup_(state_change_deinit) = {.state = STATE_LOST};
    Call *call = call_of(calls, branch);

    if (!call)
        return;
    outcome_failed(&call->outcome, "SessionClosed", "the call was ended", "its branch was closed");
    call_ended(call);
    call_finish(calls, &change);
}

void calls_end_reset(Calls *calls, Branch *branch)
{
    StateChange change _cleanup_(state_change_deinit) = {.state = STATE_LOST};
    Call *call = call_of(calls, branch);

    if (!call)
        return;
    if (call->step != CALL_ENDED)
        end_lost(call, &(Loss){.killed = INTERRUPTION_CAUSE_INTERRUPT, .reset = true});
    reason_set(change.reason, "the session was reset");
    call_finish(calls, &change);
}

/* ---- its beginning ---- */

/* A call that has not begun cannot be interrupted. An interpreter that does not answer at all is killed as
 * under one that runs; without an interpreter, recovery and start have limits of their own. */
static void on_step_while_waiting(const Call *call, InterruptionStep step)
{
    if (step == INTERRUPTION_STEP_KILL && branch_is_ready(call->branch))
        branch_lose(call->branch, NULL);
}

static void on_interruption_step(Interruption *interruption, InterruptionStep step)
{
    Call *call = container_of(interruption, Call, interruption);

    if (call->step == CALL_WAITS) {
        on_step_while_waiting(call, step);
        return;
    }
    if (step == INTERRUPTION_STEP_KILL) {
        branch_lose(call->branch, NULL);
        return;
    }
    interpreter_interrupt(&call->branch->interpreter);
    call_update_flow(call->calls, call->branch);
}

/* Returns 1: a checkpoint of the current state exists; 0: one is being taken; negative: none can be taken. */
static int ensure_checkpoint(Call *call, Reason why)
{
    Branch *branch = call->branch;

    if (branch_is_exact(branch))
        return !checkpoint_is_pending(branch->base);
    if (branch->state == BRANCH_CHECKPOINTING)
        return 0;
    if (call->checkpoint_asked) {
        policy_why_none(branch, why);
        return -ECANCELED;
    }
    call->checkpoint_asked = true;
    return branch_freeze(branch, CHECKPOINT_AUTOMATIC, "", why);
}

/* The time limit counts from when the interpreter is there. */
static int start_clock(Call *call)
{
    if (call->interruption.loop)
        return 0;
    return interruption_begin(&call->interruption, call->branch->set->loop,
                              clock_now() + clock_from_seconds(call->timeout), on_interruption_step);
}

/* The time that what is written may stay unseen in a ring. */
#define LOOK_PERIOD (40 * NSEC_PER_MSEC)

/* An alarm that is set stays so between calls: short ones cost no system call for it. */
static void watch_output(Calls *calls)
{
    if (calls->call->subscription.wanted && !calls->look.set)
        alarm_set(&calls->look, clock_now() + LOOK_PERIOD);
}

static void on_look(Alarm *alarm)
{
    Calls *calls = container_of(alarm, Calls, look);
    Call *call = calls->call;

    if (!call || call->step != CALL_RUNS)
        return;
    streams_look(&call->branch->interpreter.streams);
    watch_output(calls);
}

/* Begins a call for which everything is there. */
static void begin(Call *call)
{
    Branch *branch = call->branch;
    int r;

    /* Output written since the last call is no part of this one. */
    streams_drain_known(&branch->interpreter.streams);
    branch_take_between(branch, call->between);
    call->step = CALL_RUNS;
    call->started = clock_now();
    branch_occupy(branch, call->execution_count, call->started);
    watch_output(call->calls);
    r = interpreter_send(&branch->interpreter, &call->request);
    if (r < 0)
        branch_kill(branch, strerror(-r));
}

void calls_advance(Calls *calls)
{
    Call *call = calls->call;
    Reason why = "";
    int r;

    if (!call || call->step != CALL_WAITS || !branch_is_ready(call->branch))
        return;
    r = start_clock(call);
    if (r < 0) {
        call_abandon(calls, "MemoryError", "the call was not run", strerror(-r));
        return;
    }
    r = call->undo ? ensure_checkpoint(call, why) : 1;
    if (r != 0 && call->interruption.step != INTERRUPTION_STEP_WAIT) {
        outcome_too_late(&call->outcome, call->timeout);
        call_finish_kept(calls);
    } else if (r > 0) {
        begin(call);
    } else if (r < 0) {
        call_abandon(calls, "CheckpointFailed",
                     "the call was not run: there was no checkpoint to roll back to", why);
    }
}

void calls_on_start_failed(Calls *calls, Branch *branch, const char *why)
{
    if (call_of(calls, branch))
        call_abandon(calls, "InterpreterFailed", "cannot start the interpreter", why);
}

/* ---- from the controller ---- */

int calls_execute(Calls *calls, uint64_t id, const MsgExecute *asked, Problem *problem)
{
    uint64_t number = uint_or(asked->branch, 0);
    Branch *branch = branches_find(calls->branches, number);

    if (!branch)
        return problem_set(problem, ERR_NO_SUCH_SESSION, "there is no branch %" PRIu64, number);
    if (branches_are_busy(calls->branches))
        return problem_set(problem, ERR_BUSY, "a call or an order is in progress");

    Call *call = call_new(branch, id, asked, branch->execution_count + 1, &calls->limits);
    if (!call)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    buf_consume(&calls->record, calls->record.size);
    call->calls = calls;
    calls->call = call;
    branch->execution_count = call->execution_count;
    if (branch->state == BRANCH_EMPTY && branch_start(branch) < 0)
        return 0;
    calls_advance(calls);
    return 0;
}

void calls_interrupt(Calls *calls)
{
    Call *call = calls->call;

    if (!call || call->step == CALL_ENDED)
        return;
    if (call->step == CALL_RUNS) {
        interruption_now(&call->interruption);
        return;
    }
    outcome_never_begun(&call->outcome);
    call_finish_kept(calls);
}

static void call_send_questions(Calls *calls);

void calls_credit(Calls *calls, uint64_t id, uint64_t count)
{
    if (!calls->call || calls->call->id != id)
        return; /* for a call that has ended */
    call_credit(calls->call, count);
    call_send_questions(calls);
    call_update_flow(calls, calls->call->branch);
}

void calls_settled(Calls *calls, uint64_t id)
{
    if (calls->record_id == id)
        buf_consume(&calls->record, calls->record.size);
}

void calls_tell_again(Calls *calls)
{
    call_send_record(calls);
    call_send_questions(calls);
}

void calls_on_controller_lost(Calls *calls)
{
    if (!calls->call)
        return;
    call_unattended(calls->call);
    call_update_flow(calls, calls->call->branch);
}

/* ---- their life ---- */

int calls_init(Calls *calls, Branches *branches, Link *link)
{
    *calls = (Calls){.branches = branches, .link = link, .limits.spill = SPILL_NONE};
    return alarm_open(&calls->look, branches->loop, on_look);
}

void calls_deinit(Calls *calls)
{
    calls->call = call_free(calls->call);
    buf_deinit(&calls->record);
    alarm_close(&calls->look);
    spill_close(&calls->limits.spill);
}

/* ---- what its interpreter says ---- */

/* The bytes of unread answers after which an interpreter is not waiting for them: more than all questions may
 * have. */
#define UNREAD_MAXIMUM ((LIMIT_ASKS + 1) * LIMIT_ASK)

static bool is_of_call(const Call *call, const Message *message)
{
    return call && call->step == CALL_RUNS && message->id == call->execution_count;
}

/* Code that spoke in its interpreter's place may have ended its call by words alone, and run on. */
static int refuse_foreign(const Call *call, const Message *message, Problem *problem)
{
    if (call && message->id > 0 && message->id < call->execution_count)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "call %" PRIu64 " ran on after it had said that it was over", message->id);
    return problem_set(problem, ERR_BAD_REQUEST, "`%s` that belongs to no call", message_name(message->kind));
}

/* ---- output and displays ---- */

void calls_on_output(Calls *calls, Branch *branch, unsigned stream, const uint8_t *bytes, size_t n)
{
    Call *call = call_of(calls, branch);

    if (!call || call->step != CALL_RUNS) {
        branch_wrote(branch, stream, bytes, n);
        return;
    }
    call_output(call, calls->link, stream, bytes, n);
    if (!call_takes_output(call))
        call_update_flow(calls, branch);
}

static int on_display(Calls *calls, Call *call, const Message *message, Problem *problem)
{
    MsgDisplay display;
    int r;

    if (!is_of_call(call, message))
        return refuse_foreign(call, message, problem);
    r = display_decode(&display, &message->body, problem);
    if (r == 0)
        call_display(call, calls->link, &display);
    return r;
}

/* ---- questions ---- */

/* Sends an answer to the interpreter. Negative with a Problem: it is not spoken to any more. */
static int answer(Interpreter *interpreter, uint64_t id, const MsgAnswer *answer, Problem *problem)
{
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    if (interpreter->out.size > UNREAD_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "it does not read the answers to its questions");
    r = answer_encode(&frame, id, answer);
    if (r == 0)
        r = interpreter_send(interpreter, &frame);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "%s", strerror(-r)) : 0;
}

/* With ASK_PAUSE the deadline comes no nearer while a question waits. */
static void update_deadline(Call *call)
{
    if (call->questions.mode != ASK_PAUSE)
        return;
    if (call->questions.count > 0)
        interruption_pause(&call->interruption);
    else
        interruption_resume(&call->interruption);
}

/* Output that was written before a question is sent before it. As long as that cannot be sent, the question
 * waits. */
static void call_send_questions(Calls *calls)
{
    Call *call = calls->call;

    if (!call || !questions_unsent(&call->questions) || !calls->link->accepted || !call_takes_output(call))
        return;
    if (call->subscription.active)
        streams_drain(&call->branch->interpreter.streams);
    questions_send(&call->questions, calls->link);
}

static int on_ask(Calls *calls, Branch *branch, const Message *message, Problem *problem)
{
    Call *call = call_of(calls, branch);
    MsgAsk question;
    const char *why = "no call of this question runs";
    int r = question_decode(&question, &message->body, problem);

    if (r < 0)
        return r;
    if (is_of_call(call, message))
        why = questions_add(&call->questions, call->id, &question);
    if (why) {
        MsgAnswer refusal = question_refusal(&question, why);

        return answer(&branch->interpreter, message->id, &refusal, problem);
    }
    update_deadline(call);
    call_send_questions(calls);
    return 0;
}

int calls_answer(Calls *calls, const Message *message, Problem *problem)
{
    Call *call = calls->call;
    MsgAnswer said;
    int r = answer_decode(&said, &message->body, problem);

    if (r < 0 || !call || call->step != CALL_RUNS || call->id != message->id ||
        !questions_take(&call->questions, said.ask))
        return r;
    update_deadline(call);
    if (answer(&call->branch->interpreter, call->execution_count, &said, problem) < 0)
        branch_kill(call->branch, problem->text);
    return 0;
}

/* ---- its own end ---- */

/* Ends a call whose effects are undone. */
static void end_undone(Call *call)
{
    /* Without memory its words are lost, not the rest. */
    if (outcome_own(&call->outcome, &call->words) < 0)
        outcome_failed(&call->outcome, "MemoryError", "what the call said cannot be kept", strerror(ENOMEM));
    call_ended(call);
    branch_undo(call->branch);
}

static int on_executed(Calls *calls, Call *call, const Message *message, Problem *problem)
{
    MsgCellExecuted executed;

    if (!is_of_call(call, message))
        return refuse_foreign(call, message, problem);
    if (call->branch->state == BRANCH_QUEUED)
        return problem_set(problem, ERR_BAD_REQUEST, "`executed` before the checkpoint that was asked for");

    int r = executed_decode(&executed, &call->displays, &message->body, problem);
    if (r < 0)
        return r;
    streams_drain(&call->branch->interpreter.streams);
    interpreter_executed(&call->branch->interpreter, executed.cpu, executed.spawned);
    outcome_finished(&call->outcome, &executed, call->interruption.cause, call->timeout);
    if (call->undo && strcmp(call->outcome.status, "ok") != 0)
        end_undone(call);
    else
        call_finish_kept(calls);
    return 0;
}

/* The call's end, and its questions, come too late from an interpreter that has been ended. */
int calls_on_message(Calls *calls, Branch *branch, const Message *message, Problem *problem)
{
    bool late = !branch_is_ready(branch);

    switch (message->kind) {
    case MSG_DISPLAY:
        return on_display(calls, call_of(calls, branch), message, problem);
    case MSG_EXECUTED:
        return late ? 0 : on_executed(calls, call_of(calls, branch), message, problem);
    case MSG_ASK:
        return late ? 0 : on_ask(calls, branch, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "an unexpected message, %s",
                           message_name(message->kind));
    }
}
