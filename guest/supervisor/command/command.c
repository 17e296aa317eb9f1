#include "guest/supervisor/command/command.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "proto/base/clock.h"
#include "proto/base/log.h"

#define WORDS 256

/* ---- how it ended ---- */

/* Describes the end of a command that was asked to end. Returns the error's name. */
static const char *describe_request(MsgExecuted *record, const Command *command, char *words)
{
    bool late = command->cause == COMMAND_DEADLINE;
    int n = 0;

    record->status = text_of(late ? "timeout" : "interrupted");
    if (late)
        n = snprintf(words, WORDS, "the command did not end within %g s, and was ended", command->timeout);
    else
        n = snprintf(words, WORDS, "the command was interrupted");
    if (command->killed)
        snprintf(words + n, WORDS - (size_t)n, "; it went on for %g s more and was killed", LADDER_KILL);
    if (late)
        return command->killed ? "TimeoutKilled" : "Timeout";
    return command->killed ? "InterruptKilled" : "Interrupted";
}

static const char *describe_signal(MsgExecuted *record, int number, char *words)
{
    const char *name = sigabbrev_np(number);

    record->status = text_of("crashed");
    snprintf(words, WORDS, "the command was ended by signal %d (SIG%s)%s", number, name ? name : "?",
             number == SIGKILL ? ", as the kernel does when memory runs out" : "");
    return "Crashed";
}

static const char *describe_exit(MsgExecuted *record, int exit_code, char *words)
{
    record->status = text_of(exit_code == 0 ? "ok" : "error");
    snprintf(words, WORDS, "the command ended with exit code %d", exit_code);
    return exit_code == 0 ? NULL : "ExitStatus";
}

/* `words` has room for WORDS. */
static void set_outcome(MsgExecuted *record, const Command *command, char *words)
{
    int status = command->child.status;
    bool signaled = WIFSIGNALED(status);
    const char *name;

    if (command->cause != COMMAND_BY_ITSELF)
        name = describe_request(record, command, words);
    else if (signaled)
        name = describe_signal(record, WTERMSIG(status), words);
    else
        name = describe_exit(record, WEXITSTATUS(status), words);
    record->signal = signaled ? WTERMSIG(status) : NO_INT;
    record->exit_code = signaled ? NO_INT : WEXITSTATUS(status);
    record->has_error = name;
    record->error = (MsgPythonError){text_of(name), text_of(words), {"", 0}};
}

static int make_record(Command *command)
{
    const ChildProcess *child = &command->child;
    OutputWords output _cleanup_(output_words_deinit) = {0};
    char words[WORDS];
    MsgExecuted record = {
        .run_id = text_of(command->run_id),
        .code_hash = command->code_hash,
        .branch = command->branch,
        .state = text_of("kept"),
        .duration = (double)(child->over - child->began) / NSEC_PER_SEC,
        .usage = {.cpu = child->cpu, .peak_memory = child->peak_memory},
    };
    int r;

    set_outcome(&record, command, words);
    r = outputs_say(&record, command->output, &output);
    return r < 0 ? r : message_encode(&command->record, MSG_EXECUTED, command->id, MsgExecuted, &record);
}

static void command_send_record(const Command *command)
{
    link_send(command->context->link, &command->record);
}

static void command_say_started(const Command *command)
{
    link_reply(command->context->link, command->id, MsgNothing, &(MsgNothing){0});
}

/* ---- while it runs ---- */

static Command *of(ChildProcess *child)
{
    return container_of(child, Command, child);
}

static void update_flow(Command *command)
{
    bool takes = subscription_takes(&command->subscription) || command->cause != COMMAND_BY_ITSELF ||
                 command_is_over(command);

    for (unsigned i = 0; i < CHILD_STREAMS; i++)
        if (pipe_reader_pause(&command->child.readers[i], !takes) < 0)
            log_error("no memory for a pipe", "command=%s", command->run_id);
}

/* Takes output. Output that comes after the command's end is not its own any more. */
static void on_output(ChildProcess *child, unsigned stream, const uint8_t *bytes, size_t n)
{
    Command *command = of(child);

    if (command->record.size > 0 || command->settled)
        return;
    output_write(&command->output[stream - 1], bytes, n);
    if (command_in_background(command))
        background_output(&command->background, stream, bytes, n);
    subscription_output(&command->subscription, command->context->link, command->id, stream, bytes, n);
    if (!command_is_over(command))
        update_flow(command);
}

static void on_closed(ChildProcess *child)
{
    CommandContext *context = of(child)->context;

    context->changed(context);
}

static void on_limit(LoopTimer *timer);

/* Makes the record of a command that has ended. Processes that it started and did not end go on, unless it
 * was asked to end: then all of its group does. */
static void on_ended(ChildProcess *child)
{
    Command *command = of(child);
    int r;

    loop_timer_cancel(&command->limit);
    if (command->cause != COMMAND_BY_ITSELF)
        child_signal(child, SIGKILL);
    child_drain(child);
    r = make_record(command);
    outputs_deinit(command->output);
    update_flow(command);
    if (command_in_background(command))
        background_ended(&command->background);
    if (r == 0) {
        command_send_record(command);
        return;
    }
    link_refuse(command->context->link, command->id, ERR_INTERNAL, "the command's record cannot be made",
                strerror(-r));
    command->settled = true;
    command->context->changed(command->context);
}

static const ChildEvents child_events = {.output = on_output, .closed = on_closed, .ended = on_ended};

/* ---- its limit ---- */

static void set_limit(Command *command, double seconds)
{
    if (loop_timer_set(command->context->loop, &command->limit, clock_now() + clock_from_seconds(seconds),
                       on_limit) < 0)
        child_signal(&command->child, SIGKILL);
}

/* Asks a command to end. One that stands still is woken, so that it can obey. */
static void ask_to_end(Command *command, CommandCause cause, int number)
{
    command->cause = cause;
    child_signal(&command->child, number);
    child_signal(&command->child, SIGCONT);
    set_limit(command, LADDER_KILL);
    update_flow(command);
}

static void on_limit(LoopTimer *timer)
{
    Command *command = container_of(timer, Command, limit);

    if (command->cause == COMMAND_BY_ITSELF) {
        ask_to_end(command, COMMAND_DEADLINE, SIGTERM);
        return;
    }
    command->killed = true;
    child_signal(&command->child, SIGKILL);
}

static void command_interrupt(Command *command)
{
    if (!command_is_over(command) && command->cause == COMMAND_BY_ITSELF)
        ask_to_end(command, COMMAND_INTERRUPT, SIGINT);
}

static void command_credit(Command *command, uint64_t count)
{
    subscription_credit(&command->subscription, count);
    update_flow(command);
}

static void command_unattended(Command *command)
{
    subscription_lost(&command->subscription);
    update_flow(command);
    if (command_in_background(command))
        background_unattended(&command->background);
}

/* ---- its life ---- */

static void on_taken(PipeWriter *writer)
{
    Command *command = container_of(writer, Command, child.writer);

    background_taken(&command->background, writer);
}

/* Feeds the input that is there to be read first. */
static void feed_first(Command *command, Text input)
{
    PipeWriter *writer = &command->child.writer;

    if (input.size > 0)
        pipe_writer_write(writer, input.data,
                          input.size); /* one that does not read all of it is no failure */
    if (command_in_background(command))
        writer->on_taken = on_taken;
    else if (input.data)
        pipe_writer_end(writer);
}

static int start(Command *command, const MsgProgram *said, const MsgTerminal *terminal, Problem *problem)
{
    const CommandContext *context = command->context;
    CommandSpec program _cleanup_(command_spec_deinit) = {0};
    const ChildPlan plan = {
        .command_line = context->command_line,
        .program = &program,
        .mark = context->mark,
        .input = said->stdin.data || command_in_background(command),
        .terminal = terminal,
    };
    int r = command_spec_init(&program, said, context->command_line, context->environment, problem);

    if (r == 0)
        r = child_begin(&command->child, context->loop, &plan, problem);
    if (r < 0)
        return r;
    command_spec_describe(&program, command->line, sizeof(command->line));
    feed_first(command, said->stdin);
    return 0;
}

static int begin_command(Command *command, const msgpack_object_map *program, Problem *problem)
{
    MsgProgram said;
    int r = body_decode(&said, MsgProgram, program, problem);

    if (r == 0)
        r = start(command, &said, NULL, problem);
    if (r == 0)
        set_limit(command, command->timeout);
    return r;
}

static int begin_process(Command *command, const msgpack_object_map *program, Problem *problem)
{
    MsgLaunch said;
    int r = body_decode(&said, MsgLaunch, program, problem);

    if (r < 0)
        return r;
    background_init(&command->background, command->context->loop, command->context->link, said.name);
    return start(command, &said.program, said.has_terminal ? &said.terminal : NULL, problem);
}

static int begin(Command *command, const MsgExecOrder *asked, Problem *problem)
{
    return command_in_background(command) ? begin_process(command, asked->program.map, problem)
                                          : begin_command(command, asked->program.map, problem);
}

static Command *command_free(Command *command);

/* Starts it. NULL with a Problem. */
static Command *command_new(CommandContext *context, uint64_t id, const MsgExecOrder *asked, Problem *problem)
{
    Command *command = calloc(1, sizeof(*command));
    char stem[SPILL_STEM];

    if (!command) {
        problem_set(problem, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    list_init(&command->link);
    list_init(&command->background.questions);
    command->context = context;
    command->id = id;
    command->branch = asked->branch;
    command->code_hash = asked->code_hash;
    command->timeout = asked->timeout;
    memcpy(command->run_id, asked->run_id.data, MIN(asked->run_id.size, LIMIT_RUN_ID));
    subscription_begin(&command->subscription, asked->stream);
    snprintf(stem, sizeof(stem), "command-%s", command->run_id);
    outputs_init(command->output, context->limits, stem);
    child_init(&command->child, &child_events);
    if (begin(command, asked, problem) < 0)
        return command_free(command);
    return command;
}

static Command *command_free(Command *command)
{
    list_remove(&command->link);
    loop_timer_cancel(&command->limit);
    child_close(&command->child);
    background_deinit(&command->background);
    outputs_deinit(command->output);
    buf_deinit(&command->record);
    free(command);
    return NULL;
}

/* ---- all of them ---- */

/* Commands that have ended and left behind somebody who may still write: with one more the oldest pipes are
 * closed. */
#define LEFT_MAXIMUM 64

static Command *find(const Commands *all, uint64_t id)
{
    Command *command;

    list_foreach (command, (List *)&all->list, Command, link)
        if (command->id == id && !command->settled)
            return command;
    return NULL;
}

/* The newest of that name, and one that runs rather than one that has ended. Most have none: "" is nobody. */
static Command *commands_find(const Commands *all, Text process)
{
    Command *command, *found = NULL;

    list_foreach (command, (List *)&all->list, Command, link) {
        if (text_equal(process, command->run_id))
            return command;
        if (process.size > 0 && text_equal(process, command->background.name) &&
            (!found || command_is_over(found) || !command_is_over(command)))
            found = command;
    }
    return found;
}

/* ---- their ends ---- */

/* Returns whether a process is known after its end: one in the background can still be asked how it ended,
 * and for its output. */
static bool is_known(const Command *command)
{
    return command->settled && command_in_background(command);
}

static void on_wake(LoopIdle *idle)
{
    Commands *all = container_of(idle, Commands, wake);
    Command *command;
    size_t left = 0, known = 0;

    list_foreach (command, &all->list, Command, link) {
        left += command->settled;
        known += is_known(command);
    }
    list_foreach (command, &all->list, Command, link) {
        bool kept = !command->settled || (is_known(command) && known <= LIMIT_ENDED) ||
                    child_is_open(&command->child);

        known -= is_known(command) && known > LIMIT_ENDED;
        if (kept && !(command->settled && left > LEFT_MAXIMUM))
            continue;
        command_free(command);
        left--;
    }
}

static void on_changed(CommandContext *context)
{
    Commands *all = container_of(context, Commands, context);

    loop_idle_add(context->loop, &all->wake, on_wake);
}

/* Counts the commands that run, or whose record is not settled. */
static size_t count(const Commands *all)
{
    const Command *command;
    size_t n = 0;

    list_foreach (command, (List *)&all->list, Command, link)
        n += !command->settled;
    return n;
}

void commands_settled(Commands *all, uint64_t id)
{
    Command *command = find(all, id);

    if (!command || !command_is_over(command))
        return;
    command->settled = true;
    buf_deinit(&command->record);
    command->record = BUF_NULL;
    on_changed(&all->context);
}

/* ---- from the controller ---- */

static bool is_number(Text text)
{
    for (size_t i = 0; i < text.size; i++)
        if (!isdigit((unsigned char)text.data[i]))
            return false;
    return true;
}

/* Checks the name of a background process. Names of digits only are refused: they would be read as pids. */
static int check_name(const Commands *all, const MsgExecOrder *asked, Problem *problem)
{
    MsgLaunch said;
    const Command *command;
    int r = body_decode(&said, MsgLaunch, asked->program.map, problem);

    if (r < 0 || !said.name.data)
        return r;
    if (is_number(said.name))
        return problem_set(problem, ERR_BAD_REQUEST, "`name` is not empty, and no number");
    command = commands_find(all, said.name);
    if (!command || command_is_over(command))
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST,
                       "a process called '%.*s' runs already; choose another name, or end it first",
                       (int)said.name.size, said.name.data);
}

int commands_exec(Commands *all, const Message *message, Problem *problem)
{
    MsgExecOrder asked;
    Command *command;
    int r = body_decode(&asked, MsgExecOrder, &message->body, problem);

    if (r < 0)
        return r;
    if (!isnan(asked.timeout) && (asked.timeout <= 0 || asked.timeout > TIMEOUT_MAXIMUM))
        return problem_set(problem, ERR_BAD_REQUEST, "`timeout` is out of range");
    if (count(all) >= LIMIT_PROCESSES)
        return problem_set(problem, ERR_BUSY,
                           "%u commands and processes run in the session already; end one of them first",
                           LIMIT_PROCESSES);
    r = isnan(asked.timeout) ? check_name(all, &asked, problem) : 0;
    if (r < 0)
        return r;
    command = command_new(&all->context, message->id, &asked, problem);
    if (!command)
        return -EPROTO;
    list_append(&all->list, &command->link);
    if (command_in_background(command))
        command_say_started(command);
    return 0;
}

bool commands_interrupt(Commands *all, uint64_t id)
{
    Command *command = find(all, id);

    if (command)
        command_interrupt(command);
    return command;
}

bool commands_credit(Commands *all, uint64_t id, uint64_t count)
{
    Command *command = find(all, id);

    if (command)
        command_credit(command, count);
    return command;
}

void commands_tell_again(const Commands *all)
{
    const Command *command;

    list_foreach (command, (List *)&all->list, Command, link) {
        if (command_in_background(command) && !command->settled)
            command_say_started(command);
        if (command->record.size > 0)
            command_send_record(command);
    }
}

void commands_on_controller_lost(Commands *all)
{
    Command *command;

    list_foreach (command, &all->list, Command, link)
        command_unattended(command);
}

void commands_write(Writer *w, const void *source)
{
    const Commands *all = source;
    const Command *command;

    write_array(w, count(all));
    list_foreach (command, (List *)&all->list, Command, link)
        if (!command->settled)
            body_write(w, MsgGuestRunning,
                       (&(MsgGuestRunning){.id = command->id,
                                           .branch = command->branch,
                                           .run_id = text_of(command->run_id),
                                           .code_hash = command->code_hash,
                                           .background = command_in_background(command)}));
}

/* ---- from the processes ---- */

void commands_reaped(Commands *all, pid_t pid, int status, const struct rusage *usage)
{
    Command *command;

    list_foreach (command, &all->list, Command, link)
        if (child_reaped(&command->child, pid, status, usage))
            return;
}

size_t commands_leaders(const Commands *all, pid_t *ret, size_t most)
{
    const Command *command;
    size_t n = 0;

    list_foreach (command, (List *)&all->list, Command, link)
        if ((command->child.pid > 0 || child_is_open(&command->child)) && n < most)
            ret[n++] = command->child.group;
    return n;
}

/* ---- their life ---- */

void commands_init(Commands *all, Loop *loop, Link *link, const CommandLine *command_line,
                   const Environment *environment, const OutputLimits *limits)
{
    *all = (Commands){.context = {.loop = loop,
                                  .link = link,
                                  .command_line = command_line,
                                  .environment = environment,
                                  .limits = limits,
                                  .mark = command_line->same_user ? 0 : (gid_t)command_line->uid,
                                  .changed = on_changed}};
    list_init(&all->list);
}

void commands_deinit(Commands *all)
{
    Command *command;

    loop_idle_remove(&all->wake);
    list_foreach (command, &all->list, Command, link)
        command_free(command);
}

static int refuse_unknown(Text process, Problem *problem)
{
    return problem_set(problem, ERR_NO_SUCH_RUN,
                       "no process '%.*s' is running, or has ended lately; `processes` lists those there are",
                       (int)process.size, process.data);
}

static int refuse_ended(Text process, Problem *problem)
{
    return problem_set(problem, ERR_NO_SUCH_RUN, "the process '%.*s' has ended", (int)process.size,
                       process.data);
}

static int reply_nothing(const Commands *all, uint64_t id)
{
    link_reply(all->context.link, id, MsgNothing, &(MsgNothing){0});
    return 0;
}

/* ---- what is asked of one ---- */

static int check_signal(const MsgProcessSignal *asked, Problem *problem)
{
    if (asked->number >= 1 && asked->number <= (uint64_t)SIGRTMAX)
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST, "there is no signal of that number");
}

/* To what runs, or to what its group left behind. */
static int signal_command(const Command *command, const MsgProcessAsk *ask, Problem *problem)
{
    if (command_is_over(command) && !child_is_open(&command->child))
        return refuse_ended(ask->process, problem);
    if (!ask->signal.alone || command_is_over(command))
        child_signal(&command->child, (int)ask->signal.number);
    else
        kill(command->child.pid, (int)ask->signal.number);
    return 0;
}

/* Signals an orphan. It has no name, and is known by its number. */
static int signal_orphan(const Commands *all, const MsgProcessAsk *ask, Problem *problem)
{
    pid_t pid = orphans_find(all, ask->process);

    if (pid <= 0)
        return refuse_unknown(ask->process, problem);
    kill(pid, (int)ask->signal.number);
    return 0;
}

static int ask_signal(const Commands *all, const Command *command, const MsgProcessAsk *ask, Problem *problem)
{
    int r = check_signal(&ask->signal, problem);

    if (r < 0)
        return r;
    return command ? signal_command(command, ask, problem) : signal_orphan(all, ask, problem);
}

static int ask_resize(Command *command, const MsgProcessAsk *ask, Problem *problem)
{
    int r = child_resize(&command->child, &ask->resize);

    if (r == -ENOTTY)
        return problem_set(problem, ERR_BAD_REQUEST, "the process '%.*s' has no terminal",
                           (int)ask->process.size, ask->process.data);
    return 0; /* a process may end at any moment */
}

static int ask_background(Command *command, const MsgProcessAsk *ask, uint64_t id, Problem *problem)
{
    if (!command_in_background(command))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "'%.*s' is a command: `exec` gives it its input, and gets its output",
                           (int)ask->process.size, ask->process.data);
    if (ask->has_output)
        return background_tell(&command->background, id, &ask->output, problem);
    if (command_is_over(command))
        return refuse_ended(ask->process, problem);
    return background_send(&command->background, &command->child.writer, command->child.readers[0].terminal,
                           id, &ask->send, problem);
}

/* ---- which one is asked ---- */

static int check_one(const MsgProcessAsk *ask, Problem *problem)
{
    if (ask->has_send + ask->has_signal + ask->has_resize + ask->has_output == 1)
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST, "`process` asks for exactly one thing at a time");
}

int commands_process(Commands *all, const Message *message, Problem *problem)
{
    MsgProcessAsk ask;
    Command *command;
    int r = body_decode(&ask, MsgProcessAsk, &message->body, problem);

    if (r == 0)
        r = check_one(&ask, problem);
    if (r < 0)
        return r;
    command = commands_find(all, ask.process);
    if (ask.has_signal)
        r = ask_signal(all, command, &ask, problem);
    else if (!command)
        r = refuse_unknown(ask.process, problem);
    else if (ask.has_resize)
        r = ask_resize(command, &ask, problem);
    else
        return ask_background(command, &ask, message->id, problem);
    return r < 0 ? r : reply_nothing(all, message->id);
}
