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
static const char *describe_request(MsgExecuted *record, const Exec *exec, char *words)
{
    bool late = exec->cause == EXEC_DEADLINE;
    int n = 0;

    record->status = text_of(late ? "timeout" : "interrupted");
    if (late)
        n = snprintf(words, WORDS, "the command did not end within %g s, and was ended", exec->timeout);
    else
        n = snprintf(words, WORDS, "the command was interrupted");
    if (exec->killed)
        snprintf(words + n, WORDS - (size_t)n, "; it went on for %g s more and was killed", LADDER_KILL);
    if (late)
        return exec->killed ? "TimeoutKilled" : "Timeout";
    return exec->killed ? "InterruptKilled" : "Interrupted";
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
static void set_outcome(MsgExecuted *record, const Exec *exec, char *words)
{
    int status = exec->child.status;
    bool signaled = WIFSIGNALED(status);
    const char *name;

    if (exec->cause != EXEC_BY_ITSELF)
        name = describe_request(record, exec, words);
    else if (signaled)
        name = describe_signal(record, WTERMSIG(status), words);
    else
        name = describe_exit(record, WEXITSTATUS(status), words);
    record->signal = signaled ? WTERMSIG(status) : NO_INT;
    record->exit_code = signaled ? NO_INT : WEXITSTATUS(status);
    record->has_error = name;
    record->error = (MsgPythonError){text_of(name), text_of(words), {"", 0}};
}

static int make_record(Exec *exec)
{
    const ChildProcess *child = &exec->child;
    OutputWords output _cleanup_(output_words_deinit) = {0};
    char words[WORDS];
    MsgExecuted record = {
        .run_id = text_of(exec->run_id),
        .code_hash = exec->code_hash,
        .branch = exec->branch,
        .state = text_of("kept"),
        .duration = (double)(child->over - child->began) / NSEC_PER_SEC,
        .usage = {.cpu = child->cpu, .peak_memory = child->peak_memory},
    };
    int r;

    set_outcome(&record, exec, words);
    r = outputs_say(&record, exec->output, &output);
    return r < 0 ? r : message_encode(&exec->record, MSG_EXECUTED, exec->id, MsgExecuted, &record);
}

static void exec_send_record(const Exec *exec)
{
    link_send(exec->context->link, &exec->record);
}

static void exec_say_started(const Exec *exec)
{
    link_reply(exec->context->link, exec->id, MsgNothing, &(MsgNothing){0});
}

/* ---- while it runs ---- */

static Exec *of(ChildProcess *child)
{
    return container_of(child, Exec, child);
}

static void update_flow(Exec *exec)
{
    bool takes =
        subscription_takes(&exec->subscription) || exec->cause != EXEC_BY_ITSELF || exec_is_over(exec);

    for (unsigned i = 0; i < CHILD_STREAMS; i++)
        if (pipe_reader_pause(&exec->child.readers[i], !takes) < 0)
            log_error("no memory for a pipe", "command=%s", exec->run_id);
}

/* Takes output. Output that comes after the command's end is not its own any more. */
static void on_output(ChildProcess *child, unsigned stream, const uint8_t *bytes, size_t n)
{
    Exec *exec = of(child);

    if (exec->record.size > 0 || exec->settled)
        return;
    output_write(&exec->output[stream - 1], bytes, n);
    if (exec_in_background(exec))
        background_output(&exec->background, stream, bytes, n);
    subscription_output(&exec->subscription, exec->context->link, exec->id, stream, bytes, n);
    if (!exec_is_over(exec))
        update_flow(exec);
}

static void on_closed(ChildProcess *child)
{
    ExecContext *context = of(child)->context;

    context->changed(context);
}

static void on_limit(LoopTimer *timer);

/* Makes the record of a command that has ended. Processes that it started and did not end go on, unless it
 * was asked to end: then all of its group does. */
static void on_ended(ChildProcess *child)
{
    Exec *exec = of(child);
    int r;

    loop_timer_cancel(&exec->limit);
    if (exec->cause != EXEC_BY_ITSELF)
        child_signal(child, SIGKILL);
    child_drain(child);
    r = make_record(exec);
    outputs_deinit(exec->output);
    update_flow(exec);
    if (exec_in_background(exec))
        background_ended(&exec->background);
    if (r == 0) {
        exec_send_record(exec);
        return;
    }
    link_refuse(exec->context->link, exec->id, ERR_INTERNAL, "the command's record cannot be made",
                strerror(-r));
    exec->settled = true;
    exec->context->changed(exec->context);
}

static const ChildEvents child_events = {.output = on_output, .closed = on_closed, .ended = on_ended};

/* ---- its limit ---- */

static void set_limit(Exec *exec, double seconds)
{
    if (loop_timer_set(exec->context->loop, &exec->limit, clock_now() + clock_from_seconds(seconds),
                       on_limit) < 0)
        child_signal(&exec->child, SIGKILL);
}

/* Asks a command to end. One that stands still is woken, so that it can obey. */
static void ask_to_end(Exec *exec, ExecCause cause, int number)
{
    exec->cause = cause;
    child_signal(&exec->child, number);
    child_signal(&exec->child, SIGCONT);
    set_limit(exec, LADDER_KILL);
    update_flow(exec);
}

static void on_limit(LoopTimer *timer)
{
    Exec *exec = container_of(timer, Exec, limit);

    if (exec->cause == EXEC_BY_ITSELF) {
        ask_to_end(exec, EXEC_DEADLINE, SIGTERM);
        return;
    }
    exec->killed = true;
    child_signal(&exec->child, SIGKILL);
}

static void exec_interrupt(Exec *exec)
{
    if (!exec_is_over(exec) && exec->cause == EXEC_BY_ITSELF)
        ask_to_end(exec, EXEC_INTERRUPT, SIGINT);
}

static void exec_credit(Exec *exec, uint64_t count)
{
    subscription_credit(&exec->subscription, count);
    update_flow(exec);
}

static void exec_unattended(Exec *exec)
{
    subscription_lost(&exec->subscription);
    update_flow(exec);
    if (exec_in_background(exec))
        background_unattended(&exec->background);
}

/* ---- its life ---- */

static void on_taken(PipeWriter *writer)
{
    Exec *exec = container_of(writer, Exec, child.writer);

    background_taken(&exec->background, writer);
}

/* Feeds the input that is there to be read first. */
static void feed_first(Exec *exec, Text input)
{
    PipeWriter *writer = &exec->child.writer;

    if (input.size > 0)
        pipe_writer_write(writer, input.data,
                          input.size); /* one that does not read all of it is no failure */
    if (exec_in_background(exec))
        writer->on_taken = on_taken;
    else if (input.data)
        pipe_writer_end(writer);
}

static int start(Exec *exec, const MsgProgram *said, const MsgTerminal *terminal, Problem *problem)
{
    const ExecContext *context = exec->context;
    CommandSpec program _cleanup_(command_spec_deinit) = {0};
    const ChildPlan plan = {
        .command_line = context->command_line,
        .program = &program,
        .mark = context->mark,
        .input = said->stdin.data || exec_in_background(exec),
        .terminal = terminal,
    };
    int r = command_spec_init(&program, said, context->command_line, context->environment, problem);

    if (r == 0)
        r = child_begin(&exec->child, context->loop, &plan, problem);
    if (r < 0)
        return r;
    command_spec_describe(&program, exec->line, sizeof(exec->line));
    feed_first(exec, said->stdin);
    return 0;
}

static int begin_command(Exec *exec, const msgpack_object_map *program, Problem *problem)
{
    MsgProgram said;
    int r = body_decode(&said, MsgProgram, program, problem);

    if (r == 0)
        r = start(exec, &said, NULL, problem);
    if (r == 0)
        set_limit(exec, exec->timeout);
    return r;
}

static int begin_process(Exec *exec, const msgpack_object_map *program, Problem *problem)
{
    MsgLaunch said;
    int r = body_decode(&said, MsgLaunch, program, problem);

    if (r < 0)
        return r;
    background_init(&exec->background, exec->context->loop, exec->context->link, said.name);
    return start(exec, &said.program, said.has_terminal ? &said.terminal : NULL, problem);
}

static int begin(Exec *exec, const MsgExecOrder *asked, Problem *problem)
{
    return exec_in_background(exec) ? begin_process(exec, asked->program.map, problem)
                                    : begin_command(exec, asked->program.map, problem);
}

static Exec *exec_free(Exec *exec);

/* Starts it. NULL with a Problem. */
static Exec *exec_new(ExecContext *context, uint64_t id, const MsgExecOrder *asked, Problem *problem)
{
    Exec *exec = calloc(1, sizeof(*exec));
    char stem[SPILL_STEM];

    if (!exec) {
        problem_set(problem, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    list_init(&exec->link);
    list_init(&exec->background.questions);
    exec->context = context;
    exec->id = id;
    exec->branch = asked->branch;
    exec->code_hash = asked->code_hash;
    exec->timeout = asked->timeout;
    memcpy(exec->run_id, asked->run_id.data, MIN(asked->run_id.size, LIMIT_RUN_ID));
    subscription_begin(&exec->subscription, asked->stream);
    snprintf(stem, sizeof(stem), "exec-%s", exec->run_id);
    outputs_init(exec->output, context->limits, stem);
    child_init(&exec->child, &child_events);
    if (begin(exec, asked, problem) < 0)
        return exec_free(exec);
    return exec;
}

static Exec *exec_free(Exec *exec)
{
    list_remove(&exec->link);
    loop_timer_cancel(&exec->limit);
    child_close(&exec->child);
    background_deinit(&exec->background);
    outputs_deinit(exec->output);
    buf_deinit(&exec->record);
    free(exec);
    return NULL;
}

/* ---- all of them ---- */

/* Commands that have ended and left behind somebody who may still write: with one more the oldest pipes are
 * closed. */
#define LEFT_MAXIMUM 64

static Exec *find(const Commands *all, uint64_t id)
{
    Exec *exec;

    list_foreach (exec, (List *)&all->execs, Exec, link)
        if (exec->id == id && !exec->settled)
            return exec;
    return NULL;
}

/* The newest of that name, and one that runs rather than one that has ended. Most have none: "" is nobody. */
static Exec *commands_find(const Commands *all, Text process)
{
    Exec *exec, *found = NULL;

    list_foreach (exec, (List *)&all->execs, Exec, link) {
        if (text_equal(process, exec->run_id))
            return exec;
        if (process.size > 0 && text_equal(process, exec->background.name) &&
            (!found || exec_is_over(found) || !exec_is_over(exec)))
            found = exec;
    }
    return found;
}

/* ---- their ends ---- */

/* Returns whether a process is known after its end: one in the background can still be asked how it ended,
 * and for its output. */
static bool is_known(const Exec *exec)
{
    return exec->settled && exec_in_background(exec);
}

static void on_wake(LoopIdle *idle)
{
    Commands *all = container_of(idle, Commands, wake);
    Exec *exec;
    size_t left = 0, known = 0;

    list_foreach (exec, &all->execs, Exec, link) {
        left += exec->settled;
        known += is_known(exec);
    }
    list_foreach (exec, &all->execs, Exec, link) {
        bool kept = !exec->settled || (is_known(exec) && known <= LIMIT_ENDED) || child_is_open(&exec->child);

        known -= is_known(exec) && known > LIMIT_ENDED;
        if (kept && !(exec->settled && left > LEFT_MAXIMUM))
            continue;
        exec_free(exec);
        left--;
    }
}

static void on_changed(ExecContext *context)
{
    Commands *all = container_of(context, Commands, context);

    loop_idle_add(context->loop, &all->wake, on_wake);
}

/* Counts the commands that run, or whose record is not settled. */
static size_t count(const Commands *all)
{
    const Exec *exec;
    size_t n = 0;

    list_foreach (exec, (List *)&all->execs, Exec, link)
        n += !exec->settled;
    return n;
}

void commands_settled(Commands *all, uint64_t id)
{
    Exec *exec = find(all, id);

    if (!exec || !exec_is_over(exec))
        return;
    exec->settled = true;
    buf_deinit(&exec->record);
    exec->record = BUF_NULL;
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
    const Exec *exec;
    int r = body_decode(&said, MsgLaunch, asked->program.map, problem);

    if (r < 0 || !said.name.data)
        return r;
    if (is_number(said.name))
        return problem_set(problem, ERR_BAD_REQUEST, "`name` is not empty, and no number");
    exec = commands_find(all, said.name);
    if (!exec || exec_is_over(exec))
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST,
                       "a process called '%.*s' runs already; choose another name, or end it first",
                       (int)said.name.size, said.name.data);
}

int commands_exec(Commands *all, const Message *message, Problem *problem)
{
    MsgExecOrder asked;
    Exec *exec;
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
    exec = exec_new(&all->context, message->id, &asked, problem);
    if (!exec)
        return -EPROTO;
    list_append(&all->execs, &exec->link);
    if (exec_in_background(exec))
        exec_say_started(exec);
    return 0;
}

bool commands_interrupt(Commands *all, uint64_t id)
{
    Exec *exec = find(all, id);

    if (exec)
        exec_interrupt(exec);
    return exec;
}

bool commands_credit(Commands *all, uint64_t id, uint64_t count)
{
    Exec *exec = find(all, id);

    if (exec)
        exec_credit(exec, count);
    return exec;
}

void commands_tell_again(const Commands *all)
{
    const Exec *exec;

    list_foreach (exec, (List *)&all->execs, Exec, link) {
        if (exec_in_background(exec) && !exec->settled)
            exec_say_started(exec);
        if (exec->record.size > 0)
            exec_send_record(exec);
    }
}

void commands_on_controller_lost(Commands *all)
{
    Exec *exec;

    list_foreach (exec, &all->execs, Exec, link)
        exec_unattended(exec);
}

void commands_write(Writer *w, const void *source)
{
    const Commands *all = source;
    const Exec *exec;

    write_array(w, count(all));
    list_foreach (exec, (List *)&all->execs, Exec, link)
        if (!exec->settled)
            body_write(w, MsgGuestRunning,
                       (&(MsgGuestRunning){.id = exec->id,
                                           .branch = exec->branch,
                                           .run_id = text_of(exec->run_id),
                                           .code_hash = exec->code_hash,
                                           .background = exec_in_background(exec)}));
}

/* ---- from the processes ---- */

void commands_reaped(Commands *all, pid_t pid, int status, const struct rusage *usage)
{
    Exec *exec;

    list_foreach (exec, &all->execs, Exec, link)
        if (child_reaped(&exec->child, pid, status, usage))
            return;
}

size_t commands_leaders(const Commands *all, pid_t *ret, size_t most)
{
    const Exec *exec;
    size_t n = 0;

    list_foreach (exec, (List *)&all->execs, Exec, link)
        if ((exec->child.pid > 0 || child_is_open(&exec->child)) && n < most)
            ret[n++] = exec->child.group;
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
    list_init(&all->execs);
}

void commands_deinit(Commands *all)
{
    Exec *exec;

    loop_idle_remove(&all->wake);
    list_foreach (exec, &all->execs, Exec, link)
        exec_free(exec);
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
static int signal_exec(const Exec *exec, const MsgProcessAsk *ask, Problem *problem)
{
    if (exec_is_over(exec) && !child_is_open(&exec->child))
        return refuse_ended(ask->process, problem);
    if (!ask->signal.alone || exec_is_over(exec))
        child_signal(&exec->child, (int)ask->signal.number);
    else
        kill(exec->child.pid, (int)ask->signal.number);
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

static int ask_signal(const Commands *all, const Exec *exec, const MsgProcessAsk *ask, Problem *problem)
{
    int r = check_signal(&ask->signal, problem);

    if (r < 0)
        return r;
    return exec ? signal_exec(exec, ask, problem) : signal_orphan(all, ask, problem);
}

static int ask_resize(Exec *exec, const MsgProcessAsk *ask, Problem *problem)
{
    int r = child_resize(&exec->child, &ask->resize);

    if (r == -ENOTTY)
        return problem_set(problem, ERR_BAD_REQUEST, "the process '%.*s' has no terminal",
                           (int)ask->process.size, ask->process.data);
    return 0; /* a process may end at any moment */
}

static int ask_background(Exec *exec, const MsgProcessAsk *ask, uint64_t id, Problem *problem)
{
    if (!exec_in_background(exec))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "'%.*s' is a command: `exec` gives it its input, and gets its output",
                           (int)ask->process.size, ask->process.data);
    if (ask->has_output)
        return background_tell(&exec->background, id, &ask->output, problem);
    if (exec_is_over(exec))
        return refuse_ended(ask->process, problem);
    return background_send(&exec->background, &exec->child.writer, exec->child.readers[0].terminal, id,
                           &ask->send, problem);
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
    Exec *exec;
    int r = body_decode(&ask, MsgProcessAsk, &message->body, problem);

    if (r == 0)
        r = check_one(&ask, problem);
    if (r < 0)
        return r;
    exec = commands_find(all, ask.process);
    if (ask.has_signal)
        r = ask_signal(all, exec, &ask, problem);
    else if (!exec)
        r = refuse_unknown(ask.process, problem);
    else if (ask.has_resize)
        r = ask_resize(exec, &ask, problem);
    else
        return ask_background(exec, &ask, message->id, problem);
    return r < 0 ? r : reply_nothing(all, message->id);
}
