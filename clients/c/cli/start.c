/* limpet start */
#include "clients/c/cli/processes.h"

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
    OPTION_ROW(0, "cwd", OPTION_TEXT, StartValues, cwd, "DIRECTORY", "where it runs, in the container",
               .value = "/session", .completes = COMPLETE_NOTHING),
    OPTION_ROW('e', "env", OPTION_PAIRS, StartValues, env, "NAME=VALUE",
               "environment besides the session's; may be given again", .completes = COMPLETE_NOTHING),
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

static int run(const void *values, char **operands, int n)
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
        "\n"
        "Prints the id of the process at once. It runs beside the code of the session, without a time limit, "
        "until it\n"
        "ends by itself, by `limpet kill`, or with the session. `limpet ps` lists the processes of a "
        "session, "
        "and\n"
        "`limpet attach` shows what one writes.",
    .options = {start_options, ARRAY_SIZE(start_options)},
    .operands = {COMPLETE_NOTHING},
    .operands_max = -1,
    .values_size = sizeof(StartValues),
    .run = run,
};
