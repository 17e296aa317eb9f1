/* The list of processes. */
#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest/supervisor/command/command.h"
#include "guest/supervisor/process/processes.h"
#include "proto/base/clock.h"
#include "proto/base/proc.h"

/* ---- orphans: what commands and processes left behind when they ended, and nobody waits for ---- */

typedef struct Orphans {
    pid_t pids[LIMIT_ORPHANS];
    size_t n;
} Orphans;

/* Returns whether a command leads the process that has not ended: then it is no orphan. */
static bool is_led(const Commands *all, const Process *process)
{
    const Command *command;

    list_foreach (command, (List *)&all->list, Command, link)
        if (!command_is_over(command) && command->child.pid == process->pid)
            return true;
    return false;
}

/* Returns whether a command has left the process: it was in the session of one, or has the group that all of
 * them have. */
static bool is_left(const Commands *all, const Process *process)
{
    const Command *command;

    if (all->context.mark)
        return process_has_group(process->pid, all->context.mark);
    list_foreach (command, (List *)&all->list, Command, link)
        if (command->child.group == process->session)
            return true;
    return false;
}

/* Reads the orphans there are now. 0 or a negative errno. */
static int orphans_read(Orphans *ret, const Commands *all)
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

/* ---- the list ---- */

typedef struct ProcessListing {
    const Commands *all;
    Orphans orphans;
} ProcessListing;

/* A command that has ended is the business of whoever asked for it. */
static bool is_listed(const Command *command)
{
    return command_in_background(command) || !command_is_over(command);
}

static void write_command(Writer *w, const Command *command)
{
    bool over = command_is_over(command);
    bool signaled = over && WIFSIGNALED(command->child.status);
    const char *name = command->background.name;
    const MsgProcessRow row = {
        .run_id = text_of(command->run_id),
        .name = text_of(*name ? name : NULL),
        .kind = text_of(command_in_background(command) ? "process" : "command"),
        .pid = (uint64_t)command->child.group,
        .command = text_of(command->line),
        .running = !over,
        .terminal = command->child.readers[0].terminal,
        .rows = command->child.terminal.rows,
        .columns = command->child.terminal.columns,
        .age = (double)(clock_now() - command->child.began) / NSEC_PER_SEC,
        .exit_code = over && !signaled ? WEXITSTATUS(command->child.status) : NO_INT,
        .signal = signaled ? WTERMSIG(command->child.status) : NO_INT,
        .output = command_in_background(command) ? command->background.history.total : NO_UINT,
    };

    body_write(w, MsgProcessRow, &row);
}

/* Its arguments, each of which ends in a NUL, or its name where it has none. */
static size_t read_command(pid_t pid, char *to, size_t size)
{
    ssize_t n = proc_read(pid, "cmdline", to, size);

    if (n <= 0)
        n = proc_read(pid, "comm", to, size);
    while (n > 0 && (to[n - 1] == '\0' || to[n - 1] == '\n'))
        n--;
    for (ssize_t i = 0; i < n; i++)
        if (to[i] == '\0' || to[i] == '\n')
            to[i] = ' ';
    return (size_t)MAX(n, (ssize_t)0);
}

static void write_orphan(Writer *w, pid_t pid)
{
    Buf text _cleanup_(buf_deinit) = BUF_NULL;
    char command[LIMIT_NOTE / 3]; /* bytes that are no text grow to three */
    MsgProcessRow row = {
        .kind = text_of("orphan"),
        .pid = (uint64_t)pid,
        .command = text_of(""),
        .running = true,
        .rows = NO_UINT,
        .columns = NO_UINT,
        .age = NAN,
        .exit_code = NO_INT,
        .signal = NO_INT,
        .output = NO_UINT,
    };

    if (utf8_append_replaced(&text, command, read_command(pid, command, sizeof(command))) == 0 &&
        text.size > 0)
        row.command = (Text){(const char *)buf_head(&text), text.size};
    body_write(w, MsgProcessRow, &row);
}

static void write_rows(Writer *w, const void *source)
{
    const ProcessListing *listing = source;
    const Command *command;
    size_t n = listing->orphans.n;

    list_foreach (command, (List *)&listing->all->list, Command, link)
        n += is_listed(command);
    write_array(w, n);
    list_foreach (command, (List *)&listing->all->list, Command, link)
        if (is_listed(command))
            write_command(w, command);
    for (size_t i = 0; i < listing->orphans.n; i++)
        write_orphan(w, listing->orphans.pids[i]);
}

int commands_list(const Commands *all, const Message *message, Problem *problem)
{
    ProcessListing listing = {.all = all};
    const MsgProcessesReply reply = {.processes = {.write = write_rows, .source = &listing}};
    int r = orphans_read(&listing.orphans, all);

    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "the processes cannot be read: %s", strerror(-r));
    link_reply(all->context.link, message->id, MsgProcessesReply, &reply);
    return 0;
}

/* Orphans that cannot be read count as running. */
bool commands_run(const Commands *all)
{
    const Command *command;
    Orphans orphans;

    list_foreach (command, (List *)&all->list, Command, link)
        if (!command_is_over(command))
            return true;
    return orphans_read(&orphans, all) < 0 || orphans.n > 0;
}
