/* A person, or what is piped in, attached to a process: limpet attach and limpet shell. */
#include "clients/c/cli/processes.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "proto/base/fdio.h"

/* ---- a terminal that passes every key on ---- */

static struct termios before;
static bool is_raw;

/* As it was before, where it was changed; also when this program exits. */
static void raw_end(void)
{
    if (is_raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    is_raw = false;
}

/* Standard input is one: from now on keys are read as they are typed, and none means anything here. */
static void raw_begin(void)
{
    static bool at_exit;
    struct termios raw;

    if (is_raw || tcgetattr(STDIN_FILENO, &before) < 0)
        return;
    raw = before;
    cfmakeraw(&raw);
    if (!at_exit)
        at_exit = atexit(raw_end) == 0;
    is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

/* ---- copying ---- */

typedef struct AttachTarget {
    const char *session;
    const char *process; /* its run_id */
    bool terminal;       /* the process has one, and so have we: what is typed goes to it, key by key */
    bool input;          /* otherwise: standard input goes to it, and its end */
    uint64_t since;      /* where its output begins */
} AttachTarget;

typedef enum AttachEnd {
    ATTACH_ENDED,    /* the process has ended */
    ATTACH_DETACHED, /* the process goes on; asked for */
    ATTACH_HUNG_UP,  /* the process goes on; we are to end */
    ATTACH_FAILED,   /* after a message */
} AttachEnd;

#define DETACH_KEY 0x1d /* Ctrl-] */
#define READ_SIZE  (64u << 10)

/* A child copies output, with a client of its own; this process is at the keyboard. */
typedef struct Attached {
    const AttachTarget *what;
    LimpetClient *client;
    int signals;
    pid_t copier;
    int copier_end; /* pidfd */
    bool reads;     /* standard input has not come to its end */
} Attached;

/* ---- what comes ---- */

/* Prints output. If nobody reads it, it is lost, and nothing else. */
static void print(const LimpetOutput *output)
{
    for (size_t i = 0; i < output->n_pieces; i++)
        write_all(output->pieces[i].stream == 2 ? STDERR_FILENO : STDOUT_FILENO, output->pieces[i].bytes,
                  output->pieces[i].size);
}

/* 1: that was the last of it. 0, or an error of the client. */
static int copy_some(LimpetClient *client, const AttachTarget *what, uint64_t *since)
{
    _cleanup_(limpet_output_freep) LimpetOutput *output = NULL;
    int r = limpet_process_output(client, what->session, what->process, *since, LIMPET_FOREVER, &output);

    if (r)
        return -1;
    if (output->since > *since)
        fprintf(stderr, "limpet: %llu bytes of the output are not kept any more%s\n",
                (unsigned long long)(output->since - *since), what->terminal ? "\r" : "");
    print(output);
    *since = output->next;
    return output->ended;
}

static AttachEnd copy_output(const AttachTarget *what)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    uint64_t since = what->since;
    int r = client ? 0 : -1;

    while (r == 0)
        r = copy_some(client, what, &since);
    if (r < 0 && client)
        cli_fail(client);
    return r < 0 ? ATTACH_FAILED : ATTACH_ENDED;
}

/* 0 or a negative errno. */
static int begin_copying(Attached *attached)
{
    pid_t parent = getpid();

    fflush(NULL);
    attached->copier = fork();
    if (attached->copier < 0)
        return -errno;
    if (attached->copier == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        _exit(getppid() == parent ? copy_output(attached->what) : ATTACH_FAILED);
    }
    attached->copier_end = pidfd_open(attached->copier, 0);
    return attached->copier_end < 0 ? -errno : 0;
}

/* Ends the copier, or waits for its end. Returns how it ended, ATTACH_FAILED if it was killed. */
static AttachEnd end_copying(Attached *attached, bool wait)
{
    int status = 0;

    close_fd(&attached->copier_end);
    if (attached->copier <= 0)
        return ATTACH_FAILED;
    if (!wait)
        kill(attached->copier, SIGKILL);
    waitpid(attached->copier, &status, 0);
    return WIFEXITED(status) ? (AttachEnd)WEXITSTATUS(status) : ATTACH_FAILED;
}

/* ---- what goes ---- */

/* A process that does not read any more, or has ended, is no failure: its end is told by the other thread. */
static void send_it(Attached *attached, const char *bytes, size_t n, bool end)
{
    if (limpet_process_send(attached->client, attached->what->session, attached->what->process, bytes, n,
                            end))
        attached->reads = attached->what->terminal;
}

/* Up to the key that detaches. Whether it was there. */
static bool type(Attached *attached, const char *bytes, size_t n)
{
    const char *key = attached->what->terminal ? memchr(bytes, DETACH_KEY, n) : NULL;

    if (!key || key > bytes)
        send_it(attached, bytes, key ? (size_t)(key - bytes) : n, false);
    return key;
}

/* True: detached. */
static bool read_input(Attached *attached)
{
    static char bytes[READ_SIZE];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));

    if (n > 0)
        return type(attached, bytes, (size_t)n);
    if (n < 0 && (errno == EINTR || errno == EAGAIN))
        return false;
    attached->reads = false;
    if (attached->what->terminal)
        return true; /* the terminal is gone */
    send_it(attached, NULL, 0, true);
    return false;
}

static void tell_size(const Attached *attached)
{
    LimpetTerminalSize size;

    if (attached->what->terminal && process_own_terminal(&size))
        limpet_process_resize(attached->client, attached->what->session, attached->what->process, &size);
}

/* True where it is to end. */
static bool take_signal(const Attached *attached, AttachEnd *ret)
{
    struct signalfd_siginfo info;

    if (read(attached->signals, &info, sizeof(info)) != sizeof(info))
        return false;
    if (info.ssi_signo == SIGWINCH) {
        tell_size(attached);
        return false;
    }
    *ret = info.ssi_signo == SIGINT ? ATTACH_DETACHED : ATTACH_HUNG_UP;
    return true;
}

static AttachEnd wait_for_end(Attached *attached)
{
    for (;;) {
        struct pollfd polled[] = {
            {.fd = attached->copier_end, .events = POLLIN},
            {.fd = attached->signals, .events = POLLIN},
            {.fd = attached->reads ? STDIN_FILENO : -1, .events = POLLIN},
        };
        AttachEnd end;

        if (poll(polled, ARRAY_SIZE(polled), -1) < 0 && errno != EINTR)
            return ATTACH_HUNG_UP;
        if (polled[0].revents)
            return ATTACH_ENDED;
        if (polled[1].revents && take_signal(attached, &end))
            return end;
        if (polled[2].revents && read_input(attached))
            return ATTACH_DETACHED;
    }
}

/* ---- all of it ---- */

/* They come as events. */
static int catch_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGWINCH);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

static AttachEnd copy_both_ways(Attached *attached)
{
    int r = begin_copying(attached);
    AttachEnd end = r == 0 ? wait_for_end(attached) : ATTACH_FAILED, copied;

    if (r < 0)
        fprintf(stderr, "limpet: cannot start a process: %s\n", strerror(-r));
    copied = end_copying(attached, end == ATTACH_ENDED);
    return end == ATTACH_ENDED ? copied : end;
}

/* Copies until one of them. Its output goes to standard output and standard error. */
static AttachEnd attach(const AttachTarget *what)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(closep) int signals = catch_signals();
    Attached attached = {.what = what,
                         .client = client,
                         .signals = signals,
                         .copier_end = -1,
                         .reads = what->terminal || what->input};
    AttachEnd end;

    if (!client)
        return ATTACH_FAILED;
    if (what->terminal)
        raw_begin();
    tell_size(&attached);
    end = copy_both_ways(&attached);
    raw_end();
    return end;
}

static int tell_result(const AttachTarget *what)
{
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    _cleanup_(limpet_result_freep) LimpetResult *result = NULL;

    if (!client)
        return EXIT_SANDBOX;
    if (limpet_result(client, what->process, LIMPET_FOREVER, &result))
        return cli_fail(client);
    return process_exit_status(result);
}

/* The same, and what is said and returned at its end: an exit status, that of the process where it has ended.
 */
static int attach_and_tell(const AttachTarget *what)
{
    switch (attach(what)) {
    case ATTACH_ENDED:
        return tell_result(what);
    case ATTACH_DETACHED:
        fprintf(stderr, "\nlimpet: detached; it goes on: `limpet attach %s %.8s`\n", what->session,
                what->process);
        return 0;
    case ATTACH_HUNG_UP:
        return EXIT_INTERRUPTED;
    case ATTACH_FAILED:
        break;
    }
    return EXIT_SANDBOX;
}

/* ---- limpet attach ---- */

typedef struct AttachValues {
    bool input;
} AttachValues;

static const Option attach_options[] = {
    OPTION_ROW('i', "input", OPTION_FLAG, AttachValues, input, NULL,
               "send it standard input, up to its end; a process with a terminal gets your keys anyway"),
};

static int run_attach(const void *values, char **operands, int n)
{
    const AttachValues *given = values;
    char process[PROCESS_NAME_SIZE];
    bool has_terminal;
    LimpetTerminalSize size;
    int r;

    {
        _cleanup_(limpet_freep) LimpetClient *client = cli_connect();

        if (!client)
            return EXIT_SANDBOX;
        r = process_find(client, operands[0], operands[1], process, &has_terminal);
    }
    if (r)
        return r;
    return attach_and_tell(&(AttachTarget){
        .session = operands[0],
        .process = process,
        .terminal = has_terminal && process_own_terminal(&size),
        .input = given->input,
    });
}

const Command command_attach = {
    .name = "attach",
    .usage = "[OPTIONS] SESSION PROCESS",
    .summary = "Shows the output of a process in the background, and passes on your input",
    .details =
        "\nPROCESS is an id or its beginning, a name, or a number, as `limpet ps` shows them. Recent output comes\n"
        "first. If both the process and you have a terminal, the process gets your keys, Ctrl-C included, and\n"
        "Ctrl-] detaches; otherwise Ctrl-C detaches. Detaching does not end the process.\n"
        "\n"
        "The exit status is that of the process when it ends, as for `limpet exec`.",
    .options = {attach_options, ARRAY_SIZE(attach_options)},
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 2,
    .operands_max = 2,
    .values_size = sizeof(AttachValues),
    .run = run_attach,
};

/* ---- limpet shell ---- */

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

static int run_shell(const void *values, char **operands, int n)
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
    .summary = "Opens a terminal in a session: bash, or another program",
    .details =
        "\nThe session is opened if it does not exist. The shell runs beside the code of the session, with its\n"
        "files and limits. Ctrl-] detaches: the shell keeps running, and `limpet attach` returns to it. Closing\n"
        "this terminal ends it.\n"
        "\n"
        "The exit status is that of the shell.",
    .operands = {COMPLETE_SESSION, COMPLETE_NOTHING},
    .operands_min = 1,
    .operands_max = -1,
    .run = run_shell,
};
