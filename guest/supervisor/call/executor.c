/* A call waits for its interpreter or a checkpoint, begins, and is interrupted. */
#include "guest/supervisor/call/executor.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/call/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

Cell *call_of(const Executor *executor, const Branch *branch)
{
    Cell *cell = executor->cell;

    return cell && cell->branch == branch ? cell : NULL;
}

void call_update_flow(const Executor *executor, Branch *branch)
{
    const Cell *cell = call_of(executor, branch);
    bool takes = !cell || cell_takes_output(cell);

    if (streams_pause(&branch->interpreter.streams, !takes) < 0)
        log_error("a pipe cannot be read", "error=%s", strerror(ENOMEM));
}

/* The beginning */

/* A call that has not begun cannot be interrupted. An interpreter that does not answer at all is killed as
 * under one that runs; without an interpreter, recovery and start have limits of their own. */
static void on_step_while_waiting(const Cell *cell, LadderStep step)
{
    if (step == LADDER_STEP_KILL && branch_is_ready(cell->branch))
        branch_lose(cell->branch, NULL);
}

static void on_ladder_step(Ladder *ladder, LadderStep step)
{
    Cell *cell = container_of(ladder, Cell, ladder);

    if (cell->step == CELL_WAITS) {
        on_step_while_waiting(cell, step);
        return;
    }
    if (step == LADDER_STEP_KILL) {
        branch_lose(cell->branch, NULL);
        return;
    }
    interpreter_interrupt(&cell->branch->interpreter);
    call_update_flow(cell->executor, cell->branch);
}

/* Takes care that there is a checkpoint of exactly this state. 1: there is; 0: it is being made; negative: it
 * cannot be had. */
static int take_shelter(Cell *cell, Reason why)
{
    Branch *branch = cell->branch;

    if (branch_is_exact(branch))
        return !checkpoint_is_pending(branch->base);
    if (branch->interpreter.asked)
        return 0;
    if (cell->sheltered) {
        policy_why_none(branch, why);
        return -ECANCELED;
    }
    cell->sheltered = true;
    return branch_freeze(branch, CHECKPOINT_AUTOMATIC, "", why);
}

/* The time limit counts from when the interpreter is there. */
static int start_clock(Cell *cell)
{
    if (cell->ladder.loop)
        return 0;
    return ladder_begin(&cell->ladder, cell->branch->set->loop,
                        clock_now() + clock_from_seconds(cell->timeout), on_ladder_step);
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
    r = interpreter_send(&branch->interpreter, &cell->request);
    if (r < 0)
        branch_doom(branch, strerror(-r));
}

void executor_advance(Executor *executor)
{
    Cell *cell = executor->cell;
    Reason why = "";
    int r;

    if (!cell || cell->step != CELL_WAITS || !branch_is_ready(cell->branch) ||
        branch_is_recovering(cell->branch))
        return;
    r = start_clock(cell);
    if (r < 0) {
        call_abandon(executor, "MemoryError", "the call was not run", strerror(-r));
        return;
    }
    r = cell->undo ? take_shelter(cell, why) : 1;
    if (r != 0 && cell->ladder.step != LADDER_STEP_WAIT) {
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

/* From the controller */

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
    if (!interpreter_is_alive(&branch->interpreter) && !branch_is_recovering(branch) &&
        branch_start(branch) < 0)
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
        ladder_interrupt(&cell->ladder);
        return;
    }
    outcome_never_begun(&cell->outcome);
    call_finish_kept(executor);
}

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

/* Their life */

void executor_init(Executor *executor, Branches *branches, Link *link)
{
    *executor = (Executor){.branches = branches, .link = link, .limits.spill = SPILL_NONE};
}

void executor_deinit(Executor *executor)
{
    executor->cell = cell_free(executor->cell);
    buf_deinit(&executor->record);
    spill_close(&executor->limits.spill);
}
