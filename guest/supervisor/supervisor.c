#include "guest/supervisor/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/controller.h"
#include "guest/supervisor/processes.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* An interpreter that has not said `ready` after this is broken. */
#define START_LIMIT (30 * NSEC_PER_SEC)

static void lose_interpreter(Supervisor *supervisor, const Loss *reason);

static const char no_timer[] = "there is no memory for the timer of its deadline";

/* The end of a call */

static void finish_cell(Supervisor *supervisor, const Outcome *outcome)
{
    Cell *cell = take(supervisor->cell);
    int r;

    ladder_end(&cell->ladder);
    r = cell_record(cell, outcome, supervisor->epoch, &supervisor->record);
    if (r == 0)
        controller_send_record(&supervisor->controller);
    else
        controller_answer(&supervisor->controller, cell->id, ERR_INTERNAL, "the call's record cannot be made",
                          strerror(-r));
    log_debug("cell finished", "execution_count=%" PRIu64 " status=%s", cell->execution_count,
              outcome->status);
    cell_free(cell);
}

static void finish_failed(Supervisor *supervisor, const char *reason)
{
    Outcome outcome;

    outcome_failed(&outcome, reason);
    finish_cell(supervisor, &outcome);
}

/* The interpreter's life */

/* Also when no interpreter could be started: the old one is gone, and the next call will tell. */
static void finish_reset(Supervisor *supervisor)
{
    if (!supervisor->resetting)
        return;
    supervisor->resetting = false;
    controller_reply_reset(&supervisor->controller, supervisor->reset_id);
}

static void on_start_due(LoopTimer *timer)
{
    lose_interpreter(container_of(timer, Supervisor, start),
                     &(Loss){.fault = "it did not get ready in time"});
}

/* 0, or a negative errno when there is none and the calls that wait for one have been answered. */
static int start_interpreter(Supervisor *supervisor)
{
    int r = loop_timer_set(supervisor->loop, &supervisor->start, clock_now() + START_LIMIT, on_start_due);

    if (r == 0)
        r = interpreter_start(&supervisor->interpreter, supervisor->options, &supervisor->environment);
    if (r == 0)
        return 0;
    loop_timer_cancel(&supervisor->start);
    log_error("interpreter not started", "error=%s", strerror(-r));
    if (supervisor->cell)
        finish_failed(supervisor, strerror(-r));
    finish_reset(supervisor);
    return r;
}

/* It died before it was ready: the next call tries again, so that a broken image does not spin. */
static void start_failed(Supervisor *supervisor, const Loss *loss)
{
    char reason[512];

    outcome_describe_start(reason, sizeof(reason), loss, &supervisor->interpreter.complaint);
    log_error("interpreter not ready", "reason=%s", reason);
    if (supervisor->cell)
        finish_failed(supervisor, reason);
    finish_reset(supervisor);
}

static void finish_lost(Supervisor *supervisor, const Loss *loss)
{
    const Interpreter *interpreter = &supervisor->interpreter;
    const struct rusage *usage = &interpreter->usage;
    double cpu = (double)(usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) +
                 (double)(usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) * 1e-6;
    Outcome outcome;

    outcome_lost(&outcome, loss);
    outcome.cpu = MAX(cpu - interpreter->cpu_counted, 0.0);
    outcome.peak_memory = (uint64_t)usage->ru_maxrss * 1024;
    finish_cell(supervisor, &outcome);
}

/* The interpreter has died, or is to die: ends it with all that it left, answers, and starts a new one. */
static void lose_interpreter(Supervisor *supervisor, const Loss *reason)
{
    Interpreter *interpreter = &supervisor->interpreter;
    bool was_ready = interpreter->ready;
    Loss loss = *reason;

    loop_timer_cancel(&supervisor->start);
    supervisor->ending = loss.killed != LADDER_CAUSE_NONE || loss.fault;
    interpreter_end(interpreter);
    supervisor->ending = false;
    loss.status = interpreter->status;
    if (!was_ready && !loss.reset) {
        start_failed(supervisor, &loss);
        return;
    }
    supervisor->epoch++;
    if (supervisor->cell) {
        loss.timeout = supervisor->cell->timeout;
        finish_lost(supervisor, &loss);
    }
    start_interpreter(supervisor);
}

/* The running call */

static void update_flow(Supervisor *supervisor)
{
    bool takes = !supervisor->cell || cell_takes_output(supervisor->cell);

    if (streams_pause(&supervisor->interpreter.streams, !takes) < 0)
        log_error("a pipe cannot be read", "error=%s", strerror(ENOMEM));
}

static void on_ladder_step(Ladder *ladder, LadderStep step)
{
    Cell *cell = container_of(ladder, Cell, ladder);
    Supervisor *supervisor = cell->owner;

    if (step == LADDER_STEP_KILL) {
        lose_interpreter(supervisor, &(Loss){.killed = ladder->cause});
        return;
    }
    interpreter_interrupt(&supervisor->interpreter);
    update_flow(supervisor);
}

/* The interpreter has the cell: its time begins. */
static int begin_cell(Supervisor *supervisor)
{
    Cell *cell = supervisor->cell;

    cell->begun = true;
    cell->started = clock_now();
    return ladder_begin(&cell->ladder, supervisor->loop, cell->started + clock_from_seconds(cell->timeout),
                        on_ladder_step);
}

/* From the interpreter */

static bool is_of_call(const Supervisor *supervisor, const Message *message)
{
    return supervisor->cell && supervisor->cell->begun && message->id == supervisor->cell->execution_count;
}

static int on_executed(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Cell *cell = supervisor->cell;
    Executed executed;
    Outcome outcome;

    if (supervisor->ending)
        return 0;
    if (!is_of_call(supervisor, message))
        return problem_set(problem, ERR_BAD_REQUEST, "`executed` that answers no call");

    int r = executed_decode(&executed, &cell->displays, &message->body, problem);
    if (r < 0)
        return r;
    streams_drain(&supervisor->interpreter.streams);
    supervisor->interpreter.left_children = executed.spawned;
    supervisor->interpreter.cpu_counted += executed.cpu;
    outcome_finished(&outcome, &executed, cell->ladder.cause, cell->timeout);
    finish_cell(supervisor, &outcome);
    update_flow(supervisor);
    return 0;
}

static int on_display(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Display display;

    if (!is_of_call(supervisor, message))
        return problem_set(problem, ERR_BAD_REQUEST, "`display` that belongs to no call");

    int r = display_decode(&display, &message->body, problem);
    if (r == 0)
        cell_display(supervisor->cell, &supervisor->controller.link, &display);
    return r;
}

static int on_interpreter_ready(Supervisor *supervisor, Problem *problem)
{
    if (supervisor->interpreter.ready)
        return problem_set(problem, ERR_BAD_REQUEST, "`ready` twice");
    if (!supervisor->interpreter.alive)
        return 0;
    loop_timer_cancel(&supervisor->start);
    interpreter_ready(&supervisor->interpreter);
    finish_reset(supervisor);
    if (supervisor->cell && begin_cell(supervisor) < 0)
        return problem_set(problem, ERR_INTERNAL, "%s", no_timer);
    return 0;
}

static int on_interpreter_message(Interpreter *interpreter, const Message *message, Problem *problem)
{
    Supervisor *supervisor = container_of(interpreter, Supervisor, interpreter);

    switch (message->kind) {
    case MSG_READY:
        return on_interpreter_ready(supervisor, problem);
    case MSG_DISPLAY:
        return on_display(supervisor, message, problem);
    case MSG_EXECUTED:
        return on_executed(supervisor, message, problem);
    default:
        return problem_set(problem, ERR_BAD_REQUEST, "an unexpected message, %s",
                           message_name(message->kind));
    }
}

static void on_interpreter_output(Interpreter *interpreter, unsigned stream, const uint8_t *bytes, size_t n)
{
    Supervisor *supervisor = container_of(interpreter, Supervisor, interpreter);

    if (!supervisor->cell || !supervisor->cell->begun)
        return; /* written after its cell had ended: belongs to no call */
    cell_output(supervisor->cell, &supervisor->controller.link, stream, bytes, n);
    if (!cell_takes_output(supervisor->cell))
        update_flow(supervisor);
}

static void on_interpreter_fault(Interpreter *interpreter, const char *reason)
{
    lose_interpreter(container_of(interpreter, Supervisor, interpreter), &(Loss){.fault = reason});
}

/* What the controller asks for */

static Cell *accept_call(Supervisor *supervisor, const Call *call, Problem *problem)
{
    if (supervisor->cell) {
        problem_set(problem, ERR_BUSY, "a call is running");
        return NULL;
    }

    Cell *cell = cell_new(call->id, supervisor->execution_count + 1, &supervisor->limits);
    if (!cell) {
        problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
        return NULL;
    }
    cell->owner = supervisor;
    cell->timeout = call->timeout;
    cell->stream = call->stream;
    return cell;
}

int supervisor_execute(Supervisor *supervisor, const Call *call, Problem *problem)
{
    Interpreter *interpreter = &supervisor->interpreter;
    Cell *cell = accept_call(supervisor, call, problem);

    if (!cell)
        return -EPROTO;
    buf_consume(&supervisor->record, supervisor->record.size);
    supervisor->cell = cell;
    supervisor->execution_count++;
    if (!interpreter->alive && start_interpreter(supervisor) < 0)
        return 0;
    /* What threads wrote since the last call is no part of this one. */
    streams_drain(&interpreter->streams);

    int r = interpreter_execute(interpreter, call->code, call->run_id, cell->execution_count);
    if (r < 0)
        finish_failed(supervisor, strerror(-r));
    else if (interpreter->ready && begin_cell(supervisor) < 0)
        lose_interpreter(supervisor, &(Loss){.fault = no_timer});
    return 0;
}

void supervisor_interrupt(Supervisor *supervisor)
{
    Outcome outcome;

    if (!supervisor->cell)
        return;
    if (supervisor->cell->begun) {
        ladder_interrupt(&supervisor->cell->ladder);
        return;
    }
    interpreter_forget(&supervisor->interpreter);
    outcome_never_begun(&outcome);
    finish_cell(supervisor, &outcome);
}

void supervisor_reset(Supervisor *supervisor, uint64_t id)
{
    /* One that is under way is done: what it was to get rid of is gone. */
    finish_reset(supervisor);
    supervisor->resetting = true;
    supervisor->reset_id = id;
    lose_interpreter(supervisor, &(Loss){.killed = LADDER_CAUSE_INTERRUPT, .reset = true});
}

void supervisor_credit(Supervisor *supervisor, uint64_t id, uint64_t count)
{
    if (!supervisor->cell || supervisor->cell->id != id)
        return; /* for a call that has ended */
    cell_credit(supervisor->cell, count);
    update_flow(supervisor);
}

void supervisor_configure(Supervisor *supervisor, Environment environment, size_t output_limit,
                          uint64_t spill_limit)
{
    environment_deinit(&supervisor->environment);
    supervisor->environment = environment;
    supervisor->limits.output = output_limit;
    supervisor->limits.spill.limit = spill_limit;
    if (!supervisor->configured) {
        supervisor->configured = true;
        start_interpreter(supervisor);
    }
}

void supervisor_controller_lost(Supervisor *supervisor)
{
    /* Events that were under way are gone, and their credit; the record will be complete. */
    if (supervisor->cell)
        supervisor->cell->stream = false;
    update_flow(supervisor);
}

/* Signals */

static void on_reaped(void *context, pid_t pid, int status, const struct rusage *usage)
{
    interpreter_reaped(context, pid, status, usage);
}

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    Supervisor *supervisor = container_of(signals, Supervisor, signals);
    Interpreter *interpreter = &supervisor->interpreter;

    if (number == SIGTERM) {
        /* The engine may end the session, the code in it may not. */
        if (sender == 0 || !processes_is_descendant(sender))
            loop_stop(supervisor->loop, 0);
        return;
    }
    processes_reap(on_reaped, interpreter);
    if (interpreter->alive && interpreter->pid == 0)
        lose_interpreter(supervisor, &(Loss){0});
}

static int watch_signals(Supervisor *supervisor)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    return loop_signals_add(supervisor->loop, &supervisor->signals, &set, on_signal);
}

int supervisor_init(Supervisor *supervisor, Loop *loop, const Options *options)
{
    *supervisor = (Supervisor){.loop = loop, .options = options, .epoch = 1, .limits.spill = SPILL_NONE};
    interpreter_init(&supervisor->interpreter, loop);
    supervisor->interpreter.on_message = on_interpreter_message;
    supervisor->interpreter.on_output = on_interpreter_output;
    supervisor->interpreter.on_fault = on_interpreter_fault;

    int r = spill_open(&supervisor->limits.spill, options->directory);
    if (r == 0)
        r = watch_signals(supervisor);
    if (r == 0)
        r = controller_init(&supervisor->controller, supervisor);
    return r;
}

void supervisor_deinit(Supervisor *supervisor)
{
    interpreter_end(&supervisor->interpreter);
    interpreter_deinit(&supervisor->interpreter);
    cell_free(supervisor->cell);
    controller_deinit(&supervisor->controller);
    loop_timer_cancel(&supervisor->start);
    loop_signals_remove(&supervisor->signals);
    environment_deinit(&supervisor->environment);
    buf_deinit(&supervisor->record);
    spill_close(&supervisor->limits.spill);
}
