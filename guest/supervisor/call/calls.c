/* A call waits for its interpreter or a checkpoint, begins, and is interrupted. */
#include "guest/supervisor/call/calls.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/call/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

Cell *call_of(const Calls *calls, const Branch *branch)
{
    Cell *cell = calls->cell;

    return cell && cell->branch == branch ? cell : NULL;
}

void call_update_flow(const Calls *calls, Branch *branch)
{
    const Cell *cell = call_of(calls, branch);
    bool takes = !cell || cell_takes_output(cell);

    if (streams_pause(&branch->interpreter.streams, !takes) < 0)
        log_error("a pipe cannot be read", "error=%s", strerror(ENOMEM));
}

/* The beginning */

static void on_ladder_step(Ladder *ladder, LadderStep step)
{
    Cell *cell = container_of(ladder, Cell, ladder);

    if (step == LADDER_STEP_KILL) {
        branch_lose(cell->branch, NULL);
        return;
    }
    interpreter_interrupt(&cell->branch->interpreter);
    call_update_flow(cell->calls, cell->branch);
}

/* Whether there is a checkpoint of exactly this state. 0: it is being made; negative: it cannot be had. */
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

/* Begins a call for which everything is there. */
static void begin(Cell *cell)
{
    Branch *branch = cell->branch;
    int r;

    /* What threads wrote since the last call is no part of this one. */
    streams_drain_known(&branch->interpreter.streams);
    cell->step = CELL_RUNS;
    cell->started = clock_now();
    branch_occupy(branch, cell->execution_count, cell->started);
    r = interpreter_send(&branch->interpreter, &cell->request);
    if (r == 0)
        r = ladder_begin(&cell->ladder, branch->set->loop, cell->started + clock_from_seconds(cell->timeout),
                         on_ladder_step);
    if (r < 0)
        branch_doom(branch, strerror(-r));
}

void calls_advance(Calls *calls)
{
    Cell *cell = calls->cell;
    Reason why = "";
    int r = 1;

    if (!cell || cell->step != CELL_WAITS || !branch_is_ready(cell->branch) ||
        branch_is_recovering(cell->branch))
        return;
    if (cell->undo)
        r = take_shelter(cell, why);
    if (r > 0)
        begin(cell);
    else if (r < 0)
        call_abandon(calls, "CheckpointFailed",
                     "the call was not run, because there was no checkpoint to go back to", why);
}

void calls_on_start_failed(Calls *calls, Branch *branch, const char *why)
{
    if (call_of(calls, branch))
        call_abandon(calls, "InterpreterFailed", "the interpreter could not be started", why);
}

/* From the controller */

int calls_execute(Calls *calls, uint64_t id, const MsgExecute *asked, Problem *problem)
{
    uint64_t number = uint_or(asked->branch, 0);
    Branch *branch = branches_find(calls->branches, number);

    if (!branch)
        return problem_set(problem, ERR_NO_SUCH_SESSION, "there is no branch %" PRIu64, number);
    if (branches_are_busy(calls->branches))
        return problem_set(problem, ERR_BUSY, "a call or an order is under way");

    Cell *cell = cell_new(branch, id, asked, branch->execution_count + 1, &calls->limits);
    if (!cell)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    buf_consume(&calls->record, calls->record.size);
    cell->calls = calls;
    calls->cell = cell;
    branch->execution_count = cell->execution_count;
    if (!interpreter_is_alive(&branch->interpreter) && !branch_is_recovering(branch) &&
        branch_start(branch) < 0)
        return 0;
    calls_advance(calls);
    return 0;
}

void calls_interrupt(Calls *calls)
{
    Cell *cell = calls->cell;

    if (!cell || cell->step == CELL_ENDED)
        return;
    if (cell->step == CELL_RUNS) {
        ladder_interrupt(&cell->ladder);
        return;
    }
    outcome_never_begun(&cell->outcome);
    call_finish_kept(calls);
}

void calls_credit(Calls *calls, uint64_t id, uint64_t count)
{
    if (!calls->cell || calls->cell->id != id)
        return; /* for a call that has ended */
    cell_credit(calls->cell, count);
    call_send_asks(calls);
    call_update_flow(calls, calls->cell->branch);
}

void calls_tell_again(Calls *calls)
{
    call_send_record(calls);
    call_send_asks(calls);
}

void calls_on_controller_lost(Calls *calls)
{
    if (!calls->cell)
        return;
    cell_unattended(calls->cell);
    call_update_flow(calls, calls->cell->branch);
}

/* Their life */

void calls_init(Calls *calls, Branches *branches, Link *link)
{
    *calls = (Calls){.branches = branches, .link = link, .limits.spill = SPILL_NONE};
}

void calls_deinit(Calls *calls)
{
    calls->cell = cell_free(calls->cell);
    buf_deinit(&calls->record);
    spill_close(&calls->limits.spill);
}
