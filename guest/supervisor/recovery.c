/* Going back: the interpreter is lost, or is to be replaced. Nothing is said of the variables before a copy
 * of a checkpoint has said that it is ready, or there is nothing left to copy. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* A checkpoint that was asked for before the interpreter was lost exists after this, or does not. */
#define SETTLE_LIMIT (200 * NSEC_PER_MSEC)

/* After so many losses in a row while no call ran a checkpoint is not to blame for a single bad moment. */
#define IDLE_LOSSES_MAXIMUM 3u

/* For all that is tried: a call is to be answered soon after its deadline. */
#define RECOVERY_LIMIT (5 * NSEC_PER_SEC)

int branch_end_processes(Branch *branch)
{
    Supervisor *supervisor = branch->supervisor;
    Checkpoints *set = &supervisor->checkpoints;

    loop_timer_cancel(&branch->start);
    if (!branch->interpreter.alive)
        return 0;
    /* Of a copy that is still in the making nobody knows the process: it could not be spared. */
    checkpoints_settle(set, SETTLE_LIMIT);
    checkpoints_drop_pending(set, "the interpreter ended before its copy was ready");
    supervisor_settle_copies(supervisor, SETTLE_LIMIT);
    interpreter_measure(&branch->interpreter);

    int ended = supervisor_purge(supervisor, branch);

    interpreter_close(&branch->interpreter);
    branch->taking = NULL;
    return ended;
}

/* The end of going back */

static void finish(Branch *branch, Fate *fate)
{
    Supervisor *supervisor = branch->supervisor;
    Cell *cell = call_of(branch);

    branch->recovery.active = false;
    if (!branch->newborn)
        branch->epoch++;
    branch->newborn = false;
    policy_forget(branch);
    log_info("branch recovered", "branch=%" PRIu64 " state=%d execution_count=%" PRIu64, branch->number,
             (int)fate->state, fate->execution_count);
    if (cell && cell->step == CELL_ENDED)
        call_finish(supervisor, fate);
    else
        fate_move(&branch->untold, fate);
    supervisor_wake(supervisor);
}

/* Calls whose effects are gone when the branch goes back to `checkpoint`, of its own line. */
static uint64_t count_calls_since(const Branch *branch, const Checkpoint *checkpoint)
{
    uint64_t calls = branch->calls;

    for (const Checkpoint *at = branch->base; at && at != checkpoint; at = at->parent)
        calls += at->calls;
    return calls;
}

/* Why there was nothing newer. */
static void explain(const Branch *branch, Reason ret)
{
    if (branch->recovery.trouble[0])
        memcpy(ret, branch->recovery.trouble, sizeof(Reason));
    else
        policy_why_none(branch, ret);
}

void recovery_note_processes(const Branch *branch, Notes *notes)
{
    int ended = branch->recovery.ended;
    char text[64];

    if (ended <= 0)
        return;
    snprintf(text, sizeof(text), ended == 1 ? "%d process was ended" : "%d processes were ended", ended);
    notes_add(notes, (Text){text, strlen(text)});
}

void branch_stand_on_birth(Branch *branch)
{
    const Supervisor *supervisor = branch->supervisor;
    bool protects = supervisor->settings.checkpoint != CHECKPOINT_OFF;

    branch->base = protects ? checkpoints_birth(&supervisor->checkpoints) : NULL;
    branch->calls = 0;
    policy_forget(branch);
}

static void finish_fresh(Branch *branch)
{
    branch->recovery.active = false;
    branch_stand_on_birth(branch);
    log_info("branch begun anew", "branch=%" PRIu64, branch->number);
}

void recovery_ready(Branch *branch, Notes *notes)
{
    const Recovery *recovery = &branch->recovery;
    const Cell *cell = call_of(branch);
    Fate fate _cleanup_(fate_deinit) = {.state = STATE_ROLLED_BACK,
                                        .checkpoint = recovery->number,
                                        .execution_count = recovery->execution_count,
                                        .calls = recovery->lost_calls};

    if (recovery->fresh) {
        finish_fresh(branch);
        return;
    }
    /* That which ended it is not counted. */
    if (cell && cell->step == CELL_ENDED && fate.calls > 0)
        fate.calls--;
    explain(branch, fate.reason);
    fate.not_restored = *notes;
    *notes = NOTES_NULL;
    branch->base = recovery->from;
    branch->calls = recovery->calls;
    branch->state_count = recovery->execution_count;
    /* A checkpoint of another branch may be of a later call: in one line no number means two of them. */
    branch->execution_count = MAX(branch->execution_count, recovery->execution_count);
    finish(branch, &fate);
    if (recovery->gone)
        policy_on_gone(branch);
}

static void lose_all(Branch *branch)
{
    Fate fate _cleanup_(fate_deinit) = {.state = STATE_LOST};
    bool start = !branch->newborn;

    if (branch->recovery.fresh) {
        branch->recovery.active = false;
        branch_spawn(branch);
        return;
    }
    explain(branch, fate.reason);
    branch->base = NULL;
    branch->calls = 0;
    finish(branch, &fate);
    if (start && branch->idle_losses > IDLE_LOSSES_MAXIMUM)
        branch_start_failed(branch, "it ended again and again while no call ran");
    else if (start)
        branch_start(branch);
}

void recovery_abandon(Branch *branch)
{
    branch->recovery.active = false;
    branch->base = NULL;
    branch->calls = 0;
    fate_deinit(&branch->untold);
    policy_forget(branch);
    checkpoints_drop_automatic(&branch->supervisor->checkpoints, branch->number, NULL);
}

/* The way back */

void recovery_refused(Branch *branch, const char *why)
{
    Recovery *recovery = &branch->recovery;

    recovery->copying = false;
    if (!recovery->gone)
        reason_set(recovery->trouble, "no copy of the checkpoint could be made: %s", why);
    supervisor_wake(branch->supervisor);
}

/* A copy that is being made may yet come. */
void recovery_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why)
{
    Recovery *recovery = &branch->recovery;
    bool from = recovery->copying && recovery->from == checkpoint, next = recovery->next == checkpoint;

    if (from) {
        recovery->from = checkpoint->parent;
        recovery->calls += checkpoint->calls;
        recovery->gone = true;
    }
    if (next) {
        recovery->next = recovery->wanted ? branch->base : checkpoint->parent;
        recovery->wanted = false;
    }
    if (from || next)
        reason_set(recovery->trouble, "%s", why ? why : "the checkpoint was given up");
}

static int copy_next(Branch *branch)
{
    Recovery *recovery = &branch->recovery;
    Checkpoint *checkpoint = recovery->next;

    recovery->next = recovery->wanted && branch->base != checkpoint ? branch->base : checkpoint->parent;
    recovery->wanted = false;
    recovery->number = checkpoint->number;
    recovery->execution_count = checkpoint->execution_count;
    recovery->lost_calls = count_calls_since(branch, checkpoint);
    recovery->from = checkpoint;
    recovery->gone = false;
    recovery->calls = 0;
    if (checkpoint->state != CHECKPOINT_KEPT || checkpoint->pid == 0)
        return -ESRCH;
    if (clock_now() >= recovery->end)
        return -ETIMEDOUT;
    return branch_copy(branch, checkpoint);
}

/* Its process may have ended without that having been seen. */
static void copy_failed(Branch *branch, int error)
{
    Checkpoint *checkpoint = branch->recovery.from;

    if (checkpoint->state == CHECKPOINT_KEPT && (error == -EPIPE || error == -ECONNRESET || error == -ESRCH))
        checkpoint_drop(checkpoint, CHECKPOINT_LOST);
    recovery_refused(branch, strerror(-error));
}

static void advance(Branch *branch)
{
    Recovery *recovery = &branch->recovery;

    if (branch->interpreter.alive) /* a copy that did not get ready */
        branch_end_processes(branch);
    while (recovery->next) {
        recovery->copying = true;
        int r = copy_next(branch);
        if (r == 0)
            return;
        copy_failed(branch, r);
    }
    lose_all(branch);
}

bool branch_begin_anew(Branch *branch)
{
    Checkpoint *birth = checkpoints_birth(&branch->supervisor->checkpoints);

    if (!birth || birth->state != CHECKPOINT_KEPT)
        return false;
    branch->recovery =
        (Recovery){.active = true, .fresh = true, .next = birth, .end = clock_now() + RECOVERY_LIMIT};
    advance(branch);
    return true;
}

static void prepare(Branch *branch, Checkpoint *wanted)
{
    Checkpoint *base = branch->base;

    if (base && branch->idle_losses > IDLE_LOSSES_MAXIMUM)
        base = base->parent;
    branch->recovery = (Recovery){.active = true,
                                  .wanted = wanted,
                                  .next = wanted ? wanted : base,
                                  .end = clock_now() + RECOVERY_LIMIT};
    branch->doomed = false;
}

/* The call that ran, or waited, for the sake of which the interpreter is ended. */
static void end_call(Branch *branch, Loss *loss)
{
    Cell *cell = call_of(branch);

    if (!cell || cell->step != CELL_RUNS)
        return;
    loss->timeout = cell->timeout;
    outcome_lost(&cell->outcome, loss);
    cell->outcome.cpu = branch->interpreter.cpu;
    cell->outcome.peak_memory = branch->interpreter.peak_memory;
    call_ended(cell);
}

static void fail_start(Branch *branch, const Loss *loss)
{
    char why[LIMIT_NOTE + 1];

    outcome_describe_start(why, sizeof(why), loss, &branch->interpreter.complaint);
    branch_start_failed(branch, why);
}

void branch_lose(Branch *branch, const Loss *reason)
{
    const Cell *cell = call_of(branch);
    bool was_ready = branch->interpreter.ready;
    Loss loss = *reason;
    int ended;

    if (!cell || cell->step == CELL_WAITS)
        branch->idle_losses++;

    branch->ending = true;
    ended = branch_end_processes(branch);
    branch->ending = false;
    loss.status = branch->interpreter.status;
    if (branch->recovery.active) {
        if (branch->recovery.copying)
            recovery_refused(branch, loss.fault ? loss.fault : "it ended");
        return;
    }
    if (!was_ready) {
        fail_start(branch, &loss);
        return;
    }
    end_call(branch, &loss);
    prepare(branch, NULL);
    branch->recovery.ended = ended;
    advance(branch);
}

void branch_go_back(Branch *branch, Checkpoint *checkpoint)
{
    /* First, so that it is known should the checkpoint go. */
    prepare(branch, checkpoint);
    branch->ending = true;
    branch->recovery.ended = branch_end_processes(branch);
    branch->ending = false;
    advance(branch);
}

void branch_doom(Branch *branch, const char *fault)
{
    branch->doomed = true;
    reason_set(branch->fault, "%s", fault ? fault : "");
    supervisor_wake(branch->supervisor);
}

void branch_sweep(Branch *branch)
{
    if (branch->interpreter.alive && branch->interpreter.reaped)
        branch_lose(branch, &(Loss){0});
    else if (branch->doomed && branch->fault[0])
        branch_lose(branch, &(Loss){.fault = branch->fault});
    else if (branch->doomed)
        branch_go_back(branch, NULL);
    if (branch->recovery.active && !branch->recovery.copying)
        advance(branch);
}
