/* Going back: the interpreter is lost, or is to be replaced. Nothing is said of the variables before a copy
 * of a checkpoint has said that it is ready, or there is nothing left to copy. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/process/processes.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Killing is given up after this, where processes are born faster than a walk can end them. */
#define KILL_LIMIT (300 * NSEC_PER_MSEC)

/* Processes that do not die within this are stuck in the kernel; the reply cannot wait for them. */
#define END_LIMIT (700 * NSEC_PER_MSEC)

void branches_set_environment(Branches *set, Environment *environment)
{
    Environment *before = &set->environment;

    if (before->n > 0 && !environment_equal(before, environment))
        set->environment_changed = true;
    environment_deinit(before);
    *before = *environment;
    *environment = (Environment){0};
}

/* ---- processes ---- */

static void on_reaped(void *context, pid_t pid, int status, const struct rusage *usage)
{
    Branches *set = context;
    Checkpoint *checkpoint = checkpoints_find_pid(&set->checkpoints, pid);
    Branch *branch;

    if (checkpoint)
        checkpoint_reaped(checkpoint);
    list_foreach (branch, &set->all, Branch, link)
        if (interpreter_reaped(&branch->interpreter, pid, status, usage))
            return;
    if (!checkpoint)
        set->events->reaped(set, pid, status, usage);
}

void branches_end_all(Branches *set)
{
    if (processes_end_all(END_LIMIT, on_reaped, set) < 0)
        log_error("processes do not die", "purpose=end");
}

typedef struct KillExceptions {
    pid_t alone[LIMIT_CHECKPOINTS + LIMIT_BRANCHES +
                4]; /* checkpoints, the pending ones and the pristine one included, and the files process */
    pid_t families[LIMIT_BRANCHES + 2 + 2 * LIMIT_PROCESSES];
    ProcessesKeep keep;
} KillExceptions;

static void exceptions_collect(KillExceptions *exceptions, Branches *set, const Branch *except)
{
    Checkpoint *checkpoint;
    Branch *branch;

    exceptions->keep = (ProcessesKeep){.alone = exceptions->alone, .families = exceptions->families};
    if (set->files_pid > 0)
        exceptions->alone[exceptions->keep.alone_count++] = set->files_pid;
    list_foreach (checkpoint, &set->checkpoints.all, Checkpoint, link)
        if (checkpoint->pid > 0 && exceptions->keep.alone_count < ARRAY_SIZE(exceptions->alone))
            exceptions->alone[exceptions->keep.alone_count++] = checkpoint->pid;
    list_foreach (branch, &set->all, Branch, link)
        if (branch != except && branch->interpreter.pid > 0)
            exceptions->families[exceptions->keep.family_count++] = branch->interpreter.pid;
    exceptions->keep.family_count +=
        set->events->spare(set, &exceptions->keep.mark, exceptions->families + exceptions->keep.family_count,
                           ARRAY_SIZE(exceptions->families) - exceptions->keep.family_count);
}

/* Returns whether the checkpoint of the copy has gone meanwhile. */
static bool has_lost_checkpoint(const Recovery *recovery)
{
    return !recovery->from || recovery->from->number != recovery->number;
}

static void note_trouble(Recovery *recovery, const char *why)
{
    if (!has_lost_checkpoint(recovery))
        reason_set(recovery->trouble, "no copy of the checkpoint could be made: %s", why);
}

/* The copy in the making does not come, for that reason. */
static void recovery_refused(Branch *branch, const char *why)
{
    note_trouble(&branch->recovery, why);
    branch_move(branch, BRANCH_ON_REFUSE);
    branches_changed(branch->set);
}

/* Waits up to `limit` for copies that are being made. Killing a checkpoint in the middle of its fork leaves
 * its locks taken: it could never be copied again. */
static void branches_settle_copies(Branches *set, uint64_t limit)
{
    uint64_t end = clock_now() + limit;
    Branch *branch;

    list_foreach (branch, &set->all, Branch, link) {
        struct pollfd said = {.fd = branch->interpreter.channel, .events = POLLIN};
        uint64_t now = clock_now();

        if (branch->state != BRANCH_COPYING || now >= end)
            continue;
        struct timespec left = clock_timespec(end - now);
        ppoll(&said, 1, &left, NULL);
    }
}

/* Copies in the making have been ended with the others, as nobody knew their processes. They are asked for
 * again. */
static void copy_again(Branches *set, const Branch *except)
{
    Branch *branch;

    list_foreach (branch, &set->all, Branch, link) {
        if (branch == except || branch->state != BRANCH_COPYING)
            continue;
        branch_move(branch, BRANCH_ON_REFUSE);
        interpreter_close(&branch->interpreter);
        branch->recovery.next = branch->recovery.from;
        branches_changed(set);
    }
}

/* Kills every process that belongs to no checkpoint and to no branch but `branch`. How many there were, its
 * interpreter left out. */
static int branches_kill_others(Branches *set, Branch *branch)
{
    KillExceptions exceptions;

    exceptions_collect(&exceptions, set, branch);
    int r = processes_end_others(&exceptions.keep, branch->interpreter.pid, KILL_LIMIT);
    if (r < 0) {
        log_error("some processes cannot be ended: ending all", "branch=%" PRIu64 " error=%s", branch->number,
                  strerror(-r));
        if (processes_end_all(END_LIMIT, on_reaped, set) < 0)
            log_error("processes do not die", "branch=%" PRIu64, branch->number);
        branches_changed(set);
    }
    copy_again(set, branch);
    return MAX(r, 0);
}

/* ---- checkpoints ---- */

static Branches *branches_of(Checkpoints *checkpoints)
{
    return container_of(checkpoints, Branches, checkpoints);
}

static bool is_taken(Checkpoints *checkpoints, pid_t pid)
{
    Branch *branch;

    list_foreach (branch, &branches_of(checkpoints)->all, Branch, link)
        if (branch->interpreter.pid == pid)
            return true;
    return false;
}

static void add_living(Checkpoints *checkpoints, Footprint *ret)
{
    Branch *branch;

    list_foreach (branch, &branches_of(checkpoints)->all, Branch, link)
        if (branch->interpreter.pid > 0)
            footprint_add(ret, branch->interpreter.pid, checkpoints->uid);
}

/* The call that runs there may have been promised that it can go back. */
static bool hand_on(Checkpoints *checkpoints, Checkpoint *checkpoint)
{
    Branch *branch;

    list_foreach (branch, &branches_of(checkpoints)->all, Branch, link) {
        if (branch->base != checkpoint || branch->number == checkpoint->branch)
            continue;
        checkpoint->branch = branch->number;
        return true;
    }
    return false;
}

static void on_kept(Checkpoints *checkpoints, Checkpoint *checkpoint)
{
    Branches *set = branches_of(checkpoints);
    Branch *branch = branches_find(set, checkpoint->branch);

    if (branch)
        branch_on_kept(branch, checkpoint);
    set->events->kept(set, checkpoint);
    branches_changed(set);
}

static void on_saved(Checkpoints *checkpoints, Checkpoint *checkpoint)
{
    branches_changed(branches_of(checkpoints));
}

/* A copy may have been given up since it was asked for. Then nobody waits for it. */
static void on_refused(Checkpoints *checkpoints, Checkpoint *checkpoint, uint64_t id, const char *why)
{
    Branch *branch;

    list_foreach (branch, &branches_of(checkpoints)->all, Branch, link) {
        const Recovery *recovery = &branch->recovery;

        if (branch->state == BRANCH_COPYING && recovery->from == checkpoint && recovery->restore == id)
            recovery_refused(branch, why);
    }
}

static void on_gone(Checkpoints *checkpoints, Checkpoint *checkpoint, const char *why)
{
    Branches *set = branches_of(checkpoints);
    Branch *branch;

    list_foreach (branch, &set->all, Branch, link)
        branch_on_gone(branch, checkpoint, why);
    set->events->gone(set, checkpoint, why);
    branches_changed(set);
}

/* ---- their life ---- */

void branches_init(Branches *set, Loop *loop, const CommandLine *command_line, const BranchEvents *events)
{
    Checkpoints *checkpoints = &set->checkpoints;

    *set = (Branches){.loop = loop, .command_line = command_line, .events = events};
    list_init(&set->all);
    checkpoints_init(checkpoints, loop);
    checkpoints->uid = command_line->same_user ? getuid() : command_line->uid;
    checkpoints->is_taken = is_taken;
    checkpoints->add_living = add_living;
    checkpoints->hand_on = hand_on;
    checkpoints->on_kept = on_kept;
    checkpoints->on_saved = on_saved;
    checkpoints->on_refused = on_refused;
    checkpoints->on_gone = on_gone;
}

void branches_deinit(Branches *set)
{
    Branch *branch;

    list_foreach (branch, &set->all, Branch, link)
        branch_free(branch);
    checkpoints_deinit(&set->checkpoints);
    environment_deinit(&set->environment);
}

/* ---- going back ---- */

/* A checkpoint that was asked for before the interpreter was lost exists after this, or does not. Copying
 * takes a millisecond; on a machine that is busy with others it may take a second, and giving up would lose
 * what a call was told to be kept. */
#define SETTLE_LIMIT (2 * NSEC_PER_SEC)

/* The same for a copy that another branch waits for: if it is ended with the others it is made once more. */
#define SETTLE_COPIES_LIMIT NSEC_PER_SEC

/* After so many losses without a call between them the checkpoint is to blame, and no single bad moment. */
#define LOSSES_MAXIMUM 3u

/* The limit of all attempts together, as a call is answered soon after its deadline. */
#define RECOVERY_LIMIT (5 * NSEC_PER_SEC)

int branch_end_processes(Branch *branch)
{
    Branches *set = branch->set;
    int ended = 0;

    if (interpreter_is_alive(&branch->interpreter)) {
        /* Nobody knows the process of a copy in the making: it could not be spared. */
        checkpoints_settle(&set->checkpoints, SETTLE_LIMIT);
        checkpoints_drop_pending(&set->checkpoints, "the interpreter ended before its copy was ready");
        branches_settle_copies(set, SETTLE_COPIES_LIMIT);
        interpreter_measure(&branch->interpreter);
        ended = branches_kill_others(set, branch);
    }
    if (branch->state != BRANCH_EMPTY)
        branch_move(branch, BRANCH_ON_END);
    interpreter_close(&branch->interpreter);
    if (branch->state == BRANCH_CLOSING)
        branch_move(branch, BRANCH_ON_CLOSED);
    branch->taking = NULL;
    return ended;
}

/* ---- the end of going back ---- */

static void finish(Branch *branch, StateChange *change)
{
    Branches *set = branch->set;

    if (branch->recovery.purpose != COPY_BRANCH)
        branch->epoch++;
    branch->recovery = (Recovery){0};
    policy_forget(branch);
    log_info("branch recovered", "branch=%" PRIu64 " state=%d execution_count=%" PRIu64, branch->number,
             (int)change->state, change->execution_count);
    if (!set->events->settled(branch, change)) {
        change->memory = (Value){0};
        state_change_move(&branch->unreported, change);
    }
    branches_changed(set);
}

/* Counts the calls whose effects are gone when the branch goes back to `checkpoint`, of its own line. */
static uint64_t count_calls_since(const Branch *branch, const Checkpoint *checkpoint)
{
    uint64_t calls = branch->calls;

    for (const Checkpoint *at = branch->base; at && at != checkpoint; at = at->parent)
        calls += at->calls;
    return calls;
}

/* Writes why no later state could be had. */
static void explain(const Branch *branch, Reason ret)
{
    if (branch->recovery.trouble[0])
        memcpy(ret, branch->recovery.trouble, sizeof(Reason));
    else
        policy_why_none(branch, ret);
}

void recovery_note_processes(const Branch *branch, EncodedNotes *notes)
{
    int ended = branch->recovery.ended;
    char text[64];

    if (ended <= 0)
        return;
    snprintf(text, sizeof(text), ended == 1 ? "%d process was ended" : "%d processes were ended", ended);
    notes_add(notes, (Text){text, strlen(text)});
}

void branch_stand_on_pristine(Branch *branch)
{
    bool off = policy_mode(branch) == CHECKPOINT_OFF;

    branch->base = off ? NULL : checkpoints_pristine(&branch->set->checkpoints);
    branch->calls = 0;
    policy_forget(branch);
}

static void finish_fresh(Branch *branch)
{
    branch->recovery = (Recovery){0};
    branch_stand_on_pristine(branch);
    log_info("branch begun anew", "branch=%" PRIu64, branch->number);
}

void recovery_ready(Branch *branch, EncodedNotes *notes, Value memory)
{
    const Recovery *recovery = &branch->recovery;
    bool gone = has_lost_checkpoint(recovery);
    const char *beside = branch->set->events->beside(branch->set);
    StateChange change _cleanup_(state_change_deinit) = {.state = STATE_ROLLED_BACK,
                                                         .checkpoint = recovery->number,
                                                         .execution_count = recovery->execution_count,
                                                         .calls = recovery->lost_calls,
                                                         .memory = memory};

    if (recovery->purpose == COPY_ANEW) {
        branch->lacks = notes->n > 0;
        finish_fresh(branch);
        return;
    }
    explain(branch, change.reason);
    change.not_restored = *notes;
    *notes = NOTES_NULL;
    if (beside)
        notes_add(&change.not_restored, text_of(beside));
    branch->base = recovery->from;
    branch->calls = recovery->calls;
    branch->state_count = recovery->execution_count;
    /* A checkpoint of another branch may be of a later call. No number of a line means two calls. */
    branch->execution_count = MAX(branch->execution_count, recovery->execution_count);
    finish(branch, &change);
    if (gone)
        policy_on_gone(branch);
}

static void lose_all(Branch *branch)
{
    StateChange change _cleanup_(state_change_deinit) = {.state = STATE_LOST};
    bool start = branch->recovery.purpose != COPY_BRANCH;

    if (branch->recovery.purpose == COPY_ANEW) {
        branch->recovery = (Recovery){0};
        branch_spawn(branch);
        return;
    }
    explain(branch, change.reason);
    branch->base = NULL;
    branch->calls = 0;
    finish(branch, &change);
    if (start && branch->losses > LOSSES_MAXIMUM)
        branch_start_failed(branch, "it ended again and again while no call ran");
    else if (start)
        branch_start(branch);
}

void branch_forget_line(Branch *branch)
{
    branch->recovery = (Recovery){0};
    branch->base = NULL;
    branch->calls = 0;
    state_change_deinit(&branch->unreported);
    policy_forget(branch);
    checkpoints_drop_automatic(&branch->set->checkpoints, branch->number, NULL);
}

/* ---- the way back ---- */

/* A copy in the making may yet come, although its checkpoint goes. */
void recovery_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why)
{
    Recovery *recovery = &branch->recovery;
    bool from = recovery->from == checkpoint, next = recovery->next == checkpoint;

    if (from) {
        recovery->from = checkpoint->parent;
        recovery->calls += checkpoint->calls;
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
    recovery->calls = 0;
    if (checkpoint->state != CHECKPOINT_KEPT)
        return -ESRCH;
    if (clock_now() >= recovery->end)
        return -ETIMEDOUT;
    return branch_copy(branch, checkpoint);
}

/* The checkpoint's process may have ended without anyone having seen it. */
static void copy_failed(Branch *branch, int error)
{
    Checkpoint *checkpoint = branch->recovery.from;

    if (!checkpoint_is_pending(checkpoint) && (error == -EPIPE || error == -ECONNRESET || error == -ESRCH))
        checkpoint_drop(checkpoint, CHECKPOINT_LOST);
    note_trouble(&branch->recovery, strerror(-error));
}

/* A process is about to become it. */
static bool is_awaited(const Checkpoint *checkpoint)
{
    return checkpoint->state == CHECKPOINT_BECOMING;
}

static void advance(Branch *branch)
{
    Recovery *recovery = &branch->recovery;

    branch_end_processes(branch); /* of a copy that did not get ready, if there is one */
    if (recovery->next && is_awaited(recovery->next)) {
        recovery->end = clock_now() + RECOVERY_LIMIT;
        branch_move(branch, BRANCH_ON_THAW);
        return;
    }
    while (recovery->next) {
        int r = copy_next(branch);

        if (r == 0)
            return;
        copy_failed(branch, r);
    }
    lose_all(branch);
}

bool branch_begin_anew(Branch *branch)
{
    Checkpoint *pristine = checkpoints_pristine(&branch->set->checkpoints);

    if (!pristine || (checkpoint_is_pending(pristine) && !is_awaited(pristine)))
        return false;
    branch->recovery =
        (Recovery){.purpose = COPY_ANEW, .next = pristine, .end = clock_now() + RECOVERY_LIMIT};
    advance(branch);
    return true;
}

static void prepare(Branch *branch, Checkpoint *wanted, CopyPurpose purpose)
{
    Checkpoint *base = branch->base;

    if (base && branch->losses > LOSSES_MAXIMUM)
        base = base->parent;
    branch->recovery = (Recovery){.purpose = purpose,
                                  .wanted = wanted,
                                  .next = wanted ? wanted : base,
                                  .end = clock_now() + RECOVERY_LIMIT};
}

/* Writes why an interpreter ended before it was ready: its own complaint, if it made one, or how it ended. */
static void describe_end(Reason ret, const Branch *branch, const char *fault)
{
    const Buf *complaint = &branch->complaint;
    int status = branch->interpreter.status;

    if (complaint->size > 0)
        snprintf(ret, sizeof(Reason), "%.*s", (int)MIN(complaint->size, sizeof(Reason)),
                 (const char *)buf_head(complaint));
    else if (fault)
        snprintf(ret, sizeof(Reason), "%s", fault);
    else if (WIFSIGNALED(status))
        snprintf(ret, sizeof(Reason), "it was ended by signal %d", WTERMSIG(status));
    else
        snprintf(ret, sizeof(Reason), "it ended with exit code %d", WEXITSTATUS(status));
    ret[strcspn(ret, "\n")] = '\0';
    words_make_text(ret);
}

static void fail_start(Branch *branch, const char *fault)
{
    Reason why;

    branch_end_processes(branch);
    describe_end(why, branch, fault);
    branch_start_failed(branch, why);
}

/* Returns whether somebody killed it: only the controller knows whether the kernel did so for its memory. The
 * end of one that had much is seen before it can be reaped. */
static bool was_killed(const Interpreter *interpreter)
{
    return !interpreter_has_ended(interpreter) ||
           (WIFSIGNALED(interpreter->status) && WTERMSIG(interpreter->status) == SIGKILL);
}

/* The interpreter, which was ready once, is lost. */
static void lose_state(Branch *branch, const char *fault)
{
    bool killed = was_killed(&branch->interpreter);
    int ended;

    branch->losses++;
    ended = branch_end_processes(branch);
    branch->set->events->lost(branch, fault);
    prepare(branch, NULL, COPY_BACK);
    branch->recovery.ended = ended;
    branch->recovery.killed = killed;
    advance(branch);
}

void branch_lose(Branch *branch, const char *fault)
{
    if (branch->state == BRANCH_STARTING)
        fail_start(branch, fault);
    else if (branch->state == BRANCH_COPYING)
        recovery_refused(branch, fault ? fault : "it ended");
    else if (branch_was_ready(branch) && branch->state != BRANCH_CLOSING)
        lose_state(branch, fault);
}

void branch_go_back(Branch *branch, Checkpoint *checkpoint, CopyPurpose purpose)
{
    /* First, so that the recovery hears of it should the checkpoint go. */
    prepare(branch, checkpoint, purpose);
    branch->recovery.ended = branch_end_processes(branch);
    advance(branch);
}

void branch_forget_past(Branch *branch)
{
    branch->epoch = 1;
    branch->losses = 0;
    branch_forget_between(branch);
    state_change_deinit(&branch->unreported);
    if (branch_is_recovering(branch))
        branch->recovery.purpose = COPY_ANEW;
}

void branch_kill(Branch *branch, const char *fault)
{
    if (!branch_is_ready(branch))
        return; /* it has ended, or will be */
    branch_move(branch, BRANCH_ON_KILL);
    reason_set(branch->why, "%s", fault);
    branches_changed(branch->set);
}

void branch_undo(Branch *branch)
{
    branch_move(branch, BRANCH_ON_UNDO);
    branches_changed(branch->set);
}

static bool has_thawed(const Branch *branch)
{
    return branch->state == BRANCH_THAWING && !(branch->recovery.next && is_awaited(branch->recovery.next));
}

/* Deals with an interpreter that has ended or is to be killed, and with a recovery whose step has failed. */
static void branch_sweep(Branch *branch)
{
    if (interpreter_has_ended(&branch->interpreter))
        branch_lose(branch, NULL);
    else if (branch->state == BRANCH_KILLING)
        branch_lose(branch, branch->why);
    else if (branch->state == BRANCH_UNDOING)
        branch_go_back(branch, NULL, COPY_BACK);
    if (branch->state == BRANCH_RETRYING || has_thawed(branch))
        advance(branch);
}

void branches_sweep(Branches *set)
{
    Branch *branch;

    checkpoints_drop_ended(&set->checkpoints);
    list_foreach (branch, &set->all, Branch, link)
        branch_sweep(branch);
}

void branches_reap(Branches *set)
{
    processes_reap(on_reaped, set);
    branches_sweep(set);
}

/* ---- what the next record has to say ---- */

static Text written(const Output *output)
{
    return output->kept.size > 0 ? (Text){(const char *)buf_head(&output->kept), output->kept.size}
                                 : (Text){"", 0};
}

bool branch_say_unreported(const Branch *branch, MsgUnreported *ret)
{
    const StateChange *change = &branch->unreported;
    const Output *out = &branch->between[0], *err = &branch->between[1];

    *ret = (MsgUnreported){
        .epoch = branch->epoch,
        .lost = change->state == STATE_LOST,
        .checkpoint = change->state == STATE_ROLLED_BACK ? change->checkpoint : NO_UINT,
        .execution_count = change->execution_count,
        .calls = change->calls,
        .reason = text_of(change->reason),
        .not_restored = notes_say(&change->not_restored),
        .restored = notes_say(&branch->restored),
        .out = written(out),
        .err = written(err),
        .dropped = out->total - out->kept.size + err->total - err->kept.size,
    };
    return change->state != STATE_KEPT || branch->restored.n > 0 || out->total > 0 || err->total > 0;
}

void branch_take_unreported(Branch *branch, const MsgUnreported *said)
{
    StateChange *change = &branch->unreported;

    change->state = said->lost ? STATE_LOST : said->checkpoint != NO_UINT ? STATE_ROLLED_BACK : STATE_KEPT;
    change->checkpoint = uint_or(said->checkpoint, 0);
    change->execution_count = said->execution_count;
    change->calls = said->calls;
    reason_set(change->reason, "%.*s", (int)said->reason.size, said->reason.data);
    notes_add_all(&change->not_restored, &said->not_restored);
    notes_add_all(&branch->restored, &said->restored);
    branch_wrote(branch, 1, (const uint8_t *)said->out.data, said->out.size);
    branch_wrote(branch, 2, (const uint8_t *)said->err.data, said->err.size);
    branch->between[0].total += said->dropped;
}
