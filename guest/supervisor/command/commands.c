#include "guest/supervisor/command/commands.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>

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
Exec *commands_find(const Commands *all, Text process)
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
        bool kept = !exec->settled || (is_known(exec) && known <= LIMIT_ENDED) || job_is_open(&exec->job);

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

/* Checks the name of a command that is begun in the background. A number would be taken for that of a
 * process. */
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
        if (job_reaped(&exec->job, pid, status, usage))
            return;
}

size_t commands_leaders(const Commands *all, pid_t *ret, size_t most)
{
    const Exec *exec;
    size_t n = 0;

    list_foreach (exec, (List *)&all->execs, Exec, link)
        if ((exec->job.pid > 0 || job_is_open(&exec->job)) && n < most)
            ret[n++] = exec->job.group;
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
