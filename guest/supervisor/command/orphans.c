#include "guest/supervisor/command/orphans.h"

#include <errno.h>
#include <unistd.h>

#include "guest/supervisor/process/table.h"

/* Returns whether a command leads the process that has not ended: then it is no orphan. */
static bool is_led(const Commands *all, const Process *process)
{
    const Exec *exec;

    list_foreach (exec, (List *)&all->execs, Exec, link)
        if (!exec_is_over(exec) && exec->job.pid == process->pid)
            return true;
    return false;
}

/* Returns whether a command has left the process: it was in the session of one, or has the group that all of
 * them have. */
static bool is_left(const Commands *all, const Process *process)
{
    const Exec *exec;

    if (all->context.mark)
        return process_has_group(process->pid, all->context.mark);
    list_foreach (exec, (List *)&all->execs, Exec, link)
        if (exec->job.group == process->session)
            return true;
    return false;
}

int orphans_read(Orphans *ret, const Commands *all)
{
    _cleanup_(table_deinit) ProcessTable table = {0};
    pid_t self = getpid();
    int r = table_read(&table);

    ret->n = 0;
    for (size_t i = 0; r == 0 && i < table.n && ret->n < LIMIT_ORPHANS; i++) {
        const Process *process = &table.items[i];

        if (process->parent == self && !process->dying && !is_led(all, process) && is_left(all, process))
            ret->pids[ret->n++] = process->pid;
    }
    return r;
}

pid_t orphans_find(const Commands *all, Text number)
{
    Orphans orphans;
    uint64_t pid = 0;

    for (size_t i = 0; i < number.size; i++) {
        if (number.data[i] < '0' || number.data[i] > '9' || pid > INT32_MAX)
            return 0;
        pid = pid * 10 + (uint64_t)(number.data[i] - '0');
    }
    if (orphans_read(&orphans, all) < 0)
        return 0;
    for (size_t i = 0; i < orphans.n; i++)
        if ((uint64_t)orphans.pids[i] == pid)
            return orphans.pids[i];
    return 0;
}
