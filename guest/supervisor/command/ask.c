/* Questions about a process that the controller has had run. */
#include <errno.h>
#include <signal.h>
#include <string.h>

#include "guest/supervisor/command/commands.h"
#include "guest/supervisor/command/orphans.h"

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

/* ---- each of them ---- */

static int check_signal(const MsgProcessSignal *asked, Problem *problem)
{
    if (asked->number >= 1 && asked->number <= (uint64_t)SIGRTMAX)
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST, "there is no signal of that number");
}

/* To what runs, or to what its group left behind. */
static int signal_exec(const Exec *exec, const MsgProcessAsk *ask, Problem *problem)
{
    if (exec_is_over(exec) && !job_is_open(&exec->job))
        return refuse_ended(ask->process, problem);
    if (!ask->signal.alone || exec_is_over(exec))
        job_signal(&exec->job, (int)ask->signal.number);
    else
        kill(exec->job.pid, (int)ask->signal.number);
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
    int r = job_resize(&exec->job, &ask->resize);

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
    return background_send(&exec->background, &exec->job.feed, exec->job.taps[0].terminal, id, &ask->send,
                           problem);
}

/* ---- which it is ---- */

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
