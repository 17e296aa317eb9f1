/* A call ends, and its record is made once it is certain what became of the variables. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "guest/supervisor/call/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* The time that a record waits to learn whether a checkpoint in the making exists. */
#define SETTLE_LIMIT NSEC_PER_SEC

void call_send_record(Executor *executor)
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

void call_ended(Cell *cell)
{
    uint64_t now = clock_now(), busy = cell->step == CELL_RUNS ? now - cell->started : 0;

    ladder_end(&cell->ladder);
    questions_deinit(&cell->questions);
    if (cell->step == CELL_RUNS)
        cell->duration = (double)busy / NSEC_PER_SEC;
    cell->step = CELL_ENDED;
    branch_call_ended(cell->branch, busy, now);
    note_protection(cell);
}

/* A checkpoint that was there at the call's end, and could not be gone back to, protected nothing. */
static void correct_protection(Protection *protection, const Fate *fate)
{
    if (fate->state != STATE_LOST || !protection->exists)
        return;
    *protection = (Protection){.exists = false};
    reason_set(protection->reason, "%s", fate->reason[0] ? fate->reason : fate_no_checkpoint);
}

static void make_record(Executor *executor, Cell *cell, const Fate *fate)
{
    Branch *branch = cell->branch;
    int r = cell_record(cell, fate, branch->epoch, branch->is_restored ? &branch->restored : NULL,
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

void call_finish(Executor *executor, Fate *fate)
{
    Cell *cell = executor->cell;
    Branch *branch = cell->branch;

    if (fate->state == STATE_KEPT)
        fate_move(fate, &branch->untold);
    else
        fate_deinit(&branch->untold);
    outcome_settle(&cell->outcome, fate);
    correct_protection(&cell->protection, fate);
    executor->cell = NULL;
    branch_vacate(branch);
    make_record(executor, cell, fate);
    if (cell->sheltered && executor->branches->mode == CHECKPOINT_OFF)
        checkpoints_drop_automatic(&executor->branches->checkpoints, branch->number, NULL);
    cell_free(cell);
    call_update_flow(executor, branch);
}

void call_finish_kept(Executor *executor)
{
    Fate fate _cleanup_(fate_deinit) = FATE_KEPT;

    call_ended(executor->cell);
    call_finish(executor, &fate);
}

void call_abandon(Executor *executor, const char *name, const char *what, const char *why)
{
    outcome_failed(&executor->cell->outcome, name, what, why);
    call_finish_kept(executor);
}

/* The interpreter is lost */

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

    bool killed = cell->ladder.step == LADDER_STEP_KILL, waited = cell->step == CELL_WAITS;

    if (waited && !killed)
        return; /* the call begins when there is an interpreter again */
    end_lost(cell, &(Loss){
                       .killed = killed ? cell->ladder.cause : LADDER_CAUSE_NONE,
                       .fault = fault,
                       .status = branch->interpreter.status,
                       .timeout = cell->timeout,
                       .waited = waited,
                   });
}

bool executor_on_settled(Executor *executor, Branch *branch, Fate *fate)
{
    const Cell *cell = call_of(executor, branch);

    if (!cell || cell->step != CELL_ENDED)
        return false;
    if (fate->calls > 0 && cell->started)
        fate->calls--; /* the call that ended it is not counted */
    call_finish(executor, fate);
    return true;
}

void executor_end_closed(Executor *executor, Branch *branch)
{
    Fate fate _cleanup_(fate_deinit) = {.state = STATE_LOST};
    Cell *cell = call_of(executor, branch);

    if (!cell)
        return;
    outcome_failed(&cell->outcome, "SessionClosed", "the call was ended", "its branch was closed");
    call_ended(cell);
    call_finish(executor, &fate);
}

void executor_end_reset(Executor *executor, Branch *branch)
{
    Fate fate _cleanup_(fate_deinit) = {.state = STATE_LOST};
    Cell *cell = call_of(executor, branch);

    if (!cell)
        return;
    if (cell->step != CELL_ENDED)
        end_lost(cell, &(Loss){.killed = LADDER_CAUSE_INTERRUPT, .reset = true});
    reason_set(fate.reason, "the session was reset");
    call_finish(executor, &fate);
}
