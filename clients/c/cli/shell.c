/* limpet shell */
#include <signal.h>
#include <time.h>

#include "clients/c/cli/attached.h"

static const char *const shell[] = {"bash", NULL};

/* As the one we are in. */
static const char *const *environment(void)
{
    static const char *entries[2];
    static char term[128];
    const char *ours = getenv("TERM");

    snprintf(term, sizeof(term), "TERM=%s", ours && *ours ? ours : "xterm-256color");
    entries[0] = term;
    return entries;
}

static int begin(const char *session, const char *const *argv, const LimpetTerminalSize *size,
                 char ret[LIMPET_RUN_ID_SIZE])
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    LimpetOpened opened;
    LimpetStart start = {
        .session = session, .program = {.argv = argv, .env = environment()}, .terminal = size};

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_open(client, session, NULL, &opened))
        return cli_fail(client);
    start.instance = opened.instance;
    return limpet_start(client, &start, ret) ? cli_fail(client) : 0;
}

/* Whoever typed is gone: as where a terminal is closed. bash notes the signal when it is about to read a
 * line, and ends with the line or with a second signal; of a real terminal it would find that nothing more
 * can be read. */
static void hang_up(const AttachTarget *what)
{
    static const struct timespec moment = {.tv_nsec = 100 * 1000 * 1000};
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();

    if (!client || limpet_process_signal(client, what->session, what->process, SIGHUP, false))
        return;
    nanosleep(&moment, NULL);
    limpet_process_signal(client, what->session, what->process, SIGHUP, false);
}

static int run(const void *values, char **operands, int n)
{
    char process[LIMPET_RUN_ID_SIZE];
    const AttachTarget what = {.session = operands[0], .process = process, .terminal = true};
    LimpetTerminalSize size;
    int r;

    if (!process_own_terminal(&size)) {
        fprintf(stderr, "limpet: a shell needs a terminal; `limpet exec` runs a command without one\n");
        return EXIT_USAGE;
    }
    r = begin(operands[0], n > 1 ? (const char *const *)operands + 1 : shell, &size, process);
    if (r)
        return r;
    r = attach_and_tell(&what);
    if (r == EXIT_INTERRUPTED)
        hang_up(&what);
    return r;
}

const Command command_shell = {
    .name = "shell",
    .usage = "SESSION [-- PROGRAM [ARGUMENT]...]",
    .summary = "A terminal in a session: bash, or another program",
    .details = "\n"
               "The session is opened if it does not exist. The shell runs beside the code of the session, "
               "with its\n"
               "files and limits. Ctrl-] detaches: the shell keeps running, and `limpet attach` returns to "
               "it. Closing\n"
               "this terminal ends it.\n"
               "\n"
               "The exit status is that of the shell.",
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 1,
    .operands_max = -1,
    .run = run,
};
