#include "guest/supervisor/supervisor.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "guest/supervisor/processes.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Where processes are born faster than a walk can end them it is given up after this. */
#define PURGE_LIMIT (300 * NSEC_PER_MSEC)

/* Processes that do not die within this are stuck in the kernel; the reply cannot wait for them. */
#define END_LIMIT (700 * NSEC_PER_MSEC)

Branch *supervisor_find(Supervisor *supervisor, uint64_t number)
{
    Branch *branch;

    list_foreach (branch, &supervisor->branches, Branch, link)
        if (branch->number == number)
            return branch;
    return NULL;
}

/* Taking the next steps */

static void sweep(Supervisor *supervisor)
{
    Branch *branch;

    checkpoints_drop_ended(&supervisor->checkpoints);
    list_foreach (branch, &supervisor->branches, Branch, link)
        branch_sweep(branch);
}

static void on_wake(LoopIdle *idle)
{
    Supervisor *supervisor = container_of(idle, Supervisor, wake);

    sweep(supervisor);
    call_try_begin(supervisor);
    order_advance(supervisor);
}

void supervisor_wake(Supervisor *supervisor)
{
    loop_idle_add(supervisor->loop, &supervisor->wake, on_wake);
}

/* Processes */

static void on_reaped(void *context, pid_t pid, int status, const struct rusage *usage)
{
    Supervisor *supervisor = context;
    Checkpoint *checkpoint = checkpoints_find_pid(&supervisor->checkpoints, pid);
    Branch *branch;

    if (checkpoint)
        checkpoint_reaped(checkpoint);
    list_foreach (branch, &supervisor->branches, Branch, link)
        interpreter_reaped(&branch->interpreter, pid, status, usage);
}

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    Supervisor *supervisor = container_of(signals, Supervisor, signals);

    if (number == SIGTERM) {
        /* The engine may end the session, the code in it may not. */
        if (sender == 0 || !processes_is_descendant(sender))
            loop_stop(supervisor->loop, 0);
        return;
    }
    processes_reap(on_reaped, supervisor);
    sweep(supervisor);
}

typedef struct Kept {
    pid_t alone[LIMIT_CHECKPOINTS + LIMIT_BRANCHES + 3]; /* with the pending ones and that of the birth */
    pid_t families[LIMIT_BRANCHES + 1];
    ProcessesKeep keep;
} Kept;

static void kept_collect(Kept *kept, Supervisor *supervisor, const Branch *except)
{
    Checkpoint *checkpoint;
    Branch *branch;

    kept->keep = (ProcessesKeep){.alone = kept->alone, .families = kept->families};
    list_foreach (checkpoint, &supervisor->checkpoints.all, Checkpoint, link)
        if (checkpoint->pid > 0 && kept->keep.alone_count < ARRAY_SIZE(kept->alone))
            kept->alone[kept->keep.alone_count++] = checkpoint->pid;
    list_foreach (branch, &supervisor->branches, Branch, link)
        if (branch != except && branch->interpreter.pid > 0)
            kept->families[kept->keep.family_count++] = branch->interpreter.pid;
}

void supervisor_settle_copies(Supervisor *supervisor, uint64_t limit)
{
    uint64_t end = clock_now() + limit;
    Branch *branch;

    list_foreach (branch, &supervisor->branches, Branch, link) {
        struct pollfd said = {.fd = branch->interpreter.channel, .events = POLLIN};
        uint64_t now = clock_now();

        if (!branch->recovery.active || !branch->recovery.copying || said.fd < 0 || now >= end)
            continue;
        struct timespec left = {.tv_nsec = (long)MIN(end - now, NSEC_PER_SEC - 1)};
        ppoll(&said, 1, &left, NULL);
    }
}

/* Copies of other checkpoints whose processes nobody knew yet: they are asked for again. */
static void forget_copies(Supervisor *supervisor, const Branch *except)
{
    Branch *branch;

    list_foreach (branch, &supervisor->branches, Branch, link) {
        if (branch == except || !branch->recovery.active || !branch->recovery.copying)
            continue;
        loop_timer_cancel(&branch->start);
        interpreter_close(&branch->interpreter);
        branch->recovery.copying = false;
        branch->recovery.next = branch->recovery.from;
        supervisor_wake(supervisor);
    }
}

int supervisor_purge(Supervisor *supervisor, Branch *branch)
{
    Kept kept;

    kept_collect(&kept, supervisor, branch);
    int r = processes_end_others(&kept.keep, branch->interpreter.pid, PURGE_LIMIT);
    if (r < 0) {
        log_error("some processes cannot be ended: ending all", "branch=%" PRIu64 " error=%s", branch->number,
                  strerror(-r));
        if (processes_end_all(END_LIMIT, on_reaped, supervisor) < 0)
            log_error("processes do not die", "branch=%" PRIu64, branch->number);
        supervisor_wake(supervisor);
    }
    forget_copies(supervisor, branch);
    return MAX(r, 0);
}

/* Checkpoints */

static Supervisor *supervisor_of(Checkpoints *set)
{
    return container_of(set, Supervisor, checkpoints);
}

static bool is_taken(Checkpoints *set, pid_t pid)
{
    Branch *branch;

    list_foreach (branch, &supervisor_of(set)->branches, Branch, link)
        if (branch->interpreter.pid == pid)
            return true;
    return false;
}

static void add_living(Checkpoints *set, Footprint *ret)
{
    Branch *branch;

    list_foreach (branch, &supervisor_of(set)->branches, Branch, link)
        if (branch->interpreter.pid > 0)
            footprint_add(ret, branch->interpreter.pid, set->uid);
}

/* The call that runs there may have been promised that it can go back. */
static bool hand_on(Checkpoints *set, Checkpoint *checkpoint)
{
    Branch *branch;

    list_foreach (branch, &supervisor_of(set)->branches, Branch, link) {
        if (branch->base != checkpoint || branch->number == checkpoint->branch)
            continue;
        checkpoint->branch = branch->number;
        return true;
    }
    return false;
}

static void on_kept(Checkpoints *set, Checkpoint *checkpoint)
{
    Branch *branch = supervisor_find(supervisor_of(set), checkpoint->branch);

    if (branch)
        branch_on_kept(branch, checkpoint);
    if (checkpoint->kind == CHECKPOINT_BIRTH)
        spare_on_birth(supervisor_of(set));
    supervisor_wake(supervisor_of(set));
}

/* What was asked for may have been given up since: then nobody waits for it. */
static void on_refused(Checkpoints *set, Checkpoint *checkpoint, uint64_t id, const char *why)
{
    Branch *branch;

    list_foreach (branch, &supervisor_of(set)->branches, Branch, link) {
        const Recovery *recovery = &branch->recovery;

        if (recovery->active && recovery->copying && recovery->from == checkpoint && recovery->restore == id)
            recovery_refused(branch, why);
    }
}

static void on_gone(Checkpoints *set, Checkpoint *checkpoint, const char *why)
{
    Supervisor *supervisor = supervisor_of(set);
    Branch *branch;

    list_foreach (branch, &supervisor->branches, Branch, link)
        branch_on_gone(branch, checkpoint, why);
    order_on_gone(&supervisor->order, checkpoint, why);
    if (checkpoint->kind == CHECKPOINT_BIRTH)
        spare_on_birth(supervisor);
    supervisor_wake(supervisor);
}

static void init_checkpoints(Supervisor *supervisor)
{
    Checkpoints *set = &supervisor->checkpoints;

    checkpoints_init(set, supervisor->loop);
    set->uid = supervisor->options->same_user ? getuid() : supervisor->options->uid;
    set->is_taken = is_taken;
    set->add_living = add_living;
    set->hand_on = hand_on;
    set->on_kept = on_kept;
    set->on_refused = on_refused;
    set->on_gone = on_gone;
}

/* Its life */

void supervisor_apply(Supervisor *supervisor, const Settings *settings)
{
    Environment *before = &supervisor->settings.environment;

    if (before->n > 0 && !environment_equal(before, &settings->environment))
        supervisor->environment_changed = true;
    environment_deinit(before);
    supervisor->settings = *settings;
    supervisor->limits.output = settings->output_limit;
    supervisor->limits.spill.limit = settings->spill_limit;
    supervisor->checkpoints.budget = settings->checkpoint_budget;
}

int supervisor_configure(Supervisor *supervisor, Settings *settings, const Value *imports, Problem *problem)
{
    bool first = !supervisor->configured;
    int r = first && imports ? spare_begin(supervisor, imports, problem) : 0;

    if (r < 0)
        return r;
    supervisor->configured = true;
    if (spare_is_one(&supervisor->spare) && !imports) {
        spare_become_session(supervisor, settings);
        return 0;
    }
    if (spare_is_one(&supervisor->spare))
        settings->checkpoint = CHECKPOINT_OFF; /* there is nothing in it */
    supervisor_apply(supervisor, settings);
    if (first)
        branch_start(supervisor_find(supervisor, 0));
    return 0;
}

void supervisor_claim(Supervisor *supervisor, Environment *environment, CheckpointMode checkpoint)
{
    Settings settings = supervisor->settings;

    settings.environment = *environment;
    settings.checkpoint = checkpoint;
    spare_become_session(supervisor, &settings);
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
    *supervisor = (Supervisor){.loop = loop, .options = options, .limits.spill = SPILL_NONE};
    supervisor->settings.orphan_timeout = options->orphan_timeout;
    list_init(&supervisor->branches);
    init_checkpoints(supervisor);

    int r = branch_new(supervisor, 0) ? 0 : -ENOMEM;
    if (r == 0)
        r = spill_open(&supervisor->limits.spill, options->directory);
    if (r == 0)
        r = watch_signals(supervisor);
    if (r == 0)
        r = controller_init(&supervisor->controller, supervisor);
    return r;
}

void supervisor_deinit(Supervisor *supervisor)
{
    Branch *branch;

    if (processes_end_all(END_LIMIT, on_reaped, supervisor) < 0)
        log_error("processes do not die", "purpose=end");
    order_deinit(&supervisor->order);
    spare_deinit(&supervisor->spare);
    supervisor->cell = cell_free(supervisor->cell);
    list_foreach (branch, &supervisor->branches, Branch, link)
        branch_free(branch);
    checkpoints_deinit(&supervisor->checkpoints);
    controller_deinit(&supervisor->controller);
    loop_idle_remove(&supervisor->wake);
    loop_signals_remove(&supervisor->signals);
    environment_deinit(&supervisor->settings.environment);
    buf_deinit(&supervisor->record);
    spill_close(&supervisor->limits.spill);
}
