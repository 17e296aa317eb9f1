/* limpet run */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/code.h"
#include "clients/c/cli/input.h"
#include "clients/c/cli/show.h"
#include "clients/c/cli/sigint.h"
#include "proto/base/buf.h"
#include "proto/limits.h"

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
               "what happens to the variables when the code fails: keep or rollback", .value = "keep",
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
    char last;
} RunOutput;

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    RunOutput *output = context;
    FILE *file = stream == 1 ? stdout : stderr;

    fwrite(bytes, 1, size, file);
    fflush(file);
    if (stream == 1)
        output->last = bytes[size - 1];
}

static void print_result(const LimpetResult *result, const RunOutput *output, bool quiet)
{
    if (result->result)
        printf("%s%s\n", output->last && output->last != '\n' ? "\n" : "", result->result);
    fflush(stdout);
    show_error(result);
    show_state(result);
    if (!quiet)
        show_files(result);
}

static int exit_status(LimpetStatus status)
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

    return statuses[status];
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
    RunOutput output = {0};
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
    else
        print_result(result, &output, values->quiet);
    return r ? r : exit_status(result->status);
}

static int run(const void *values, char **operands, int n)
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
        "\nPrints the output of the code while it runs, then the value of the last expression. Tracebacks "
        "and the\n"
        "files that the call creates ('container path → host path') go to standard error. Ctrl-C interrupts "
        "the\n"
        "code; a second Ctrl-C stops waiting for it. If the variables were rolled back or lost, a line on\n"
        "standard error says so.\n"
        "\n"
        "Exit status: 0 success, 1 error in the code, 124 timeout, 125 failure of the sandbox, 130 "
        "interrupted,\n"
        "137 interpreter lost (out of memory, killed, crashed, or ended by the code itself).",
    .options = {run_options, ARRAY_SIZE(run_options)},
    .operands = {COMPLETE_FILE},
    .operands_max = 1,
    .values_size = sizeof(RunValues),
    .run = run,
};
