/* limpet exec */
#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "clients/c/cli/processes.h"
#include "clients/c/cli/show.h"
#include "clients/c/cli/sigint.h"
#include "proto/base/buf.h"
#include "proto/limits.h"

typedef struct ExecValues {
    const char *session, *line, *cwd;
    char **env;
    double timeout;
    bool json, quiet;
} ExecValues;

static const Option exec_options[] = {
    OPTION_ROW('s', "session", OPTION_TEXT, ExecValues, session, "SESSION",
               "session to run in; opened if it does not exist", .completes = COMPLETE_SESSION),
    OPTION_ROW('c', "command", OPTION_TEXT, ExecValues, line, "LINE",
               "a line for bash, in place of a program"),
    OPTION_ROW('t', "timeout", OPTION_SECONDS, ExecValues, timeout, "SECONDS", "of this command",
               .least = OPTION_ABOVE_ZERO, .value = "120"),
    OPTION_ROW(0, "cwd", OPTION_TEXT, ExecValues, cwd, "DIRECTORY", "where it runs, in the container",
               .value = "/session", .completes = COMPLETE_NOTHING),
    OPTION_ROW('e', "env", OPTION_PAIRS, ExecValues, env, "NAME=VALUE",
               "environment besides the session's; may be given again", .completes = COMPLETE_NOTHING),
    OPTION_ROW(0, "json", OPTION_FLAG, ExecValues, json, NULL,
               "print the record of the command as one JSON object"),
    OPTION_ROW('q', "quiet", OPTION_FLAG, ExecValues, quiet, NULL,
               "do not list the files that the command made"),
};

/* Reads all that is piped to us. The library refuses more than the limit. */
static int read_input(Buf *ret, LimpetProgram *program)
{
    ssize_t n;

    if (isatty(STDIN_FILENO))
        return 0;
    do
        n = buf_read_fd(ret, STDIN_FILENO, LIMIT_STDIN + 1 - ret->size);
    while (n == -EINTR || (n > 0 && ret->size <= LIMIT_STDIN));
    if (n < 0 && n != -EBADF) {
        fprintf(stderr, "limpet: standard input: %s\n", strerror((int)-n));
        return EXIT_USAGE;
    }
    program->stdin_data = ret->size > 0 ? (const char *)buf_head(ret) : NULL;
    program->stdin_size = ret->size;
    return 0;
}

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    FILE *file = stream == 1 ? stdout : stderr;

    fwrite(bytes, 1, size, file);
    fflush(file);
}

/* Prints a result. A command's exit code that is not 0 is told by our own exit status alone. */
static int print_result(const LimpetResult *result, const ExecValues *values)
{
    int r = 0;

    if (values->json) {
        r = cli_print_json(limpet_result_json(result));
    } else {
        if (result->status != LIMPET_ERROR)
            show_error(result);
        if (!values->quiet)
            show_files(result);
    }
    return r ? r : process_exit_status(result);
}

/* Without a session the command gets one of its own. */
static int make_name(char *ret, size_t size)
{
    uint64_t random;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        fprintf(stderr, "limpet: no random number: %s\n", strerror(errno));
        return EXIT_SANDBOX;
    }
    snprintf(ret, size, "exec-%016llx", (unsigned long long)random);
    return 0;
}

static int exec_in(LimpetClient *client, const ExecValues *values, LimpetExec *exec)
{
    _cleanup_(limpet_result_freep) LimpetResult *result = NULL;
    LimpetOpened opened;

    if (limpet_open(client, exec->session, NULL, &opened))
        return cli_fail(client);
    exec->instance = opened.instance;
    if (!values->json)
        exec->on_output = on_output;
    sigint_catch(client, true);
    if (limpet_exec(client, exec, &result))
        return cli_fail(client);
    return print_result(result, values);
}

static int exec_and_print(const ExecValues *values, LimpetExec *exec)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    char name[32];
    int r;

    if (!client)
        return EXIT_SANDBOX;
    if (exec->session)
        return exec_in(client, values, exec);
    r = make_name(name, sizeof(name));
    if (r)
        return r;
    exec->session = name;
    r = exec_in(client, values, exec);
    limpet_close(client, name, NULL, NULL);
    exec->session = NULL;
    return r;
}

static int run(const void *values, char **operands, int n)
{
    const ExecValues *given = values;
    _cleanup_(buf_deinit) Buf input = BUF_NULL;
    LimpetExec exec = {
        .session = given->session,
        .timeout = given->timeout,
        .program = {.command = given->line,
                    .cwd = given->cwd,
                    .env = (const char *const *)given->env,
                    .argv = n > 0 ? (const char *const *)operands : NULL},
    };
    int r;

    if ((given->line != NULL) == (n > 0)) {
        fprintf(stderr, "limpet: give the command once: PROGRAM and its arguments, or -c LINE\n");
        return EXIT_USAGE;
    }
    r = read_input(&input, &exec.program);
    return r ? r : exec_and_print(given, &exec);
}

const Command command_exec = {
    .name = "exec",
    .usage = "[OPTIONS] -c LINE | -- PROGRAM [ARGUMENT]...",
    .summary = "Runs a command in a session, or in a clean container of its own",
    .details =
        "\n"
        "The command runs beside the code of the session. Its output is printed as it is written, and the\n"
        "files that it creates ('container path → host path') go to standard error. Its standard input is\n"
        "that of `limpet exec`, if piped. Ctrl-C interrupts the command; a second Ctrl-C stops waiting for "
        "it.\n"
        "\n"
        "Exit status: that of the command; 124 timeout, 125 failure of the sandbox, 130 interrupted, 137 "
        "out\n"
        "of memory, 128 + N ended by signal N.",
    .options = {exec_options, ARRAY_SIZE(exec_options)},
    .operands = {COMPLETE_NOTHING},
    .operands_max = -1,
    .values_size = sizeof(ExecValues),
    .run = run,
};
