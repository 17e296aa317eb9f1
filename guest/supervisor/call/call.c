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

static int encode_request(Cell *cell, const MsgExecute *asked)
{
    const MsgCell request = {
        .code = asked->code,
        .run_id = asked->run_id,
        .execution_count = cell->execution_count,
        .asks = cell->questions.mode != ASK_NOBODY,
        .script = asked->script,
        .last = asked->last,
    };

    return channel_say(&cell->request, MSG_EXECUTE, cell->execution_count, MsgCell, &request);
}

static void init_outputs(Cell *cell, const OutputLimits *limits)
{
    char stem[SPILL_STEM];

    if (cell->branch_number > 0)
        snprintf(stem, sizeof(stem), "%" PRIu64 "-%" PRIu64, cell->branch_number, cell->execution_count);
    else
        snprintf(stem, sizeof(stem), "%" PRIu64, cell->execution_count);
    outputs_init(cell->output, limits, stem);
    for (unsigned i = 0; i < STREAMS; i++)
        output_init(&cell->between[i], 0, &limits->spill, "");
}

Cell *cell_new(Branch *branch, uint64_t id, const MsgExecute *asked, uint64_t execution_count,
               const OutputLimits *limits)
{
    Cell *cell = calloc(1, sizeof(*cell));

    if (!cell)
        return NULL;
    cell->branch = branch;
    cell->branch_number = uint_or(asked->branch, 0);
    cell->id = id;
    cell->execution_count = execution_count;
    cell->code_hash = uint_or(asked->code_hash, 0);
    cell->timeout = asked->timeout;
    subscription_begin(&cell->subscription, asked->stream);
    cell->undo = text_equal(asked->on_error, "rollback");
    if (asked->run_id.size > 0)
        memcpy(cell->run_id, asked->run_id.data, MIN(asked->run_id.size, LIMIT_RUN_ID));
    init_outputs(cell, limits);
    displays_init(&cell->displays);
    questions_init(&cell->questions, ask_mode_parse(asked->asks));
    return encode_request(cell, asked) == 0 ? cell : cell_free(cell);
}

Cell *cell_free(Cell *cell)
{
    if (!cell)
        return NULL;
    interruption_end(&cell->interruption);
    outputs_deinit(cell->output);
    outputs_deinit(cell->between);
    displays_deinit(&cell->displays);
    questions_deinit(&cell->questions);
    buf_deinit(&cell->request);
    buf_deinit(&cell->words);
    free(cell);
    return NULL;
}

/* The cell has written to stream 1 or 2. That is kept, counted, and sent as an event where there is credit.
 */
static void cell_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n)
{
    output_write(&cell->output[stream - 1], bytes, n);
    subscription_output(&cell->subscription, link, cell->id, stream, bytes, n);
}

/* The cell shows something. That is kept, and sent as an event. */
static void cell_display(Cell *cell, Link *link, const MsgDisplay *display)
{
    MsgDisplay event = *display;

    if (!displays_add(&cell->displays, display) || !cell->subscription.active || !link_has_room(link))
        return;
    event.metadata = display_metadata(display);
    link_say(link, MSG_DISPLAY, cell->id, MsgDisplay, &event);
}

/* The controller is gone, and with it events and credit that were under way. The first credit of the next one
 * resumes. */
static void cell_unattended(Cell *cell)
{
    subscription_lost(&cell->subscription);
    questions_send_again(&cell->questions);
}

static void cell_credit(Cell *cell, uint64_t count)
{
    subscription_credit(&cell->subscription, count);
}

/* Returns whether the pipes are read now. Where nobody takes the output the writer waits. */
static bool cell_takes_output(const Cell *cell)
{
    return subscription_takes(&cell->subscription) || cell->interruption.step != INTERRUPTION_STEP_WAIT;
}

/* ---- its end ---- */

/* The running or waiting call if it is the branch's, otherwise NULL. */
static Cell *call_of(const Executor *executor, const Branch *branch)
{
    Cell *cell = executor->cell;

    return cell && cell->branch == branch ? cell : NULL;
}

/* Reads the pipes of the branch, or lets them wait, as its call has it. */
static void call_update_flow(const Executor *executor, Branch *branch)
{
    const Cell *cell = call_of(executor, branch);
    bool takes = !cell || cell_takes_output(cell);

    if (streams_pause(&branch->interpreter.streams, !takes) < 0)
        log_error("a pipe cannot be read", "error=%s", strerror(ENOMEM));
}

/* The time that a record waits to learn whether a checkpoint in the making exists. */
#define SETTLE_LIMIT NSEC_PER_SEC

static void call_send_record(Executor *executor)
{
    const Buf *record = &executor->record;

    if (executor->link->accepted && record->size > 0 && link_send(executor->link, record) == -ENOMEM)
        log_error("no memory to send a record", "bytes=%zu", record->size);
}

/* Notes what the call ran under. The newest checkpoint counts once it is certain that it exists. */
static void note_protection(Cell *cell)
{
    Branch *branch = cell->branch;

    if (branch->base && checkpoint_is_pending(branch->base))
        checkpoints_settle(branch->base->set, SETTLE_LIMIT);
    branch_protection(branch, &cell->protection);
}

/* The call has ended. The caller has written to the cell's outcome how. */
static void call_ended(Cell *cell)
{
    uint64_t now = clock_now(), busy = cell->step == CELL_RUNS ? now - cell->started : 0;

    interruption_end(&cell->interruption);
    questions_deinit(&cell->questions);
    if (cell->step == CELL_RUNS)
        cell->duration = (double)busy / NSEC_PER_SEC;
    cell->step = CELL_ENDED;
    branch_call_ended(cell->branch, busy, now);
    note_protection(cell);
}

/* A checkpoint that was there at the call's end, and could not be gone back to, protected nothing. */
static void correct_protection(Protection *protection, const StateChange *change)
{
    if (change->state != STATE_LOST || !protection->exists)
        return;
    *protection = (Protection){.exists = false};
    reason_set(protection->reason, "%s", change->reason[0] ? change->reason : state_change_no_checkpoint);
}

static void set_call(MsgExecuted *record, const Cell *cell)
{
    record->run_id = text_of(cell->run_id);
    record->code_hash = cell->code_hash;
    record->branch = cell->branch_number;
    record->execution_count = cell->execution_count;
    record->duration = cell->duration;
    record->displays = displays_say(&cell->displays);
}

int cell_record(Cell *cell, const StateChange *change, uint64_t epoch, const EncodedNotes *restored, Buf *ret)
{
    OutputWords words _cleanup_(output_words_deinit) = {0}, between _cleanup_(output_words_deinit) = {0};
    MsgExecuted record = {.epoch = epoch};
    CheckpointId id;
    int r;

    set_call(&record, cell);
    result_say(&record, &cell->outcome, change, &cell->protection, id);
    if (restored)
        record.restored = notes_say(restored);
    r = outputs_say(&record, cell->output, &words);
    if (r == 0)
        r = outputs_say_between(&record, cell->between, &between);
    return r < 0 ? r : message_encode(ret, MSG_EXECUTED, cell->id, MsgExecuted, &record);
}

static void make_record(Executor *executor, Cell *cell, const StateChange *change)
{
    Branch *branch = cell->branch;
    int r = cell_record(cell, change, branch->epoch, branch->is_restored ? &branch->restored : NULL,
                        &executor->record);

    branch->is_restored = false;
    notes_deinit(&branch->restored);
    executor->record_id = cell->id;
    if (r == 0)
        call_send_record(executor);
    else
        link_refuse(executor->link, cell->id, ERR_INTERNAL, "the call's record cannot be made", strerror(-r));
    log_debug("cell finished", "execution_count=%" PRIu64 " status=%s", cell->execution_count,
              cell->outcome.status);
}

/* Sends the record, as it is certain what became of the variables. Takes what is in `change`. */
static void call_finish(Executor *executor, StateChange *change)
{
    Cell *cell = executor->cell;
    Branch *branch = cell->branch;

    if (change->state == STATE_KEPT)
        state_change_move(change, &branch->unreported);
    else
        state_change_deinit(&branch->unreported);
    outcome_settle(&cell->outcome, change);
    correct_protection(&cell->protection, change);
    executor->cell = NULL;
    make_record(executor, cell, change);
    if (cell->checkpoint_asked && executor->branches->mode == CHECKPOINT_OFF)
        checkpoints_drop_automatic(&executor->branches->checkpoints, branch->number, NULL);
    cell_free(cell);
    call_update_flow(executor, branch);
}

/* Does both. The variables are what they were, or what the call made of them. */
static void call_finish_kept(Executor *executor)
{
    StateChange change _cleanup_(state_change_deinit) = STATE_UNCHANGED;

    call_ended(executor->cell);
    call_finish(executor, &change);
}

/* Ends a call that cannot be run. */
static void call_abandon(Executor *executor, const char *name, const char *what, const char *why)
{
    outcome_failed(&executor->cell->outcome, name, what, why);
    call_finish_kept(executor);
}

/* ---- the interpreter is lost ---- */

static void end_lost(Cell *cell, const Loss *loss)
{
    const Interpreter *interpreter = &cell->branch->interpreter;

    outcome_lost(&cell->outcome, loss);
    cell->outcome.cpu = interpreter->cpu;
    cell->outcome.peak_memory = interpreter->peak_memory;
    call_ended(cell);
}

void executor_on_lost(Executor *executor, Branch *branch, const char *fault)
{
    Cell *cell = call_of(executor, branch);

    if (!cell || cell->step == CELL_ENDED)
        return;

    bool killed = cell->interruption.step == INTERRUPTION_STEP_KILL, waited = cell->step == CELL_WAITS;

    if (waited && !killed)
        return; /* the call begins when there is an interpreter again */
    end_lost(cell, &(Loss){
                       .killed = killed ? cell->interruption.cause : INTERRUPTION_CAUSE_NONE,
                       .fault = fault,
                       .status = branch->interpreter.status,
                       .timeout = cell->timeout,
                       .waited = waited,
                   });
}

bool executor_on_settled(Executor *executor, Branch *branch, StateChange *change)
{
    const Cell *cell = call_of(executor, branch);

    if (!cell || cell->step != CELL_ENDED)
        return false;
    if (change->calls > 0 && cell->started)
        change->calls--; /* the call that ended it is not counted */
    call_finish(executor, change);
    return true;
}

void executor_end_closed(Executor *executor, Branch *branch)
{
    StateChange change _cleanup_(state_change_deinit) = {.state = STATE_LOST};
    Cell *cell = call_of(executor, branch);

    if (!cell)
        return;
    outcome_failed(&cell->outcome, "SessionClosed", "the call was ended", "its branch was closed");
    call_ended(cell);
    call_finish(executor, &change);
}

void executor_end_reset(Executor *executor, Branch *branch)
{
    StateChange change _cleanup_(state_change_deinit) = {.state = STATE_LOST};
    Cell *cell = call_of(executor, branch);

    if (!cell)
        return;
    if (cell->step != CELL_ENDED)
        end_lost(cell, &(Loss){.killed = INTERRUPTION_CAUSE_INTERRUPT, .reset = true});
    reason_set(change.reason, "the session was reset");
    call_finish(executor, &change);
}

/* ---- its beginning ---- */

/* A call that has not begun cannot be interrupted. An interpreter that does not answer at all is killed as
 * under one that runs; without an interpreter, recovery and start have limits of their own. */
static void on_step_while_waiting(const Cell *cell, InterruptionStep step)
{
    if (step == INTERRUPTION_STEP_KILL && branch_is_ready(cell->branch))
        branch_lose(cell->branch, NULL);
}

static void on_interruption_step(Interruption *interruption, InterruptionStep step)
{
    Cell *cell = container_of(interruption, Cell, interruption);

    if (cell->step == CELL_WAITS) {
        on_step_while_waiting(cell, step);
        return;
    }
    if (step == INTERRUPTION_STEP_KILL) {
        branch_lose(cell->branch, NULL);
        return;
    }
    interpreter_interrupt(&cell->branch->interpreter);
    call_update_flow(cell->executor, cell->branch);
}

/* Returns 1: a checkpoint of the current state exists; 0: one is being taken; negative: none can be taken. */
static int ensure_checkpoint(Cell *cell, Reason why)
{
    Branch *branch = cell->branch;

    if (branch_is_exact(branch))
        return !checkpoint_is_pending(branch->base);
    if (branch->state == BRANCH_CHECKPOINTING)
        return 0;
    if (cell->checkpoint_asked) {
        policy_why_none(branch, why);
        return -ECANCELED;
    }
    cell->checkpoint_asked = true;
    return branch_freeze(branch, CHECKPOINT_AUTOMATIC, "", why);
}

/* The time limit counts from when the interpreter is there. */
static int start_clock(Cell *cell)
{
    if (cell->interruption.loop)
        return 0;
    return interruption_begin(&cell->interruption, cell->branch->set->loop,
                              clock_now() + clock_from_seconds(cell->timeout), on_interruption_step);
}

/* The time that what is written may stay unseen in a ring. */
#define LOOK_PERIOD (40 * NSEC_PER_MSEC)

/* An alarm that is set stays so between calls: short ones cost no system call for it. */
static void watch_output(Executor *executor)
{
    if (executor->cell->subscription.wanted && !executor->look.set)
        alarm_set(&executor->look, clock_now() + LOOK_PERIOD);
}

static void on_look(Alarm *alarm)
{
    Executor *executor = container_of(alarm, Executor, look);
    Cell *cell = executor->cell;

    if (!cell || cell->step != CELL_RUNS)
        return;
    streams_look(&cell->branch->interpreter.streams);
    watch_output(executor);
}

/* Begins a call for which everything is there. */
static void begin(Cell *cell)
{
    Branch *branch = cell->branch;
    int r;

    /* Output written since the last call is no part of this one. */
    streams_drain_known(&branch->interpreter.streams);
    branch_take_between(branch, cell->between);
    cell->step = CELL_RUNS;
    cell->started = clock_now();
    branch_occupy(branch, cell->execution_count, cell->started);
    watch_output(cell->executor);
    r = interpreter_send(&branch->interpreter, &cell->request);
    if (r < 0)
        branch_kill(branch, strerror(-r));
}

void executor_advance(Executor *executor)
{
    Cell *cell = executor->cell;
    Reason why = "";
    int r;

    if (!cell || cell->step != CELL_WAITS || !branch_is_ready(cell->branch))
        return;
    r = start_clock(cell);
    if (r < 0) {
        call_abandon(executor, "MemoryError", "the call was not run", strerror(-r));
        return;
    }
    r = cell->undo ? ensure_checkpoint(cell, why) : 1;
    if (r != 0 && cell->interruption.step != INTERRUPTION_STEP_WAIT) {
        outcome_too_late(&cell->outcome, cell->timeout);
        call_finish_kept(executor);
    } else if (r > 0) {
        begin(cell);
    } else if (r < 0) {
        call_abandon(executor, "CheckpointFailed",
                     "the call was not run: there was no checkpoint to roll back to", why);
    }
}

void executor_on_start_failed(Executor *executor, Branch *branch, const char *why)
{
    if (call_of(executor, branch))
        call_abandon(executor, "InterpreterFailed", "cannot start the interpreter", why);
}

/* ---- from the controller ---- */

int executor_execute(Executor *executor, uint64_t id, const MsgExecute *asked, Problem *problem)
{
    uint64_t number = uint_or(asked->branch, 0);
    Branch *branch = branches_find(executor->branches, number);

    if (!branch)
        return problem_set(problem, ERR_NO_SUCH_SESSION, "there is no branch %" PRIu64, number);
    if (branches_are_busy(executor->branches))
        return problem_set(problem, ERR_BUSY, "a call or a task is in progress");

    Cell *cell = cell_new(branch, id, asked, branch->execution_count + 1, &executor->limits);
    if (!cell)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    buf_consume(&executor->record, executor->record.size);
    cell->executor = executor;
    executor->cell = cell;
    branch->execution_count = cell->execution_count;
    if (branch->state == BRANCH_EMPTY && branch_start(branch) < 0)
        return 0;
    executor_advance(executor);
    return 0;
}

void executor_interrupt(Executor *executor)
{
    Cell *cell = executor->cell;

    if (!cell || cell->step == CELL_ENDED)
        return;
    if (cell->step == CELL_RUNS) {
        interruption_now(&cell->interruption);
        return;
    }
    outcome_never_begun(&cell->outcome);
    call_finish_kept(executor);
}

static void call_send_questions(Executor *executor);

void executor_credit(Executor *executor, uint64_t id, uint64_t count)
{
    if (!executor->cell || executor->cell->id != id)
        return; /* for a call that has ended */
    cell_credit(executor->cell, count);
    call_send_questions(executor);
    call_update_flow(executor, executor->cell->branch);
}

void executor_settled(Executor *executor, uint64_t id)
{
    if (executor->record_id == id)
        buf_consume(&executor->record, executor->record.size);
}

void executor_tell_again(Executor *executor)
{
    call_send_record(executor);
    call_send_questions(executor);
}

void executor_on_controller_lost(Executor *executor)
{
    if (!executor->cell)
        return;
    cell_unattended(executor->cell);
    call_update_flow(executor, executor->cell->branch);
}

/* ---- their life ---- */

int executor_init(Executor *executor, Branches *branches, Link *link)
{
    *executor = (Executor){.branches = branches, .link = link, .limits.spill = SPILL_NONE};
    return alarm_open(&executor->look, branches->loop, on_look);
}

void executor_deinit(Executor *executor)
{
    executor->cell = cell_free(executor->cell);
    buf_deinit(&executor->record);
    alarm_close(&executor->look);
    spill_close(&executor->limits.spill);
}

/* ---- what its interpreter says ---- */

/* The bytes of unread answers after which an interpreter is not waiting for them: more than all questions may
 * have. */
#define UNREAD_MAXIMUM ((LIMIT_ASKS + 1) * LIMIT_ASK)

static bool is_of_call(const Cell *cell, const Message *message)
{
    return cell && cell->step == CELL_RUNS && message->id == cell->execution_count;
}

/* Code that spoke in its interpreter's place may have ended its call by words alone, and run on. */
static int refuse_foreign(const Cell *cell, const Message *message, Problem *problem)
{
    if (cell && message->id > 0 && message->id < cell->execution_count)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "call %" PRIu64 " ran on after it had said that it was over", message->id);
    return problem_set(problem, ERR_BAD_REQUEST, "`%s` that belongs to no call", message_name(message->kind));
}

/* ---- output and displays ---- */

void executor_on_output(Executor *executor, Branch *branch, unsigned stream, const uint8_t *bytes, size_t n)
{
    Cell *cell = call_of(executor, branch);

    if (!cell || cell->step != CELL_RUNS) {
        branch_wrote(branch, stream, bytes, n);
        return;
    }
    cell_output(cell, executor->link, stream, bytes, n);
    if (!cell_takes_output(cell))
        call_update_flow(executor, branch);
}

static int on_display(Executor *executor, Cell *cell, const Message *message, Problem *problem)
{
    MsgDisplay display;
    int r;

    if (!is_of_call(cell, message))
        return refuse_foreign(cell, message, problem);
    r = display_decode(&display, &message->body, problem);
    if (r == 0)
        cell_display(cell, executor->link, &display);
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
static void update_deadline(Cell *cell)
{
    if (cell->questions.mode != ASK_PAUSE)
        return;
    if (cell->questions.count > 0)
        interruption_pause(&cell->interruption);
    else
        interruption_resume(&cell->interruption);
}

/* Output that was written before a question is sent before it. As long as that cannot be sent, the question
 * waits. */
static void call_send_questions(Executor *executor)
{
    Cell *cell = executor->cell;

    if (!cell || !questions_unsent(&cell->questions) || !executor->link->accepted || !cell_takes_output(cell))
        return;
    if (cell->subscription.active)
        streams_drain(&cell->branch->interpreter.streams);
    questions_send(&cell->questions, executor->link);
}

static int on_ask(Executor *executor, Branch *branch, const Message *message, Problem *problem)
{
    Cell *cell = call_of(executor, branch);
    MsgAsk question;
    const char *why = "no call of this question runs";
    int r = question_decode(&question, &message->body, problem);

    if (r < 0)
        return r;
    if (is_of_call(cell, message))
        why = questions_add(&cell->questions, cell->id, &question);
    if (why) {
        MsgAnswer refusal = question_refusal(&question, why);

        return answer(&branch->interpreter, message->id, &refusal, problem);
    }
    update_deadline(cell);
    call_send_questions(executor);
    return 0;
}

int executor_answer(Executor *executor, const Message *message, Problem *problem)
{
    Cell *cell = executor->cell;
    MsgAnswer said;
    int r = answer_decode(&said, &message->body, problem);

    if (r < 0 || !cell || cell->step != CELL_RUNS || cell->id != message->id ||
        !questions_take(&cell->questions, said.ask))
        return r;
    update_deadline(cell);
    if (answer(&cell->branch->interpreter, cell->execution_count, &said, problem) < 0)
        branch_kill(cell->branch, problem->text);
    return 0;
}

/* ---- its own end ---- */

/* Ends a call whose effects are undone. */
static void end_undone(Cell *cell)
{
    /* Without memory its words are lost, not the rest. */
    if (outcome_own(&cell->outcome, &cell->words) < 0)
        outcome_failed(&cell->outcome, "MemoryError", "what the call said cannot be kept", strerror(ENOMEM));
    call_ended(cell);
    branch_undo(cell->branch);
}

static int on_executed(Executor *executor, Cell *cell, const Message *message, Problem *problem)
{
    MsgCellExecuted executed;

    if (!is_of_call(cell, message))
        return refuse_foreign(cell, message, problem);
    if (cell->branch->state == BRANCH_QUEUED)
        return problem_set(problem, ERR_BAD_REQUEST, "`executed` before the checkpoint that was asked for");

    int r = executed_decode(&executed, &cell->displays, &message->body, problem);
    if (r < 0)
        return r;
    streams_drain(&cell->branch->interpreter.streams);
    interpreter_executed(&cell->branch->interpreter, executed.cpu, executed.spawned);
    outcome_finished(&cell->outcome, &executed, cell->interruption.cause, cell->timeout);
    if (cell->undo && strcmp(cell->outcome.status, "ok") != 0)
        end_undone(cell);
    else
        call_finish_kept(executor);
    return 0;
}

/* The call's end, and its questions, come too late from an interpreter that has been ended. */
int executor_on_message(Executor *executor, Branch *branch, const Message *message, Problem *problem)
{
    bool late = !branch_is_ready(branch);

    switch (message->kind) {
    case MSG_DISPLAY:
        return on_display(executor, call_of(executor, branch), message, problem);
    case MSG_EXECUTED:
        return late ? 0 : on_executed(executor, call_of(executor, branch), message, problem);
    case MSG_ASK:
        return late ? 0 : on_ask(executor, branch, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "an unexpected message, %s",
                           message_name(message->kind));
    }
}
