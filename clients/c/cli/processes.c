#include "clients/c/cli/processes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#define PREFIX_LEAST 4 /* characters of an id that may stand for it */

typedef struct Meant {
    const LimpetProcess *process;
    size_t n;
} Meant;

static void take_if(Meant *found, const LimpetProcess *process, bool is_meant)
{
    if (!is_meant)
        return;
    found->process = process;
    found->n++;
}

static bool has_number(const LimpetProcess *process, const char *named)
{
    char *end;
    unsigned long long number = strtoull(named, &end, 10);

    return *named && !*end && process->pid == number;
}

static bool has_prefix(const LimpetProcess *process, const char *named)
{
    size_t n = strlen(named);

    return process->run_id && n >= PREFIX_LEAST && strncmp(process->run_id, named, n) == 0;
}

/* Looks for the process that is meant, among those that run or among the others. */
static Meant look(const LimpetProcesses *list, const char *named, bool running)
{
    Meant by_name = {0}, by_number = {0}, by_prefix = {0};

    for (size_t i = 0; i < list->n_processes; i++) {
        const LimpetProcess *process = &list->processes[i];

        if (process->running != running)
            continue;
        take_if(&by_name, process, process->name && strcmp(process->name, named) == 0);
        take_if(&by_number, process, has_number(process, named));
        take_if(&by_prefix, process, has_prefix(process, named));
    }
    if (by_name.n > 0)
        return (Meant){by_name.process, 1}; /* the newest */
    return by_number.n > 0 ? by_number : by_prefix;
}

int process_find(LimpetClient *client, const char *session, const char *named, char ret[PROCESS_NAME_SIZE],
                 bool *ret_terminal)
{
    _cleanup_(limpet_processes_freep) LimpetProcesses *list = NULL;
    Meant found;

    if (limpet_processes(client, session, &list))
        return cli_fail(client);
    found = look(list, named, true);
    if (found.n == 0)
        found = look(list, named, false);
    if (found.n != 1) {
        fprintf(stderr, "limpet: %s process of the session '%s' is called '%s'; `limpet ps %s` lists them\n",
                found.n ? "more than one" : "no", session, named, session);
        return EXIT_USAGE;
    }
    if (found.process->run_id)
        snprintf(ret, PROCESS_NAME_SIZE, "%s", found.process->run_id);
    else
        snprintf(ret, PROCESS_NAME_SIZE, "%llu", (unsigned long long)found.process->pid);
    if (ret_terminal)
        *ret_terminal = found.process->terminal;
    return 0;
}

int process_exit_status(const LimpetResult *result)
{
    switch (result->status) {
    case LIMPET_TIMEOUT:
        return EXIT_TIMEOUT;
    case LIMPET_INTERRUPTED:
        return EXIT_INTERRUPTED;
    case LIMPET_OOM:
        return EXIT_KILLED;
    case LIMPET_CRASHED:
        return 128 + result->signal;
    case LIMPET_FAILED:
        return EXIT_SANDBOX;
    default:
        return result->exit_code;
    }
}

bool process_own_terminal(LimpetTerminalSize *ret)
{
    struct winsize size;

    if (ioctl(STDIN_FILENO, TIOCGWINSZ, &size) < 0)
        return false;
    *ret = (LimpetTerminalSize){size.ws_row, size.ws_col};
    return true;
}
