/* Messages of the controller, and the greeting of a new one. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "guest/supervisor/session/supervisor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define PEER "limpet-guest/" LIMPET_VERSION

/* Welcome and claim */

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

static SetupCode setup_of(const MsgGuestWelcome *said)
{
    return (SetupCode){said->setup, isnan(said->setup_timeout) ? SETUP_SECONDS : said->setup_timeout};
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
    if (r == 0)
        r = supervisor_configure(supervisor, &settings, said.imports.array ? &said.imports : NULL,
                                 setup_of(&said), problem);
    if (r < 0) {
        environment_deinit(&settings.environment);
        return r;
    }
    /* The controller that opened the way may have ended before it could say so. */
    if (runs && said.proxied && !reached)
        warmup_proxy(&supervisor->warmup);
    link_accepted(&supervisor->link);
    loop_timer_cancel(&supervisor->orphan);
    executor_tell_again(&supervisor->executor);
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

/* Calls */

static int handle_execute(Executor *executor, const Message *message, Problem *problem)
{
    MsgExecute body;
    int r = body_decode(&body, MsgExecute, &message->body, problem);

    if (r < 0)
        return r;
    if (body.timeout <= 0 || body.timeout > TIMEOUT_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "`timeout` is out of range");
    return executor_execute(executor, message->id, &body, problem);
}

static int handle_credit(Supervisor *supervisor, const Message *message, Problem *problem)
{
    MsgCredit body;
    int r = body_decode(&body, MsgCredit, &message->body, problem);

    if (r == 0 && !commands_credit(&supervisor->commands, message->id, body.count))
        executor_credit(&supervisor->executor, message->id, body.count);
    return r;
}

static int handle_interrupt(Supervisor *supervisor, const Message *message)
{
    if (!commands_interrupt(&supervisor->commands, message->id))
        executor_interrupt(&supervisor->executor);
    return 0;
}

/* A refused answer is logged only: an error would be taken for the end of the call, whose id it has. */
static int handle_answer(Executor *executor, const Message *message)
{
    Problem problem = PROBLEM_NULL;

    if (executor_answer(executor, message, &problem) < 0)
        log_warn("answer refused", "reason=%s", problem.text);
    return 0;
}

/* All of them */

static int handle_for_session(Supervisor *supervisor, const Message *message, Problem *problem)
{
    TaskHandler handle_task = task_handler(message->kind);

    switch (message->kind) {
    case MSG_EXECUTE:
        return handle_execute(&supervisor->executor, message, problem);
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
        executor_settled(&supervisor->executor, message->id);
        return 0;
    case MSG_INTERRUPT:
        return handle_interrupt(supervisor, message);
    case MSG_CREDIT:
        return handle_credit(supervisor, message, problem);
    case MSG_ANSWER:
        return handle_answer(&supervisor->executor, message);
    case MSG_FILES:
        return files_process_ask(&supervisor->files, message, problem);
    default:
        if (handle_task)
            return handle_task(&supervisor->tasks, message, problem);
        return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message->kind));
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

/* The connection */

static Supervisor *supervisor_of(Link *link)
{
    return container_of(link, Supervisor, link);
}

static void on_message(Link *link, const Message *message)
{
    Problem problem = PROBLEM_NULL;

    if (handle(supervisor_of(link), message, &problem) == 0)
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
    const Supervisor *supervisor = supervisor_of(link);
    const Cell *cell = supervisor->executor.cell;
    MsgGuestHello hello = {
        .protocol = PROTOCOL_VERSION,
        .session = text_of(link->session),
        .secret = {(const char *)link->secret, sizeof(link->secret)},
        .peer = text_of(PEER),
        .branches = {.write = write_branches, .source = &supervisor->branches},
        .has_running = cell,
        .commands = {.write = commands_write, .source = &supervisor->commands},
    };

    if (cell)
        hello.running = (MsgGuestRunning){.id = cell->id,
                                          .branch = cell->branch_number,
                                          .run_id = text_of(cell->run_id),
                                          .code_hash = cell->code_hash};
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

static void on_lost(Link *link)
{
    Supervisor *supervisor = supervisor_of(link);

    if (wait_for_controller(supervisor) < 0)
        log_error("no memory for a timer", "purpose=orphan");
    executor_on_controller_lost(&supervisor->executor);
    tasks_on_controller_lost(&supervisor->tasks);
    files_process_on_controller_lost(&supervisor->files);
    commands_on_controller_lost(&supervisor->commands);
    dials_on_controller_lost(&supervisor->dials);
    pip_on_controller_lost(&supervisor->pip);
}

int controller_connect(Supervisor *supervisor)
{
    Link *link = &supervisor->link;
    int r = link_init(link, supervisor->loop);

    if (r < 0)
        return r;
    link->on_open = on_open;
    link->on_message = on_message;
    link->on_lost = on_lost;
    r = wait_for_controller(supervisor);
    if (r == 0)
        link_connect(link);
    return r;
}

void controller_disconnect(Supervisor *supervisor)
{
    if (!supervisor->link.loop)
        return; /* never connected */
    loop_timer_cancel(&supervisor->orphan);
    link_deinit(&supervisor->link);
}
