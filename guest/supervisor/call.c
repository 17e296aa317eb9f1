/* The running call: from `execute` through the interpreter to the record. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/record.h"
#include "guest/supervisor/supervisor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* How long a record waits to learn whether a checkpoint that is in the making exists. */
#define SETTLE_LIMIT (200 * NSEC_PER_MSEC)

Cell *call_of(const Branch *branch)
{
    Cell *cell = branch->supervisor->cell;

    return cell && cell->branch == branch ? cell : NULL;
}

static void update_flow(Branch *branch)
{
    const Cell *cell = call_of(branch);
    bool takes = !cell || cell_takes_output(cell);

    if (streams_pause(&branch->interpreter.streams, !takes) < 0)
        log_error("a pipe cannot be read", "error=%s", strerror(ENOMEM));
}

/* The end of a call */

/* What the call ran under: the newest checkpoint counts once it is certain that it exists. */
static void note_protection(Cell *cell)
{
    Branch *branch = cell->branch;

    if (branch->base && branch->base->state == CHECKPOINT_PENDING)
        checkpoints_settle(&branch->supervisor->checkpoints, SETTLE_LIMIT);
    branch_protection(branch, &cell->protection);
}

void call_ended(Cell *cell)
{
    uint64_t now = clock_now();

    ladder_end(&cell->ladder);
    asks_deinit(&cell->asks);
    if (cell->step == CELL_RUNS) {
        cell->duration = (double)(now - cell->started) / NSEC_PER_SEC;
        cell->branch->policy.busy += now - cell->started;
    }
    cell->step = CELL_ENDED;
    policy_on_quiet(cell->branch, now);
    note_protection(cell);
}

/* What was there at the call's end and could not be gone back to had protected nothing. */
static void correct_protection(Protection *protection, const Fate *fate)
{
    if (fate->state != STATE_LOST || !protection->exists)
        return;
    *protection = (Protection){.exists = false};
    reason_set(protection->reason, "%s", fate->reason[0] ? fate->reason : fate_no_checkpoint);
}

void call_finish(Supervisor *supervisor, Fate *fate)
{
    Cell *cell = supervisor->cell;
    Branch *branch = cell->branch;
    int r;

    if (fate->state == STATE_KEPT)
        fate_move(fate, &branch->untold);
    else
        fate_deinit(&branch->untold);
    outcome_settle(&cell->outcome, fate);
    correct_protection(&cell->protection, fate);
    supervisor->cell = NULL;
    r = cell_record(cell, fate, branch->epoch, &supervisor->record);
    if (r == 0)
        controller_send_record(&supervisor->controller);
    else
        controller_answer(&supervisor->controller, cell->id, ERR_INTERNAL, "the call's record cannot be made",
                          strerror(-r));
    log_debug("cell finished", "execution_count=%" PRIu64 " status=%s", cell->execution_count,
              cell->outcome.status);
    if (cell->sheltered && supervisor->settings.checkpoint == CHECKPOINT_OFF)
        checkpoints_drop_automatic(&supervisor->checkpoints, branch->number, NULL);
    cell_free(cell);
    update_flow(branch);
}

/* The variables are what they were, or what the call made of them. */
static void finish_kept(Supervisor *supervisor)
{
    Fate fate _cleanup_(fate_deinit) = FATE_KEPT;

    call_ended(supervisor->cell);
    call_finish(supervisor, &fate);
}

void call_abandon(Supervisor *supervisor, const char *name, const char *what, const char *why)
{
    outcome_failed(&supervisor->cell->outcome, name, what, why);
    finish_kept(supervisor);
}

/* The beginning */

static void on_ladder_step(Ladder *ladder, LadderStep step)
{
    Cell *cell = container_of(ladder, Cell, ladder);

    if (step == LADDER_STEP_KILL) {
        branch_lose(cell->branch, &(Loss){.killed = ladder->cause});
        return;
    }
    interpreter_interrupt(&cell->branch->interpreter);
    update_flow(cell->branch);
}

/* Whether there is a checkpoint of exactly this state. 0: it is being made; negative: it cannot be had. */
static int take_shelter(Cell *cell, Reason why)
{
    Branch *branch = cell->branch;

    if (branch_is_exact(branch))
        return branch->base->state == CHECKPOINT_KEPT;
    if (branch->interpreter.asked)
        return 0;
    if (cell->sheltered) {
        policy_why_none(branch, why);
        return -ECANCELED;
    }
    cell->sheltered = true;
    return branch_freeze(branch, CHECKPOINT_AUTOMATIC, "", why);
}

/* Everything that it waited for is there. */
static void begin(Cell *cell)
{
    Branch *branch = cell->branch;
    Supervisor *supervisor = branch->supervisor;
    int r;

    /* What threads wrote since the last call is no part of this one. */
    streams_drain_known(&branch->interpreter.streams);
    cell->step = CELL_RUNS;
    cell->started = clock_now();
    policy_on_run(branch, cell->started);
    branch->calls++;
    branch->state_count = cell->execution_count;
    r = interpreter_send(&branch->interpreter, &cell->request);
    if (r == 0)
        r = ladder_begin(&cell->ladder, supervisor->loop, cell->started + clock_from_seconds(cell->timeout),
                         on_ladder_step);
    if (r < 0)
        branch_doom(branch, strerror(-r));
}

void call_try_begin(Supervisor *supervisor)
{
    Cell *cell = supervisor->cell;
    Reason why = "";
    int r = 1;

    if (!cell || cell->step != CELL_WAITS || !branch_is_ready(cell->branch) || cell->branch->recovery.active)
        return;
    if (cell->undo)
        r = take_shelter(cell, why);
    if (r > 0)
        begin(cell);
    else if (r < 0)
        call_abandon(supervisor, "CheckpointFailed",
                     "the call was not run, because there was no checkpoint to go back to", why);
}

int supervisor_execute(Supervisor *supervisor, const Call *call, Problem *problem)
{
    Branch *branch = supervisor_find(supervisor, call->branch);

    if (!branch)
        return problem_set(problem, ERR_NO_SUCH_SESSION, "there is no branch %" PRIu64, call->branch);
    if (supervisor->cell || order_is_active(&supervisor->order))
        return problem_set(problem, ERR_BUSY, "a call or an order is under way");

    Cell *cell = cell_new(branch, call, branch->execution_count + 1, &supervisor->limits);
    if (!cell)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    buf_consume(&supervisor->record, supervisor->record.size);
    supervisor->cell = cell;
    branch->execution_count++;
    if (!branch->interpreter.alive && !branch->recovery.active && branch_start(branch) < 0)
        return 0;
    call_try_begin(supervisor);
    return 0;
}

void supervisor_interrupt(Supervisor *supervisor)
{
    Cell *cell = supervisor->cell;

    if (!cell || cell->step == CELL_ENDED)
        return;
    if (cell->step == CELL_RUNS) {
        ladder_interrupt(&cell->ladder);
        return;
    }
    outcome_never_begun(&cell->outcome);
    finish_kept(supervisor);
}

/* From the interpreter */

static bool is_of_call(const Cell *cell, const Message *message)
{
    return cell && cell->step == CELL_RUNS && message->id == cell->execution_count;
}

/* What it did is to be undone. */
static void end_undone(Cell *cell)
{
    /* Without memory its words are lost, not the rest. */
    if (outcome_own(&cell->outcome, &cell->words) < 0)
        outcome_failed(&cell->outcome, "MemoryError", "what the call said cannot be kept", strerror(ENOMEM));
    call_ended(cell);
    branch_doom(cell->branch, NULL);
}

int call_on_executed(Branch *branch, const Message *message, Problem *problem)
{
    Cell *cell = call_of(branch);
    Interpreter *interpreter = &branch->interpreter;
    MsgCellExecuted executed;

    if (!is_of_call(cell, message))
        return problem_set(problem, ERR_BAD_REQUEST, "`executed` that answers no call");

    int r = executed_decode(&executed, &cell->displays, &message->body, problem);
    if (r < 0)
        return r;
    streams_drain(&interpreter->streams);
    interpreter->spawned = executed.spawned;
    interpreter->cpu_counted += executed.cpu;
    branch->idle_losses = 0;
    outcome_finished(&cell->outcome, &executed, cell->ladder.cause, cell->timeout);
    if (cell->undo && strcmp(cell->outcome.status, "ok") != 0)
        end_undone(cell);
    else
        finish_kept(branch->supervisor);
    return 0;
}

int call_on_display(Branch *branch, const Message *message, Problem *problem)
{
    Cell *cell = call_of(branch);
    MsgDisplay display;

    if (!is_of_call(cell, message))
        return problem_set(problem, ERR_BAD_REQUEST, "`display` that belongs to no call");

    int r = display_decode(&display, &message->body, problem);
    if (r == 0)
        cell_display(cell, &branch->supervisor->controller.link, &display);
    return r;
}

void call_on_output(Branch *branch, unsigned stream, const uint8_t *bytes, size_t n)
{
    Cell *cell = call_of(branch);

    if (!cell || cell->step != CELL_RUNS)
        return; /* written after its cell had ended: belongs to no call */
    cell_output(cell, &branch->supervisor->controller.link, stream, bytes, n);
    if (!cell_takes_output(cell))
        update_flow(branch);
}

/* From the controller */

void supervisor_credit(Supervisor *supervisor, uint64_t id, uint64_t count)
{
    if (!supervisor->cell || supervisor->cell->id != id)
        return; /* for a call that has ended */
    cell_credit(supervisor->cell, count);
    call_send_asks(supervisor);
    update_flow(supervisor->cell->branch);
}

void supervisor_controller_lost(Supervisor *supervisor)
{
    if (!supervisor->cell)
        return;
    cell_unattended(supervisor->cell);
    update_flow(supervisor->cell->branch);
}
