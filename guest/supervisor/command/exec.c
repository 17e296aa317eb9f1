#include "guest/supervisor/command/exec.h"

#include <inttypes.h>
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
    int status = exec->job.status;
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
    const Job *job = &exec->job;
    OutputWords output _cleanup_(output_words_deinit) = {0};
    char words[WORDS];
    MsgExecuted record = {
        .run_id = text_of(exec->run_id),
        .code_hash = exec->code_hash,
        .branch = exec->branch,
        .state = text_of("kept"),
        .duration = (double)(job->over - job->began) / NSEC_PER_SEC,
        .usage = {.cpu = job->cpu, .peak_memory = job->peak_memory},
    };
    int r;

    set_outcome(&record, exec, words);
    r = outputs_say(&record, exec->output, &output);
    return r < 0 ? r : message_encode(&exec->record, MSG_EXECUTED, exec->id, MsgExecuted, &record);
}

void exec_send_record(const Exec *exec)
{
    link_send(exec->context->link, &exec->record);
}

void exec_say_started(const Exec *exec)
{
    link_reply(exec->context->link, exec->id, MsgNothing, &(MsgNothing){0});
}

/* ---- while it runs ---- */

static Exec *of(Job *job)
{
    return container_of(job, Exec, job);
}

static void update_flow(Exec *exec)
{
    bool takes = attention_takes(&exec->attention) || exec->cause != EXEC_BY_ITSELF || exec_is_over(exec);

    for (unsigned i = 0; i < JOB_STREAMS; i++)
        if (tap_pause(&exec->job.taps[i], !takes) < 0)
            log_error("no memory for a pipe", "command=%s", exec->run_id);
}

/* Takes output. Output that comes after the command's end is not its own any more. */
static void on_output(Job *job, unsigned stream, const uint8_t *bytes, size_t n)
{
    Exec *exec = of(job);

    if (exec->record.size > 0 || exec->settled)
        return;
    output_write(&exec->output[stream - 1], bytes, n);
    if (exec_in_background(exec))
        background_output(&exec->background, stream, bytes, n);
    attention_output(&exec->attention, exec->context->link, exec->id, stream, bytes, n);
    if (!exec_is_over(exec))
        update_flow(exec);
}

static void on_closed(Job *job)
{
    ExecContext *context = of(job)->context;

    context->changed(context);
}

static void on_limit(LoopTimer *timer);

/* Makes the record of a command that has ended. Processes that it started and did not end go on, unless it
 * was asked to end: then all of its group does. */
static void on_ended(Job *job)
{
    Exec *exec = of(job);
    int r;

    loop_timer_cancel(&exec->limit);
    if (exec->cause != EXEC_BY_ITSELF)
        job_signal(job, SIGKILL);
    job_drain(job);
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

static const JobEvents job_events = {.output = on_output, .closed = on_closed, .ended = on_ended};

/* ---- its limit ---- */

static void set_limit(Exec *exec, double seconds)
{
    if (loop_timer_set(exec->context->loop, &exec->limit, clock_now() + clock_from_seconds(seconds),
                       on_limit) < 0)
        job_signal(&exec->job, SIGKILL);
}

/* Asks a command to end. One that stands still is woken, so that it can obey. */
static void ask_to_end(Exec *exec, ExecCause cause, int number)
{
    exec->cause = cause;
    job_signal(&exec->job, number);
    job_signal(&exec->job, SIGCONT);
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
    job_signal(&exec->job, SIGKILL);
}

void exec_interrupt(Exec *exec)
{
    if (!exec_is_over(exec) && exec->cause == EXEC_BY_ITSELF)
        ask_to_end(exec, EXEC_INTERRUPT, SIGINT);
}

void exec_credit(Exec *exec, uint64_t count)
{
    attention_credit(&exec->attention, count);
    update_flow(exec);
}

void exec_unattended(Exec *exec)
{
    attention_lost(&exec->attention);
    update_flow(exec);
    if (exec_in_background(exec))
        background_unattended(&exec->background);
}

/* ---- its life ---- */

static void on_taken(Feed *feed)
{
    Exec *exec = container_of(feed, Exec, job.feed);

    background_taken(&exec->background, feed);
}

/* Feeds the input that is there to be read first. */
static void feed_first(Exec *exec, Text input)
{
    Feed *feed = &exec->job.feed;

    if (input.size > 0)
        feed_write(feed, input.data, input.size); /* one that does not read all of it is no failure */
    if (exec_in_background(exec))
        feed->on_taken = on_taken;
    else if (input.data)
        feed_end(feed);
}

static int start(Exec *exec, const MsgProgram *said, const MsgTerminal *terminal, Problem *problem)
{
    const ExecContext *context = exec->context;
    Program program _cleanup_(program_deinit) = {0};
    const JobPlan plan = {
        .command_line = context->command_line,
        .program = &program,
        .mark = context->mark,
        .input = said->stdin.data || exec_in_background(exec),
        .terminal = terminal,
    };
    int r = program_init(&program, said, context->command_line, context->environment, problem);

    if (r == 0)
        r = job_begin(&exec->job, context->loop, &plan, problem);
    if (r < 0)
        return r;
    program_describe(&program, exec->line, sizeof(exec->line));
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

Exec *exec_new(ExecContext *context, uint64_t id, const MsgExecOrder *asked, Problem *problem)
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
    attention_begin(&exec->attention, asked->stream);
    snprintf(stem, sizeof(stem), "exec-%s", exec->run_id);
    outputs_init(exec->output, context->limits, stem);
    job_init(&exec->job, &job_events);
    if (begin(exec, asked, problem) < 0)
        return exec_free(exec);
    return exec;
}

Exec *exec_free(Exec *exec)
{
    list_remove(&exec->link);
    loop_timer_cancel(&exec->limit);
    job_close(&exec->job);
    background_deinit(&exec->background);
    outputs_deinit(exec->output);
    buf_deinit(&exec->record);
    free(exec);
    return NULL;
}
