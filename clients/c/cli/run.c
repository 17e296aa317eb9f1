/* The commands that run code, or a program, until it ends. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/processes.h"
#include "clients/c/cli/show.h"
#include "clients/c/cli/terminal.h"
#include "proto/base/buf.h"
#include "proto/limits.h"

int code_complain(const char *path, int error)
{
    fprintf(stderr, "limpet: %s: %s\n", path, strerror(error));
    return EXIT_USAGE;
}

int code_read(const char *file, Buf *ret)
{
    _cleanup_(closep) int opened = -1;
    int fd = STDIN_FILENO;
    ssize_t n;

    if (strcmp(file, "-") != 0)
        fd = opened = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return code_complain(file, errno);
    do
        n = buf_read_fd(ret, fd, LIMIT_CODE + 1 - ret->size);
    while (n == -EINTR || (n > 0 && ret->size <= LIMIT_CODE));
    return n < 0 ? code_complain(file, (int)-n) : 0;
}

/* ---- limpet run ---- */

typedef struct RunValues {
    const char *session, *code, *on_error, *language;
    double timeout;
    bool json, quiet;
    LimpetOptions options;
} RunValues;

static const Option run_options[] = {
    OPTION_ROW('s', "session", OPTION_TEXT, RunValues, session, "SESSION",
               "session to run in; opened if it does not exist", .completes = COMPLETE_SESSION),
    OPTION_ROW('c', "code", OPTION_TEXT, RunValues, code, "CODE", "code to run"),
    OPTION_ROW('t', "timeout", OPTION_SECONDS, RunValues, timeout, "SECONDS", "time limit of this call",
               .least = OPTION_ABOVE_ZERO, .value = "120"),
    OPTION_ROW('l', "language", OPTION_TEXT, RunValues, language, "LANGUAGE",
               "run it in the context of that language, such as bash; needs a session"),
    OPTION_ROW(0, "on-error", OPTION_TEXT, RunValues, on_error, "WHAT",
               "keep the variables of code that fails, or roll them back: keep or rollback", .value = "keep",
               .completes = COMPLETE_CHOICE, .choices = "keep|rollback"),
    OPTION_ROW(0, "json", OPTION_FLAG, RunValues, json, NULL, "print the record of the call as JSON"),
    OPTION_ROW('q', "quiet", OPTION_FLAG, RunValues, quiet, NULL,
               "do not list the files that the call creates"),
#define VALUES RunValues
#include "clients/c/cli/container.def"
};

static int find_code(const RunValues *values, char **operands, int n, Buf *buf, LimpetRun *run)
{
    int r;

    if ((values->code != NULL) == (n == 1)) {
        fprintf(stderr, "limpet: give the code exactly once: -c CODE, a FILE, or - for standard input\n");
        return EXIT_USAGE;
    }
    run->code = values->code;
    if (n == 0)
        return 0;
    r = code_read(operands[0], buf);
    /* Otherwise standard input is free for input(). */
    if (strcmp(operands[0], "-") == 0)
        run->on_input = NULL;
    run->code = buf->size > 0 ? (const char *)buf_head(buf) : "";
    run->code_size = buf->size;
    return r;
}

static bool any_option(const LimpetOptions *options)
{
    static const LimpetOptions none;

    return memcmp(options, &none, sizeof(none)) != 0;
}

/* Standard output stands where: whether a line is to be ended before something else is printed. */
typedef struct RunOutput {
    LimpetClient *client;
    char last;
} RunOutput;

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    RunOutput *output = context;

    output_write(output->client, stream == 1 ? stdout : stderr, bytes, size);
    if (stream == 1)
        output->last = bytes[size - 1];
}

static bool is_exit(const LimpetResult *result)
{
    return result->status == LIMPET_ERROR && strcmp(result->error_name, "SystemExit") == 0;
}

/* The status that sys.exit() asks for: as Python does, -1 where what it was given is a message. */
static int exit_asked(const LimpetResult *result)
{
    const char *text = result->error_message;
    char *end;
    long code = strtol(text, &end, 10);

    if (strcmp(text, "None") == 0)
        return 0;
    return *end ? -1 : (int)(code & 0xff);
}

static void print_result(const LimpetResult *result, const RunOutput *output, bool quiet)
{
    if (result->result)
        printf("%s%s\n", output->last && output->last != '\n' ? "\n" : "", result->result);
    fflush(stdout);
    if (!is_exit(result))
        show_error(result);
    else if (exit_asked(result) < 0)
        fprintf(stderr, "%s\n", result->error_message);
    show_state(result);
    if (!quiet)
        show_files(result);
}

static int exit_status(const LimpetResult *result)
{
    static const int statuses[] = {
        [LIMPET_OK] = 0,
        [LIMPET_ERROR] = 1,
        [LIMPET_TIMEOUT] = EXIT_TIMEOUT,
        [LIMPET_INTERRUPTED] = EXIT_INTERRUPTED,
        [LIMPET_EXITED] = EXIT_KILLED,
        [LIMPET_CRASHED] = EXIT_KILLED,
        [LIMPET_OOM] = EXIT_KILLED,
        [LIMPET_FAILED] = EXIT_SANDBOX,
    };

    if (is_exit(result))
        return exit_asked(result) < 0 ? 1 : exit_asked(result);
    return statuses[result->status];
}

/* The call runs in the context of that language. */
static int enter(LimpetClient *client, const char *language, LimpetRun *run, LimpetOpened *opened)
{
    if (limpet_context(client, opened->session, NULL, language, NULL, opened))
        return cli_fail(client);
    run->session = opened->session;
    run->instance = opened->instance;
    return 0;
}

/* Opens or attaches to the session of the call; without one its options belong to the call itself. */
static int prepare(LimpetClient *client, const LimpetOptions *options, LimpetRun *run, LimpetOpened *opened)
{
    if (!run->session) {
        run->options = any_option(options) ? options : NULL;
        return 0;
    }
    if (limpet_open(client, run->session, options, opened))
        return cli_fail(client);
    run->instance = opened->instance;
    return 0;
}

/* `run` refers to `opened` afterwards. */
static int run_and_print(const RunValues *values, const LimpetOptions *options, LimpetRun *run,
                         LimpetOpened *opened)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_result_freep) LimpetResult *result = NULL;
    RunOutput output = {.client = client};
    int r;

    if (!client)
        return EXIT_SANDBOX;
    r = prepare(client, options, run, opened);
    if (!r && values->language)
        r = enter(client, values->language, run, opened);
    if (r)
        return r;
    if (!values->json)
        run->on_output = on_output;
    run->context = &output;
    sigint_catch(client, true);
    if (limpet_run(client, run, &result))
        return cli_fail(client);
    if (values->json)
        r = cli_print_json(limpet_result_json(result));
    else if (output_is_read())
        print_result(result, &output, values->quiet);
    return r ? r : exit_status(result);
}

static int run_run(const void *values, char **operands, int n)
{
    const RunValues *given = values;
    LimpetOptions options = given->options;
    LimpetOpened opened;
    LimpetRun request = {.session = given->session,
                         .timeout = given->timeout,
                         .on_error = given->on_error,
                         .on_input = input_answer};
    _cleanup_(buf_deinit) Buf code = BUF_NULL;
    _cleanup_(freep) char *data = NULL;
    int r = find_code(given, operands, n, &code, &request);

    if (!r && given->language && !given->session) {
        fprintf(stderr, "limpet: --language needs a session: add -s SESSION\n");
        r = EXIT_USAGE;
    }
    if (!r)
        r = cli_absolute(options.data, &data);
    if (r)
        return r;
    options.data = data;
    return run_and_print(given, &options, &request, &opened);
}

const Command command_run = {
    .name = "run",
    .usage = "[OPTIONS] -c CODE | FILE | -",
    .summary = "Runs code in a session, or in a clean container of its own",
    .details =
        "\nPrints the output of the code while it runs, then the value of the last expression. Tracebacks and the\n"
        "files that the call creates ('container path → host path') go to standard error. Ctrl-C interrupts the\n"
        "code; a second Ctrl-C stops waiting for it. If the variables were rolled back or lost, a line on\n"
        "standard error says so.\n"
        "\n"
        "Exit status: 0 success, 1 error in the code, or what it gives sys.exit(); 124 timeout, 125 failure of the\n"
        "sandbox, 130 interrupted, 137 interpreter lost (out of memory, killed, crashed, or by os._exit()).",
    .options = {run_options, ARRAY_SIZE(run_options)},
    .operands = {COMPLETE_FILE},
    .operands_max = 1,
    .values_size = sizeof(RunValues),
    .run = run_run,
};

/* ---- limpet exec ---- */

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
    OPTION_ROW(0, "cwd", OPTION_TEXT, ExecValues, cwd, "DIRECTORY", "working directory, in the container",
               .value = "/session", .completes = COMPLETE_NOTHING),
    OPTION_ROW('e', "env", OPTION_PAIRS, ExecValues, env, "NAME=VALUE",
               "environment besides the session's; may be repeated", .completes = COMPLETE_NOTHING),
    OPTION_ROW(0, "json", OPTION_FLAG, ExecValues, json, NULL, "print the record of the command as JSON"),
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

static void exec_on_output(void *context, int stream, const char *bytes, size_t size)
{
    output_write(context, stream == 1 ? stdout : stderr, bytes, size);
}

/* Prints a result. A command's exit code that is not 0 is told by our own exit status alone. */
static int print_record(const LimpetResult *result, const ExecValues *values)
{
    int r = 0;

    if (values->json) {
        r = cli_print_json(limpet_result_json(result));
    } else if (output_is_read()) {
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
        exec->on_output = exec_on_output;
    exec->context = client;
    sigint_catch(client, true);
    if (limpet_exec(client, exec, &result))
        return cli_fail(client);
    return print_record(result, values);
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

static int run_exec(const void *values, char **operands, int n)
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
        "\nThe command runs beside the code of the session. Its output is printed as it is written, and the\n"
        "files that it creates ('container path → host path') go to standard error. Its standard input is\n"
        "that of `limpet exec`, if piped. Ctrl-C interrupts the command; a second Ctrl-C stops waiting for it.\n"
        "\n"
        "Exit status: that of the command; 124 timeout, 125 failure of the sandbox, 130 interrupted, 137 out\n"
        "of memory, 128 + N ended by signal N.",
    .options = {exec_options, ARRAY_SIZE(exec_options)},
    .operands = {COMPLETE_NOTHING},
    .operands_max = -1,
    .values_size = sizeof(ExecValues),
    .run = run_exec,
};
