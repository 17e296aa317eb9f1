/* All branches: what they share, and whose processes live on when those of one are ended. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "guest/supervisor/branch/internal.h"
#include "guest/supervisor/process/processes.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* A purge is given up after this, where processes are born faster than a walk can end them. */
#define PURGE_LIMIT (300 * NSEC_PER_MSEC)

/* Processes that do not die within this are stuck in the kernel; the reply cannot wait for them. */
#define END_LIMIT (700 * NSEC_PER_MSEC)

Branch *branches_find(const Branches *set, uint64_t number)
{
    Branch *branch;

    list_foreach (branch, (List *)&set->all, Branch, link)
        if (branch->number == number)
            return branch;
    return NULL;
}

void branches_changed(Branches *set)
{
    set->events->changed(set);
}

bool branches_are_busy(const Branches *set)
{
    return set->events->is_busy(set);
}

void branches_set_environment(Branches *set, Environment *environment)
{
    Environment *before = &set->environment;

    if (before->n > 0 && !environment_equal(before, environment))
        set->environment_changed = true;
    environment_deinit(before);
    *before = *environment;
    *environment = (Environment){0};
}

/* Processes */

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

void branches_end_all(Branches *set)
{
    if (processes_end_all(END_LIMIT, on_reaped, set) < 0)
        log_error("processes do not die", "purpose=end");
}

typedef struct Spared {
    pid_t alone[LIMIT_CHECKPOINTS + LIMIT_BRANCHES +
                4]; /* checkpoints, the pending ones and that of the birth included, and the bystander */
    pid_t families[LIMIT_BRANCHES + 2 + 2 * LIMIT_PROCESSES];
    ProcessesKeep keep;
} Spared;

static void spared_collect(Spared *spared, Branches *set, const Branch *except)
{
    Checkpoint *checkpoint;
    Branch *branch;

    spared->keep = (ProcessesKeep){.alone = spared->alone, .families = spared->families};
    if (set->bystander > 0)
        spared->alone[spared->keep.alone_count++] = set->bystander;
    list_foreach (checkpoint, &set->checkpoints.all, Checkpoint, link)
        if (checkpoint->pid > 0 && spared->keep.alone_count < ARRAY_SIZE(spared->alone))
            spared->alone[spared->keep.alone_count++] = checkpoint->pid;
    list_foreach (branch, &set->all, Branch, link)
        if (branch != except && branch->interpreter.pid > 0)
            spared->families[spared->keep.family_count++] = branch->interpreter.pid;
    spared->keep.family_count +=
        set->events->spare(set, &spared->keep.mark, spared->families + spared->keep.family_count,
                           ARRAY_SIZE(spared->families) - spared->keep.family_count);
}

void branches_settle_copies(Branches *set, uint64_t limit)
{
    uint64_t end = clock_now() + limit;
    Branch *branch;

    list_foreach (branch, &set->all, Branch, link) {
        struct pollfd said = {.fd = branch->interpreter.channel, .events = POLLIN};
        uint64_t now = clock_now();

        if (branch->recovery.step != RECOVERY_COPIES || said.fd < 0 || now >= end)
            continue;
        struct timespec left = clock_timespec(end - now);
        ppoll(&said, 1, &left, NULL);
    }
}

/* Copies in the making have been ended with the others, as nobody knew their processes. */
static void copy_again(Branches *set, const Branch *except)
{
    Branch *branch;

    list_foreach (branch, &set->all, Branch, link)
        if (branch != except && branch->recovery.step == RECOVERY_COPIES)
            recovery_copy_again(branch);
}

int branches_purge(Branches *set, Branch *branch)
{
    Spared spared;

    spared_collect(&spared, set, branch);
    int r = processes_end_others(&spared.keep, branch->interpreter.pid, PURGE_LIMIT);
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

/* Checkpoints */

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

        if (recovery->step == RECOVERY_COPIES && recovery->from == checkpoint && recovery->restore == id)
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

/* Their life */

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
