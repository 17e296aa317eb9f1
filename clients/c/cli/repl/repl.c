/* limpet repl: the prompt, its cells, and what they show. */
#include "clients/c/cli/repl/repl.h"

#include <errno.h>
#include <fcntl.h>
#include <langinfo.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/repl/block.h"
#include "clients/c/cli/repl/editor.h"
#include "clients/c/cli/show.h"
#include "clients/c/cli/terminal.h"
#include "proto/base/clock.h"
#include "proto/base/fdio.h"
#include "proto/limits.h"

/* ---- a session in use ---- */

struct Alive {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool stopped;
    double interval; /* seconds */
    char session[136];
};

/* False when it is to stop. */
static bool wait_for_turn(Alive *alive)
{
    uint64_t at = clock_now() + clock_from_seconds(alive->interval);
    const struct timespec until = clock_timespec(at);
    bool stopped;
    int r = 0;

    pthread_mutex_lock(&alive->mutex);
    while (!alive->stopped && r == 0)
        r = pthread_cond_clockwait(&alive->changed, &alive->mutex, CLOCK_MONOTONIC, &until);
    stopped = alive->stopped;
    pthread_mutex_unlock(&alive->mutex);
    return !stopped;
}

/* Keeps the session alive by asking for its variables, which runs no code. */
static void *keep_alive(void *context)
{
    Alive *alive = context;

    while (wait_for_turn(alive)) {
        _cleanup_(limpet_freep) LimpetClient *client = limpet_new();
        _cleanup_(limpet_namespace_freep) LimpetNamespace *names = NULL;

        if (!client)
            continue;
        limpet_set_autostart(client, false);
        if (limpet_connect(client, NULL) == 0 && hidden_session_idle(client, alive->session))
            limpet_namespace(client, alive->session, &names);
    }
    return NULL;
}

/* Signals are for the other thread. */
static int start_thread(Alive *alive)
{
    sigset_t all, before;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&alive->thread, NULL, keep_alive, alive);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -r;
}

/* Asks for something of the session now and then, on a thread and a connection of its own. NULL where that is
 * not needed, as the session never ends by itself, or cannot be had. */
static Alive *alive_start(const char *session, double ttl)
{
    Alive *alive = ttl == LIMPET_FOREVER ? NULL : calloc(1, sizeof(*alive));

    if (!alive)
        return NULL;
    pthread_mutex_init(&alive->mutex, NULL);
    pthread_cond_init(&alive->changed, NULL);
    alive->interval = ttl / 3;
    snprintf(alive->session, sizeof(alive->session), "%s", session);
    if (start_thread(alive) == 0)
        return alive;
    free(alive);
    return NULL;
}

/* A request that is under way is waited for; none waits for a call of somebody else. */
static void alive_stop(Alive *alive)
{
    if (!alive)
        return;
    pthread_mutex_lock(&alive->mutex);
    alive->stopped = true;
    pthread_cond_signal(&alive->changed);
    pthread_mutex_unlock(&alive->mutex);
    pthread_join(alive->thread, NULL);
    free(alive);
}

/* ---- figures ---- */

static void figures_deinit(Figures *figures)
{
    free(figures->directory);
    figures->directory = NULL;
}

static const struct {
    const char *mime_type, *suffix;
} pictures[] = {
    {"image/png", "png"},
    {"image/svg+xml", "svg"},
    {"image/jpeg", "jpg"},
    {"application/pdf", "pdf"},
};

static const LimpetValue *find(const LimpetDisplay *display, const char *mime_type)
{
    for (size_t i = 0; i < display->n_values; i++)
        if (strcmp(display->values[i].mime_type, mime_type) == 0)
            return &display->values[i];
    return NULL;
}

static int make_directory(Figures *figures)
{
    const char *temporary = getenv("TMPDIR");

    if (figures->directory)
        return 0;
    if (asprintf(&figures->directory, "%s/limpet-figures-XXXXXX",
                 temporary && *temporary ? temporary : "/tmp") < 0) {
        figures->directory = NULL;
        return -ENOMEM;
    }
    if (mkdtemp(figures->directory))
        return 0;
    figures_deinit(figures);
    return -errno;
}

static int save(Figures *figures, const LimpetValue *value, const char *suffix, char **ret)
{
    _cleanup_(closep) int fd = -1;
    int r = make_directory(figures);

    if (r < 0)
        return r;
    if (asprintf(ret, "%s/%u.%s", figures->directory, ++figures->count, suffix) < 0) {
        *ret = NULL;
        return -ENOMEM;
    }
    fd = open(*ret, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    return fd < 0 ? -errno : write_all(fd, value->data, value->size);
}

static void show_picture(Figures *figures, const LimpetDisplay *display)
{
    for (size_t i = 0; i < ARRAY_SIZE(pictures); i++) {
        const LimpetValue *value = find(display, pictures[i].mime_type);
        _cleanup_(freep) char *path = NULL;
        int r;

        if (!value || value->type == LIMPET_JSON)
            continue;
        r = save(figures, value, pictures[i].suffix, &path);
        if (r < 0)
            fprintf(stderr, "limpet: cannot save the figure: %s\n", strerror(-r));
        else
            printf("figure → %s\n", path);
        return;
    }
}

/* Shows a display on standard output: its text, and where its picture was saved. Of the value of an
 * expression the text is known already. */
static void figures_show(Figures *figures, const LimpetDisplay *display)
{
    const LimpetValue *text = find(display, "text/plain");

    if (text && text->type == LIMPET_TEXT && !display->is_result)
        printf("%s\n", text->data);
    if (!text && display->n_values > 0)
        printf("(a display of type %s)\n", display->values[0].mime_type);
    show_picture(figures, display);
    fflush(stdout);
}

/* ---- cells ---- */

typedef struct ShownCell {
    Repl *repl;
    char last; /* character on the terminal; 0: none yet */
} ShownCell;

static void on_output(void *context, int stream, const char *bytes, size_t size)
{
    ShownCell *cell = context;
    FILE *file = stream == 1 ? stdout : stderr;

    fwrite(bytes, 1, size, file);
    fflush(file);
    cell->last = bytes[size - 1];
}

static void end_line(ShownCell *cell)
{
    if (cell->last && cell->last != '\n')
        putchar('\n');
    cell->last = '\n';
    fflush(stdout);
}

/* An update of a display, as of a progress bar, would be one more line each time. */
static void on_display(void *context, const LimpetDisplay *display, bool update)
{
    ShownCell *cell = context;

    if (update)
        return;
    end_line(cell);
    figures_show(&cell->repl->figures, display);
}

/* The line that is typed ends with a line end, which the terminal shows. */
static char *on_input(void *context, const char *prompt, bool secret)
{
    ShownCell *cell = context;
    char *line = input_answer(NULL, prompt, secret);

    cell->last = line ? '\n' : ' ';
    return line;
}

/* A stack of Python says enough of an interrupt that was asked for here. */
static void show_end(const LimpetResult *result)
{
    if (result->status == LIMPET_INTERRUPTED && *result->traceback)
        colour_traceback(stderr, result->traceback);
    else
        show_error(result);
    show_state(result);
    show_files(result);
}

static void show_result(const Repl *repl, ShownCell *cell, const LimpetResult *result)
{
    end_line(cell);
    if (result->result)
        printf("%s\n", result->result);
    fflush(stdout);
    show_end(result);
    if (repl->time)
        printf("%.3g s\n", result->duration);
}

static void cell_run(Repl *repl, const char *code, size_t size)
{
    _cleanup_(limpet_result_freep) LimpetResult *result = NULL;
    ShownCell cell = {.repl = repl};
    LimpetRun run = {
        .session = repl->session,
        .code = code,
        .code_size = size,
        .timeout = repl->timeout,
        .on_output = on_output,
        .on_display = on_display,
        .on_input = on_input,
        .context = &cell,
    };
    int r;

    if (repl->gone && repl_open(repl))
        return;
    run.instance = *repl->instance ? repl->instance : NULL;
    sigint_catch(repl->client, false);
    r = limpet_run(repl->client, &run, &result);
    sigint_release();
    if (!r) {
        show_result(repl, &cell, result);
        return;
    }
    end_line(&cell);
    repl_complain(repl);
}

/* ---- limpet repl ---- */

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
        "\nWith -s, the prompt uses that session, shared with its other users; the session stays open afterwards.\n"
        "Without -s, the prompt opens a session of its own, which ':quit' and 'exit()' close. Ctrl-D detaches:\n"
        "the session stays open until its ttl, and 'limpet repl -s SESSION' returns to it.\n"
        "\n"
        "A block runs when it is complete; a blank line ends an indented block. Tab completes names and\n"
        "attributes, Ctrl-R searches the history, and Ctrl-C clears the line or interrupts the running cell\n"
        "without losing the variables. Pasted text runs only after Enter. input() and getpass() read from the\n"
        "terminal. Figures are saved to files, and the prompt prints their paths. ':help' lists the commands\n"
        "for checkpoints, branches and files.\n"
        "\n"
        "The history is stored in limpet/repl_history under $XDG_STATE_HOME or ~/.local/state.",
    .options = {repl_options, ARRAY_SIZE(repl_options)},
    .values_size = sizeof(ReplValues),
    .run = run,
};
