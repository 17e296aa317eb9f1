/* limpet repl */
#include <locale.h>
#include <langinfo.h>
#include <string.h>
#include <sys/random.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/repl/cell.h"
#include "clients/c/cli/repl/commands.h"
#include "clients/c/cli/repl/complete.h"
#include "clients/c/cli/repl/alive.h"
#include "clients/c/cli/repl/block.h"
#include "clients/c/cli/repl/editor.h"
#include "clients/c/cli/repl/repl.h"
#include "proto/limits.h"

DEFINE_CLEANUP(Editor *, editor_free);

typedef struct ReplValues {
    const char *session;
    double timeout;
    LimpetOptions options;
} ReplValues;

static const Option repl_options[] = {
    OPTION_ROW('s', "session", OPTION_TEXT, ReplValues, session, "SESSION",
               "session to work in; opened if it does not exist", .completes = COMPLETE_SESSION),
    OPTION_ROW('t', "timeout", OPTION_SECONDS, ReplValues, timeout, "SECONDS",
               "time limit of each cell (default: one day)", .least = OPTION_ABOVE_ZERO),
#define VALUES ReplValues
#include "clients/c/cli/container.def"
};

int repl_open(Repl *repl)
{
    LimpetOpened opened;

    if (limpet_open(repl->client, repl->origin, repl->options, &opened)) {
        cli_fail(repl->client);
        return EXIT_SANDBOX;
    }
    memcpy(repl->session, repl->origin, sizeof(repl->session));
    memcpy(repl->instance, opened.instance, sizeof(repl->instance));
    repl->ttl = opened.ttl;
    repl->gone = false;
    if (!repl->alive)
        repl->alive = alive_start(repl->origin, repl->ttl);
    return 0;
}

void repl_complain(Repl *repl)
{
    int number = limpet_error(repl->client)->number;

    cli_fail(repl->client);
    if (number != LIMPET_NO_SUCH_SESSION && number != LIMPET_SESSION_CLOSED)
        return;
    repl->gone = true;
    fprintf(stderr,
            "limpet: the session was closed or reached its ttl; the next cell starts a new session without "
            "the variables\n");
}

/* A name that nobody has. */
static int make_name(char *ret, size_t size)
{
    uint32_t random;

    if (getrandom(&random, sizeof(random), 0) != (ssize_t)sizeof(random)) {
        fprintf(stderr,
                "limpet: cannot make up a session name: no random numbers; name the session with -s\n");
        return EXIT_SANDBOX;
    }
    snprintf(ret, size, "repl-%08x", random);
    return 0;
}

static int begin(Repl *repl, const ReplValues *values)
{
    int r = 0;

    if (values->session && strlen(values->session) >= sizeof(repl->origin)) {
        fprintf(stderr, "limpet: the name of the session is too long\n");
        return EXIT_USAGE;
    }
    repl->own = !values->session;
    if (repl->own)
        r = make_name(repl->origin, sizeof(repl->origin));
    else
        strcpy(repl->origin, values->session);
    if (r)
        return r;
    repl->client = cli_connect();
    return repl->client ? repl_open(repl) : EXIT_SANDBOX;
}

static void greet(const Repl *repl)
{
    printf("Limpet %s, session %s (%s). Type :help for the commands of the prompt.\n", LIMPET_VERSION,
           repl->origin, limpet_controller(repl->client)->engine);
    fflush(stdout);
}

static void say_detached(const Repl *repl)
{
    char ttl[48];

    printf("Session %s stays open", repl->origin);
    if (repl->ttl != LIMPET_FOREVER)
        printf(" until it is idle for %s", cli_seconds(ttl, sizeof(ttl), repl->ttl));
    printf(". Return with 'limpet repl -s %s', end it with 'limpet close %s'.\n", repl->origin, repl->origin);
}

static void finish(Repl *repl)
{
    if (repl->gone)
        return;
    if (repl->keep)
        say_detached(repl);
    else if (cli_close(repl->client, repl->origin))
        cli_fail(repl->client);
    else
        printf("Session %s is closed.\n", repl->origin);
}

/* "try>>> " in a branch. */
static void make_prompt(const Repl *repl, char *ret, size_t size)
{
    const char *branch = repl->session + strlen(repl->origin);

    snprintf(ret, size, "%s>>> ", *branch == '/' ? branch + 1 : "");
}

/* As at Python's own prompt. */
static bool is_exit(const char *code)
{
    static const char *const words[] = {"exit", "exit()", "quit", "quit()"};

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcmp(code, words[i]) == 0)
            return true;
    return false;
}

static void enter(Repl *repl, const char *text, size_t size)
{
    if (*text == ':')
        commands_run(repl, text);
    else if (is_exit(text))
        commands_run(repl, ":quit");
    else if (!block_empty(text, size))
        cell_run(repl, text, size);
}

static int converse(Repl *repl)
{
    _cleanup_(editor_freep) Editor *editor = editor_new(complete_line, repl);
    _cleanup_(buf_deinit) Buf block = BUF_NULL;

    if (!editor) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    while (!repl->quit) {
        char prompt[160];

        make_prompt(repl, prompt, sizeof(prompt));
        switch (editor_read(editor, prompt, &block)) {
        case EDITOR_BLOCK:
            enter(repl, (const char *)buf_head(&block), block.size);
            break;
        case EDITOR_CLEARED:
            break;
        case EDITOR_END:
            putchar('\n');
            repl->quit = repl->keep = true;
            break;
        }
    }
    return 0;
}

/* The line editor counts characters, not bytes. */
static void set_locale(void)
{
    if (!setlocale(LC_CTYPE, "") || strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
        setlocale(LC_CTYPE, "C.UTF-8");
}

static int run_in(Repl *repl, const ReplValues *values)
{
    int r = begin(repl, values);

    if (!r) {
        greet(repl);
        r = converse(repl);
        finish(repl);
    }
    alive_stop(repl->alive);
    figures_deinit(&repl->figures);
    limpet_free(repl->client);
    return r;
}

static int run(const void *values, char **operands, int n)
{
    const ReplValues *given = values;
    LimpetOptions options = given->options;
    Repl repl = {.options = &options, .timeout = given->timeout ? given->timeout : TIMEOUT_MAXIMUM};
    _cleanup_(freep) char *data = NULL;
    int r;

    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
        fprintf(
            stderr,
            "limpet: the prompt needs a terminal; use 'limpet run -s SESSION -' to run code from a pipe\n");
        return EXIT_USAGE;
    }
    r = cli_absolute(options.data, &data);
    if (r)
        return r;
    options.data = data;
    if (!given->session && !options.ttl_action)
        options.ttl_action = "close";
    set_locale();
    return run_in(&repl, given);
}

const Command command_repl = {
    .name = "repl",
    .usage = "[OPTIONS]",
    .summary = "Opens a Python prompt on a session",
    .details =
        "\nWith -s, the prompt uses that session, shared with its other users; the session stays open "
        "afterwards.\n"
        "Without -s, the prompt opens a session of its own, which ':quit' and 'exit()' close. Ctrl-D "
        "detaches:\n"
        "the session stays open until its ttl, and 'limpet repl -s SESSION' returns to it.\n"
        "\n"
        "A block runs when it is complete; a blank line ends an indented block. Tab completes names and\n"
        "attributes, Ctrl-R searches the history, and Ctrl-C clears the line or interrupts the running cell\n"
        "without losing the variables. Pasted text runs only after Enter. input() and getpass() read from "
        "the\n"
        "terminal. Figures are saved to files, and the prompt prints their paths. ':help' lists the "
        "commands\n"
        "for checkpoints, branches and files.\n"
        "\n"
        "The history is stored in limpet/repl_history under $XDG_STATE_HOME or ~/.local/state.",
    .options = {repl_options, ARRAY_SIZE(repl_options)},
    .values_size = sizeof(ReplValues),
    .run = run,
};
