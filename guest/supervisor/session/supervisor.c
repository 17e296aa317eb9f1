#include "guest/supervisor/session/supervisor.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <string.h>

#include "guest/supervisor/process/processes.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* ---- taking the next steps ---- */

static void on_wake(LoopIdle *idle)
{
    Supervisor *supervisor = container_of(idle, Supervisor, wake);

    branches_sweep(&supervisor->branches);
    warmup_advance(&supervisor->warmup);
    calls_advance(&supervisor->calls);
    orders_advance(&supervisor->orders);
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

/* ---- events of branches ---- */

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

    return supervisor->calls.call || orders_are_active(&supervisor->orders);
}

static bool is_wanted(const Branch *branch)
{
    const Supervisor *supervisor = supervisor_of(branch->set);
    const Call *call = supervisor->calls.call;

    return (call && call->branch == branch) || orders_are_about(&supervisor->orders, branch);
}

static void on_ready(Branch *branch, bool copied)
{
    Supervisor *supervisor = supervisor_of(branch->set);

    warmup_on_ready(&supervisor->warmup, branch, copied);
    orders_on_started(&supervisor->orders, branch);
    calls_advance(&supervisor->calls);
}

static void on_start_failed(Branch *branch, const char *why)
{
    Supervisor *supervisor = supervisor_of(branch->set);

    calls_on_start_failed(&supervisor->calls, branch, why);
    /* A reset is answered all the same: the old interpreter is gone. The next call tells why there is none.
     */
    orders_on_started(&supervisor->orders, branch);
    warmup_on_start_failed(&supervisor->warmup);
}

static void on_interpreter_lost(Branch *branch, const char *fault)
{
    warmup_on_lost(&supervisor_of(branch->set)->warmup, branch);
    calls_on_lost(&supervisor_of(branch->set)->calls, branch, fault);
}

static bool on_settled(Branch *branch, StateChange *change)
{
    return calls_on_settled(&supervisor_of(branch->set)->calls, branch, change);
}

static void on_ended(Branch *branch)
{
    orders_on_started(&supervisor_of(branch->set)->orders, branch);
}

static int on_interpreter_message(Branch *branch, const Message *message, Problem *problem)
{
    Supervisor *supervisor = supervisor_of(branch->set);

    switch (message->kind) {
    case MSG_NAMESPACE:
        return orders_on_namespace(&supervisor->orders, branch, message, problem);
    case MSG_SAVE:
    case MSG_LOAD:
        return orders_on_moved(&supervisor->orders, branch, message, problem);
    case MSG_PREPARED:
        return warmup_on_prepared(&supervisor->warmup, branch, message, problem);
    default:
        return calls_on_message(&supervisor->calls, branch, message, problem);
    }
}

static void on_output(Branch *branch, unsigned stream, const uint8_t *bytes, size_t n)
{
    calls_on_output(&supervisor_of(branch->set)->calls, branch, stream, bytes, n);
}

static void on_kept(Branches *set, const Checkpoint *checkpoint)
{
    if (checkpoint->kind == CHECKPOINT_PRISTINE)
        warmup_on_pristine(&supervisor_of(set)->warmup);
}

static void on_gone(Branches *set, const Checkpoint *checkpoint, const char *why)
{
    Supervisor *supervisor = supervisor_of(set);

    orders_on_gone(&supervisor->orders, checkpoint, why);
    if (checkpoint->kind == CHECKPOINT_PRISTINE)
        warmup_on_pristine(&supervisor->warmup);
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
    .lost = on_interpreter_lost,
    .settled = on_settled,
    .ended = on_ended,
    .message = on_interpreter_message,
    .output = on_output,
    .reaped = on_reaped,
    .spare = spare,
    .beside = beside,
    .in_use = in_use,
    .kept = on_kept,
    .gone = on_gone,
};

/* ---- settings ---- */

/* The environment is taken. */
static void apply(Supervisor *supervisor, Settings *settings)
{
    Branches *branches = &supervisor->branches;
    OutputLimits *limits = &supervisor->calls.limits;

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

static SetupCode setup_of(const MsgGuestWelcome *said)
{
    return (SetupCode){said->setup, isnan(said->setup_timeout) ? SETUP_SECONDS : said->setup_timeout};
}

/* Takes the settings of a welcome; the first welcome starts the interpreter, unless what it is to be is
 * loaded. With `imports` the guest is a spare, unless it is a session already. The environment is taken. 0,
 * or -EPROTO with a Problem. */
static int supervisor_configure(Supervisor *supervisor, Settings *settings, const MsgGuestWelcome *said,
                                Problem *problem)
{
    const Value *imports = said->imports.array ? &said->imports : NULL;
    Warmup *warmup = &supervisor->warmup;
    bool first = !supervisor->configured;
    int r = first && imports ? warmup_begin(warmup, imports, setup_of(said), said->keeps, problem) : 0;

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
    if (first && !said->loads)
        branch_start(branches_find(&supervisor->branches, 0));
    return 0;
}

/* Makes a spare the session that has this environment, which is taken, and these checkpoints. */
static void supervisor_claim(Supervisor *supervisor, Environment *environment, CheckpointMode checkpoint)
{
    Settings settings = supervisor->settings;

    settings.environment = *environment;
    settings.checkpoint = checkpoint;
    become_session(supervisor, &settings);
}

/* There is a way to the network from now on. 0, or -EPROTO with a Problem. */
static int supervisor_proxy(Supervisor *supervisor, Problem *problem)
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

/* ---- the controller ---- */

#define PEER "limpet-guest/" LIMPET_VERSION

/* ---- welcome and claim ---- */

/* The mode of that word; `auto` where it is absent. */
static CheckpointMode mode_of(Text word)
{
    if (text_equal(word, "always"))
        return CHECKPOINT_ALWAYS;
    return text_equal(word, "off") ? CHECKPOINT_OFF : CHECKPOINT_AUTO;
}

static int decode_environment(Environment *ret, Supervisor *supervisor, const msgpack_object_map *set,
                              bool proxied, Problem *problem)
{
    const CommandLine *command_line = supervisor->command_line;
    const char *home = command_line->same_user ? command_line->directory : HOME_PATH;
    int r = proxied ? outlet_open(&supervisor->outlet) : 0;

    if (r == 0)
        r = environment_init(ret, home, supervisor->outlet.port, set, problem);
    return r < 0 && r != -EPROTO ? problem_set(problem, ERR_INTERNAL, "%s", strerror(-r)) : r;
}

static int decode_welcome(Settings *ret, Supervisor *supervisor, const MsgGuestWelcome *said,
                          Problem *problem)
{
    if (said->orphan_timeout <= 0)
        return problem_set(problem, ERR_BAD_REQUEST, "`orphan_timeout` is out of range");
    if (said->setup_timeout <= 0)
        return problem_set(problem, ERR_BAD_REQUEST, "`setup_timeout` is out of range");
    ret->checkpoint = mode_of(said->checkpoint);
    ret->output_limit = MIN(said->output_limit, LIMIT_OUTPUT); /* an absent number is the largest */
    ret->spill_limit = MIN(said->spill_limit, LIMIT_SPILL);
    ret->checkpoint_budget = uint_or(said->checkpoint_budget, 0);
    ret->memory = uint_or(said->memory, 0);
    ret->orphan_timeout =
        isnan(said->orphan_timeout) ? supervisor->command_line->orphan_timeout : said->orphan_timeout;
    return decode_environment(&ret->environment, supervisor, said->env.map, said->proxied, problem);
}

/* Takes memory that the controller has passed. A spare of its kind has written it; a session may be told of
 * variables that are read at the start alone, and begins without it then. */
static void share(Supervisor *supervisor, const Settings *settings, const MsgGuestWelcome *said)
{
    int shared _cleanup_(closep) = link_take_passed(&supervisor->link);
    Environment plain _cleanup_(environment_deinit) = {0};
    Problem problem = PROBLEM_NULL;

    if (shared < 0 || supervisor->configured)
        return;
    if (!said->imports.array && (decode_environment(&plain, supervisor, NULL, false, &problem) < 0 ||
                                 environment_needs_start(&plain, &settings->environment)))
        return;
    warmup_share(&supervisor->warmup, shared);
}

static int handle_welcome(Supervisor *supervisor, const Message *message, Problem *problem)
{
    bool runs = supervisor->configured && !warmup_is_spare(&supervisor->warmup);
    bool reached = supervisor->outlet.port != 0;
    Settings settings = {0};
    MsgGuestWelcome said;
    int r = body_decode(&said, MsgGuestWelcome, &message->body, problem);

    if (r == 0)
        r = decode_welcome(&settings, supervisor, &said, problem);
    if (r == 0 && said.shares)
        share(supervisor, &settings, &said);
    if (r == 0)
        r = supervisor_configure(supervisor, &settings, &said, problem);
    if (r < 0) {
        environment_deinit(&settings.environment);
        return r;
    }
    /* The controller that opened the way may have ended before it could say so. */
    if (runs && said.proxied && !reached)
        warmup_proxy(&supervisor->warmup);
    link_accepted(&supervisor->link);
    loop_timer_cancel(&supervisor->orphan);
    calls_tell_again(&supervisor->calls);
    commands_tell_again(&supervisor->commands);
    warmup_tell(&supervisor->warmup);
    pip_on_controller(&supervisor->pip);
    return 0;
}

static int handle_claim(Supervisor *supervisor, const Message *message, Problem *problem)
{
    Environment environment;
    MsgClaim said;
    int r = body_decode(&said, MsgClaim, &message->body, problem);

    if (r == 0 && !warmup_is_spare(&supervisor->warmup))
        r = problem_set(problem, ERR_BAD_REQUEST, "it is a session already");
    if (r == 0)
        r = decode_environment(&environment, supervisor, said.env.map, said.proxied, problem);
    if (r == 0)
        supervisor_claim(supervisor, &environment, mode_of(said.checkpoint));
    return r;
}

/* ---- calls ---- */

static int handle_execute(Calls *calls, const Message *message, Problem *problem)
{
    MsgExecute body;
    int r = body_decode(&body, MsgExecute, &message->body, problem);

    if (r < 0)
        return r;
    if (body.timeout <= 0 || body.timeout > TIMEOUT_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "`timeout` is out of range");
    return calls_execute(calls, message->id, &body, problem);
}

static int handle_credit(Supervisor *supervisor, const Message *message, Problem *problem)
{
    MsgCredit body;
    int r = body_decode(&body, MsgCredit, &message->body, problem);

    if (r == 0 && !commands_credit(&supervisor->commands, message->id, body.count))
        calls_credit(&supervisor->calls, message->id, body.count);
    return r;
}

static int handle_interrupt(Supervisor *supervisor, const Message *message)
{
    if (!commands_interrupt(&supervisor->commands, message->id))
        calls_interrupt(&supervisor->calls);
    return 0;
}

/* A refused answer is logged only: an error would be taken for the end of the call, whose id it has. */
static int handle_answer(Calls *calls, const Message *message)
{
    Problem problem = PROBLEM_NULL;

    if (calls_answer(calls, message, &problem) < 0)
        log_warn("answer refused", "reason=%s", problem.text);
    return 0;
}

/* ---- all of them ---- */

static int handle_for_session(Supervisor *supervisor, const Message *message, Problem *problem)
{
    OrderHandler handle_order;

    switch (message->kind) {
    case MSG_EXECUTE:
        orders_give_way(&supervisor->orders);
        return handle_execute(&supervisor->calls, message, problem);
    case MSG_EXEC:
        return commands_exec(&supervisor->commands, message, problem);
    case MSG_PROCESS:
        return commands_process(&supervisor->commands, message, problem);
    case MSG_PROCESSES:
        return commands_list(&supervisor->commands, message, problem);
    case MSG_CONNECT:
        return dials_begin(&supervisor->dials, message, problem);
    case MSG_INSTALL:
        return pip_told(&supervisor->pip, message, problem);
    case MSG_SET_NETWORK:
        return supervisor_proxy(supervisor, problem);
    case MSG_SETTLED:
        commands_settled(&supervisor->commands, message->id);
        calls_settled(&supervisor->calls, message->id);
        return 0;
    case MSG_INTERRUPT:
        return handle_interrupt(supervisor, message);
    case MSG_CREDIT:
        return handle_credit(supervisor, message, problem);
    case MSG_ANSWER:
        return handle_answer(&supervisor->calls, message);
    case MSG_FILES:
        return files_process_ask(&supervisor->files, message, problem);
    default:
        handle_order = order_handler(message->kind);
        if (!handle_order)
            return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s",
                               message_name(message->kind));
        orders_give_way(&supervisor->orders);
        return handle_order(&supervisor->orders, message, problem);
    }
}

static int handle(Supervisor *supervisor, const Message *message, Problem *problem)
{
    if (message->kind == MSG_GUEST_WELCOME)
        return handle_welcome(supervisor, message, problem);
    if (message->kind == MSG_STOP) {
        loop_stop(supervisor->loop, 0);
        return 0;
    }
    if (!supervisor->link.accepted)
        return problem_set(problem, ERR_BAD_REQUEST, "%s before guest_welcome", message_name(message->kind));
    if (message->kind == MSG_CLAIM)
        return handle_claim(supervisor, message, problem);
    if (warmup_is_spare(&supervisor->warmup))
        return problem_set(problem, ERR_BAD_REQUEST, "%s before claim", message_name(message->kind));
    return handle_for_session(supervisor, message, problem);
}

/* ---- the connection ---- */

static Supervisor *supervisor_of_link(Link *link)
{
    return container_of(link, Supervisor, link);
}

static void on_controller_message(Link *link, const Message *message)
{
    Problem problem = PROBLEM_NULL;

    if (handle(supervisor_of_link(link), message, &problem) == 0)
        return;
    log_warn("message refused", "kind=%s reason=%s", message_name(message->kind), problem.text);
    link_refuse_problem(link, message->id, &problem);
}

static void write_branches(Writer *w, const void *source)
{
    const Branches *branches = source;
    Branch *branch;

    write_array(w, branches->count);
    list_foreach (branch, (List *)&branches->all, Branch, link)
        body_write(w, MsgGuestBranch,
                   (&(MsgGuestBranch){.branch = branch->number,
                                      .epoch = branch->epoch,
                                      .execution_count = branch->execution_count}));
}

static void on_open(Link *link)
{
    const Supervisor *supervisor = supervisor_of_link(link);
    const Call *call = supervisor->calls.call;
    MsgGuestHello hello = {
        .protocol = PROTOCOL_VERSION,
        .session = text_of(link->session),
        .secret = {(const char *)link->secret, sizeof(link->secret)},
        .peer = text_of(PEER),
        .branches = {.write = write_branches, .source = &supervisor->branches},
        .has_running = call,
        .commands = {.write = commands_write, .source = &supervisor->commands},
        .waits = true,
        .passes = true,
        .shares = true,
    };

    if (call)
        hello.running = (MsgGuestRunning){.id = call->id,
                                          .branch = call->branch_number,
                                          .run_id = text_of(call->run_id),
                                          .code_hash = call->code_hash};
    link_say(link, MSG_GUEST_HELLO, 0, MsgGuestHello, &hello);
}

static void on_orphan_due(LoopTimer *timer)
{
    log_info("no controller has come", "action=end");
    loop_stop(container_of(timer, Supervisor, orphan)->loop, 0);
}

static int wait_for_controller(Supervisor *supervisor)
{
    uint64_t due = clock_now() + clock_from_seconds(supervisor->settings.orphan_timeout);

    if (loop_timer_is_set(&supervisor->orphan))
        return 0;
    return loop_timer_set(supervisor->loop, &supervisor->orphan, due, on_orphan_due);
}

static void on_controller_lost(Link *link)
{
    Supervisor *supervisor = supervisor_of_link(link);

    if (wait_for_controller(supervisor) < 0)
        log_error("no memory for a timer", "purpose=orphan");
    calls_on_controller_lost(&supervisor->calls);
    orders_on_controller_lost(&supervisor->orders);
    files_process_on_controller_lost(&supervisor->files);
    commands_on_controller_lost(&supervisor->commands);
    dials_on_controller_lost(&supervisor->dials);
    pip_on_controller_lost(&supervisor->pip);
}

/* Starts to connect. 0 or a negative errno, logged. */
static int controller_connect(Supervisor *supervisor)
{
    Link *link = &supervisor->link;
    int r = link_init(link, supervisor->loop);

    if (r < 0)
        return r;
    link->on_open = on_open;
    link->on_message = on_controller_message;
    link->on_lost = on_controller_lost;
    r = wait_for_controller(supervisor);
    if (r == 0)
        link_connect(link);
    return r;
}

static void controller_disconnect(Supervisor *supervisor)
{
    if (!supervisor->link.loop)
        return; /* never connected */
    loop_timer_cancel(&supervisor->orphan);
    link_deinit(&supervisor->link);
}

/* ---- its life ---- */

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
    int r = calls_init(&supervisor->calls, branches, link);
    orders_init(&supervisor->orders, branches, &supervisor->calls, link);
    warmup_init(&supervisor->warmup, branches, link);
    files_process_init(&supervisor->files, loop, command_line, link, &branches->files_pid);
    commands_init(&supervisor->commands, loop, link, command_line, &branches->environment,
                  &supervisor->calls.limits);
    dials_init(&supervisor->dials, loop, link);
    browser_init(&supervisor->browser, loop, command_line, &branches->environment);
    pip_init(&supervisor->pip, loop, link);
    outlet_init(&supervisor->outlet, loop);

    if (r == 0)
        r = branch_new(branches, 0) ? 0 : -ENOMEM;
    if (r == 0)
        r = spill_open(&supervisor->calls.limits.spill, command_line->directory);
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
    orders_deinit(&supervisor->orders);
    warmup_deinit(&supervisor->warmup);
    calls_deinit(&supervisor->calls);
    branches_deinit(&supervisor->branches);
    controller_disconnect(supervisor);
    loop_idle_remove(&supervisor->wake);
    loop_signals_remove(&supervisor->signals);
}
