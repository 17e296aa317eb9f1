/* The commands about processes in the background. */
#include "clients/c/cli/processes.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "clients/c/cli/show.h"

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

/* ---- limpet start ---- */

typedef struct StartValues {
    const char *session, *line, *cwd, *name;
    char **env;
    bool terminal;
} StartValues;

static const Option start_options[] = {
    OPTION_ROW('s', "session", OPTION_TEXT, StartValues, session, "SESSION",
               "session to run in; opened if it does not exist", .completes = COMPLETE_SESSION),
    OPTION_ROW('c', "command", OPTION_TEXT, StartValues, line, "LINE",
               "a line for bash, in place of a program"),
    OPTION_ROW('n', "name", OPTION_TEXT, StartValues, name, "NAME", "name of the process",
               .completes = COMPLETE_NOTHING),
    OPTION_ROW('t', "terminal", OPTION_FLAG, StartValues, terminal, NULL, "give it a terminal of its own"),
    OPTION_ROW(0, "cwd", OPTION_TEXT, StartValues, cwd, "DIRECTORY", "working directory, in the container",
               .value = "/session", .completes = COMPLETE_NOTHING),
    OPTION_ROW('e', "env", OPTION_PAIRS, StartValues, env, "NAME=VALUE",
               "environment besides the session's; may be repeated", .completes = COMPLETE_NOTHING),
};

static int start(const LimpetStart *given)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetStart said = *given;
    char run_id[LIMPET_RUN_ID_SIZE];
    LimpetOpened opened;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_open(client, said.session, NULL, &opened))
        return cli_fail(client);
    said.instance = opened.instance;
    if (limpet_start(client, &said, run_id))
        return cli_fail(client);
    puts(run_id);
    return 0;
}

static int run_start(const void *values, char **operands, int n)
{
    const StartValues *given = values;
    const LimpetTerminalSize size = {24, 80};
    const LimpetStart said = {
        .session = given->session,
        .program = {.command = given->line,
                    .cwd = given->cwd,
                    .env = (const char *const *)given->env,
                    .argv = n > 0 ? (const char *const *)operands : NULL},
        .name = given->name,
        .terminal = given->terminal ? &size : NULL,
    };

    if (!given->session) {
        fprintf(stderr, "limpet: name the session with -s SESSION: the process lives as long as that does\n");
        return EXIT_USAGE;
    }
    if ((given->line != NULL) == (n > 0)) {
        fprintf(stderr, "limpet: give the command once: PROGRAM and its arguments, or -c LINE\n");
        return EXIT_USAGE;
    }
    return start(&said);
}

const Command command_start = {
    .name = "start",
    .usage = "[OPTIONS] -s SESSION -c LINE | -- PROGRAM [ARGUMENT]...",
    .summary = "Starts a command of a session in the background",
    .details =
        "\nPrints the id of the process at once. It runs beside the code of the session, without a time limit, until it\n"
        "ends by itself, by `limpet kill`, or with the session. `limpet ps` lists the processes of a session, and\n"
        "`limpet attach` shows its output.",
    .options = {start_options, ARRAY_SIZE(start_options)},
    .operands = {COMPLETE_NOTHING},
    .operands_max = -1,
    .values_size = sizeof(StartValues),
    .run = run_start,
};

/* ---- limpet ps ---- */

static const Option ps_options[] = {
    OPTION_ROW(0, "json", OPTION_FLAG, JsonValues, json, NULL, "print the processes as JSON"),
};

static const Column columns[] = {
    {"ID", false},     {"NAME", false}, {"KIND", false},    {"PID", true},
    {"STATUS", false}, {"AGE", true},   {"COMMAND", false},
};

static void add_status(Table *table, const LimpetProcess *process)
{
    if (process->has_exit_code)
        table_add(table, "exit %d", process->exit_code);
    else if (process->has_signal)
        table_add(table, "signal %d", process->signal);
    else
        table_add(table, "running");
}

static void add(Table *table, const LimpetProcess *process)
{
    char age[48] = "";

    table_add(table, "%.8s", process->run_id ? process->run_id : "");
    table_add(table, "%s", process->name ? process->name : "");
    table_add(table, "%s", process->kind);
    table_add(table, "%" PRIu64, process->pid);
    add_status(table, process);
    table_add(table, "%s", isnan(process->age) ? "" : cli_seconds(age, sizeof(age), process->age));
    table_add(table, "%s", process->command);
}

static int print_table(const LimpetProcesses *list)
{
    Table table = {.columns = columns, .n_columns = ARRAY_SIZE(columns)};

    for (size_t i = 0; i < list->n_processes; i++)
        add(&table, &list->processes[i]);
    return table_print(&table);
}

static int run_ps(LimpetClient *client, const void *values, char **operands, int n)
{
    const JsonValues *given = values;
    _cleanup_(limpet_processes_freep) LimpetProcesses *list = NULL;

    if (limpet_processes(client, operands[0], &list))
        return cli_fail(client);
    return given->json ? cli_print_json(limpet_processes_json(list)) : print_table(list);
}

const Command command_ps = {
    .name = "ps",
    .usage = "[OPTIONS] SESSION",
    .summary = "Lists the commands and processes of a session",
    .details =
        "\nA `process` was started with `limpet start` or `limpet shell`, and is listed for a while after its end.\n"
        "A `command` runs under `limpet exec`. An `orphan` was left behind by one of these.",
    .options = {ps_options, ARRAY_SIZE(ps_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(JsonValues),
    .run_connected = run_ps,
};

/* ---- limpet kill ---- */

typedef struct KillValues {
    const char *signal;
    bool alone;
} KillValues;

static const Option kill_options[] = {
    OPTION_ROW('s', "signal", OPTION_TEXT, KillValues, signal, "SIGNAL", "its name, as KILL, or its number",
               .value = "TERM", .completes = COMPLETE_NOTHING),
    OPTION_ROW(0, "alone", OPTION_FLAG, KillValues, alone, NULL,
               "signal only this process, not its children"),
};

/* 0 where there is none of that name. */
static int signal_of(const char *name)
{
    const char *bare = strncasecmp(name, "SIG", 3) == 0 ? name + 3 : name;
    char *end;
    long number = strtol(name, &end, 10);

    if (*name && !*end)
        return number > 0 && number <= SIGRTMAX ? (int)number : 0;
    for (int i = 1; i < SIGRTMIN; i++)
        if (sigabbrev_np(i) && strcasecmp(sigabbrev_np(i), bare) == 0)
            return i;
    return 0;
}

static int run_kill(const void *values, char **operands, int n)
{
    const KillValues *given = values;
    int number = given->signal ? signal_of(given->signal) : SIGTERM;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    char process[PROCESS_NAME_SIZE];
    int r;

    if (number == 0) {
        fprintf(stderr, "limpet: there is no signal '%s'; `kill -l` lists them\n", given->signal);
        return EXIT_USAGE;
    }
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    r = process_find(client, operands[0], operands[1], process, NULL);
    if (r)
        return r;
    return limpet_process_signal(client, operands[0], process, number, given->alone) ? cli_fail(client) : 0;
}

const Command command_kill = {
    .name = "kill",
    .usage = "[OPTIONS] SESSION PROCESS",
    .summary = "Sends a signal to a process of a session",
    .details =
        "\nPROCESS is an id or its beginning, a name, or a number, as `limpet ps` shows them. The signal goes to\n"
        "its process group.",
    .options = {kill_options, ARRAY_SIZE(kill_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(KillValues),
    .run = run_kill,
};
