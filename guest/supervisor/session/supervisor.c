#include "guest/supervisor/session/supervisor.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "guest/supervisor/process/processes.h"

/* Taking the next steps */

static void on_wake(LoopIdle *idle)
{
    Supervisor *supervisor = container_of(idle, Supervisor, wake);

    branches_sweep(&supervisor->branches);
    executor_advance(&supervisor->executor);
    tasks_advance(&supervisor->tasks);
}

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    Supervisor *supervisor = container_of(signals, Supervisor, signals);

    if (number != SIGTERM)
        branches_reap(&supervisor->branches);
    /* The engine may end the session, the code in it may not. */
    else if (sender == 0 || !processes_is_descendant(sender))
        loop_stop(supervisor->loop, 0);
}

/* Events of branches */

static Supervisor *supervisor_of(const Branches *set)
{
    return container_of((Branches *)set, Supervisor, branches);
}

static void on_changed(Branches *set)
{
    Supervisor *supervisor = supervisor_of(set);

    loop_idle_add(supervisor->loop, &supervisor->wake, on_wake);
}

static bool is_busy(const Branches *set)
{
    const Supervisor *supervisor = supervisor_of(set);

    return supervisor->executor.cell || tasks_are_active(&supervisor->tasks);
}

static bool is_wanted(const Branch *branch)
{
    const Supervisor *supervisor = supervisor_of(branch->set);
    const Cell *cell = supervisor->executor.cell;

    return (cell && cell->branch == branch) || tasks_are_about(&supervisor->tasks, branch);
}

static void on_ready(Branch *branch)
{
    Supervisor *supervisor = supervisor_of(branch->set);

    warmup_on_ready(&supervisor->warmup, branch);
    tasks_on_started(&supervisor->tasks, branch);
    executor_advance(&supervisor->executor);
}

static void on_start_failed(Branch *branch, const char *why)
{
    Supervisor *supervisor = supervisor_of(branch->set);

    executor_on_start_failed(&supervisor->executor, branch, why);
    /* A reset is answered all the same: the old interpreter is gone. The next call tells why there is none.
     */
    tasks_on_started(&supervisor->tasks, branch);
    warmup_on_start_failed(&supervisor->warmup);
}

static void on_lost(Branch *branch, const char *fault)
{
    warmup_on_lost(&supervisor_of(branch->set)->warmup, branch);
    executor_on_lost(&supervisor_of(branch->set)->executor, branch, fault);
}

static bool on_settled(Branch *branch, Fate *fate)
{
    return executor_on_settled(&supervisor_of(branch->set)->executor, branch, fate);
}

static void on_ended(Branch *branch)
{
    tasks_on_started(&supervisor_of(branch->set)->tasks, branch);
}

static int on_message(Branch *branch, const Message *message, Problem *problem)
{
    Supervisor *supervisor = supervisor_of(branch->set);

    switch (message->kind) {
    case MSG_NAMESPACE:
        return tasks_on_namespace(&supervisor->tasks, branch, message, problem);
    case MSG_SAVE:
    case MSG_LOAD:
        return tasks_on_moved(&supervisor->tasks, branch, message, problem);
    case MSG_PREPARED:
        return warmup_on_prepared(&supervisor->warmup, branch, message, problem);
    default:
        return executor_on_message(&supervisor->executor, branch, message, problem);
    }
}

static void on_output(Branch *branch, unsigned stream, const uint8_t *bytes, size_t n)
{
    executor_on_output(&supervisor_of(branch->set)->executor, branch, stream, bytes, n);
}

static void on_kept(Branches *set, const Checkpoint *checkpoint)
{
    if (checkpoint->kind == CHECKPOINT_BIRTH)
        warmup_on_birth(&supervisor_of(set)->warmup);
}

static void on_gone(Branches *set, const Checkpoint *checkpoint, const char *why)
{
    Supervisor *supervisor = supervisor_of(set);

    tasks_on_gone(&supervisor->tasks, checkpoint, why);
    if (checkpoint->kind == CHECKPOINT_BIRTH)
        warmup_on_birth(&supervisor->warmup);
}

static void on_reaped(Branches *set, pid_t pid, int status, const struct rusage *usage)
{
    files_process_reaped(&supervisor_of(set)->files, pid);
    commands_reaped(&supervisor_of(set)->commands, pid, status, usage);
    browser_reaped(&supervisor_of(set)->browser, pid, status);
}

static size_t spare(Branches *set, gid_t *ret_mark, pid_t *ret_leaders, size_t most)
{
    const Supervisor *supervisor = supervisor_of(set);
    size_t n = commands_leaders(&supervisor->commands, ret_leaders, most);

    *ret_mark = supervisor->commands.context.mark;
    if (supervisor->browser.pid && n < most)
        ret_leaders[n++] = supervisor->browser.pid;
    return n;
}

static const char *beside(const Branches *set)
{
    return supervisor_of(set)->browser.pid ? "the browser: its pages are left as they are" : NULL;
}

static const char *in_use(const Branches *set)
{
    const Supervisor *supervisor = supervisor_of(set);

    if (supervisor->browser.pid)
        return "the browser runs";
    return commands_run(&supervisor->commands) ? "commands or processes run" : NULL;
}

static const BranchEvents branch_events = {
    .changed = on_changed,
    .is_busy = is_busy,
    .is_wanted = is_wanted,
    .ready = on_ready,
    .start_failed = on_start_failed,
    .lost = on_lost,
    .settled = on_settled,
    .ended = on_ended,
    .message = on_message,
    .output = on_output,
    .reaped = on_reaped,
    .spare = spare,
    .beside = beside,
    .in_use = in_use,
    .kept = on_kept,
    .gone = on_gone,
};

/* Settings */

/* The environment is taken. */
static void apply(Supervisor *supervisor, Settings *settings)
{
    Branches *branches = &supervisor->branches;
    OutputLimits *limits = &supervisor->executor.limits;

    branches_set_environment(branches, &settings->environment);
    branches->mode = settings->checkpoint;
    branches->memory = settings->memory;
    branches->checkpoints.budget = settings->checkpoint_budget;
    limits->output = settings->output_limit;
    limits->spill.limit = settings->spill_limit;
    supervisor->settings = *settings;
}

static void become_session(Supervisor *supervisor, Settings *settings)
{
    /* A template's state is worth more than a variable that is only read at the start. */
    bool anew = !supervisor->warmup.setup &&
                environment_needs_start(&supervisor->branches.environment, &settings->environment);

    apply(supervisor, settings);
    warmup_become_session(&supervisor->warmup, anew);
}

int supervisor_configure(Supervisor *supervisor, Settings *settings, const Value *imports, SetupCode setup,
                         Problem *problem)
{
    Warmup *warmup = &supervisor->warmup;
    bool first = !supervisor->configured;
    int r = first && imports ? warmup_begin(warmup, imports, setup, problem) : 0;

    if (r < 0)
        return r;
    supervisor->configured = true;
    if (warmup_is_spare(warmup) && !imports) {
        become_session(supervisor, settings);
        return 0;
    }
    if (warmup_is_spare(warmup))
        settings->checkpoint = CHECKPOINT_OFF; /* a spare has nothing to keep */
    apply(supervisor, settings);
    if (first)
        branch_start(branches_find(&supervisor->branches, 0));
    return 0;
}

void supervisor_claim(Supervisor *supervisor, Environment *environment, CheckpointMode checkpoint)
{
    Settings settings = supervisor->settings;

    settings.environment = *environment;
    settings.checkpoint = checkpoint;
    become_session(supervisor, &settings);
}

int supervisor_proxy(Supervisor *supervisor, Problem *problem)
{
    Environment environment;
    bool open = supervisor->outlet.port != 0;
    int r = outlet_open(&supervisor->outlet);

    if (r == 0 && !open)
        r = environment_proxy(&environment, &supervisor->branches.environment, supervisor->outlet.port);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "no way to the network: %s", strerror(-r));
    if (open)
        return 0;
    branches_set_environment(&supervisor->branches, &environment);
    warmup_proxy(&supervisor->warmup);
    return 0;
}

/* Its life */

static int watch_signals(Supervisor *supervisor)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigaddset(&set, SIGTERM);
    return loop_signals_add(supervisor->loop, &supervisor->signals, &set, on_signal);
}

int supervisor_init(Supervisor *supervisor, Loop *loop, const CommandLine *command_line)
{
    Branches *branches = &supervisor->branches;
    Link *link = &supervisor->link;

    *supervisor = (Supervisor){.loop = loop, .command_line = command_line};
    supervisor->settings.orphan_timeout = command_line->orphan_timeout;
    branches_init(branches, loop, command_line, &branch_events);
    executor_init(&supervisor->executor, branches, link);
    tasks_init(&supervisor->tasks, branches, &supervisor->executor, link);
    warmup_init(&supervisor->warmup, branches, link);
    files_process_init(&supervisor->files, loop, command_line, link, &branches->bystander);
    commands_init(&supervisor->commands, loop, link, command_line, &branches->environment,
                  &supervisor->executor.limits);
    dials_init(&supervisor->dials, loop, link);
    browser_init(&supervisor->browser, loop, command_line, &branches->environment);
    pip_init(&supervisor->pip, loop, link);
    outlet_init(&supervisor->outlet, loop);

    int r = branch_new(branches, 0) ? 0 : -ENOMEM;
    if (r == 0)
        r = spill_open(&supervisor->executor.limits.spill, command_line->directory);
    if (r == 0)
        r = watch_signals(supervisor);
    if (r == 0)
        r = controller_connect(supervisor);
    return r;
}

void supervisor_deinit(Supervisor *supervisor)
{
    branches_end_all(&supervisor->branches);
    files_process_deinit(&supervisor->files);
    commands_deinit(&supervisor->commands);
    dials_deinit(&supervisor->dials);
    browser_deinit(&supervisor->browser);
    pip_deinit(&supervisor->pip);
    outlet_deinit(&supervisor->outlet);
    tasks_deinit(&supervisor->tasks);
    warmup_deinit(&supervisor->warmup);
    executor_deinit(&supervisor->executor);
    branches_deinit(&supervisor->branches);
    controller_disconnect(supervisor);
    loop_idle_remove(&supervisor->wake);
    loop_signals_remove(&supervisor->signals);
}
