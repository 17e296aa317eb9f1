/* The commands about sessions. */
#include <errno.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"
#include "clients/c/json.h"
#include "clients/c/options.h"
#include "proto/base/fdio.h"

static void print_text(const char *key, const char *text)
{
    const msgpack_object object = {.type = MSGPACK_OBJECT_STR,
                                   .via.str = {.ptr = text, .size = (uint32_t)strlen(text)}};
    _cleanup_(buf_deinit) Buf json = BUF_NULL;

    if (json_write(&json, &object, JSON_PATH) == 0)
        printf("\"%s\": %.*s, ", key, (int)json.size, (const char *)buf_head(&json));
}

static void print_json(const LimpetOpened *opened)
{
    putchar('{');
    print_text("session", opened->session);
    print_text("instance", opened->instance);
    print_text("engine", opened->engine);
    printf("\"created\": %s}\n", opened->created ? "true" : "false");
}

void opened_print(const LimpetOpened *opened, bool json)
{
    if (json)
        print_json(opened);
    else
        printf("opened %s (%s)\n", opened->session, opened->engine);
}

/* ---- limpet open ---- */

typedef struct OpenValues {
    LimpetOptions options;
    char *restore; /* a file; or NULL */
    const char *const *bindings, *const *headers;
} OpenValues;

static const Option open_options[] = {
    OPTION_ROW('t', "timeout", OPTION_SECONDS, OpenValues, options.timeout, "SECONDS",
               "time limit of a call that sets none", .least = OPTION_ABOVE_ZERO, .value = "120"),
    OPTION_ROW(0, "restore", OPTION_TEXT, OpenValues, restore, "FILE",
               "restore the session from a file of 'limpet save', with its options unless given here",
               .completes = COMPLETE_FILE),
#define VALUES OpenValues
#include "clients/c/cli/container.def"
    BINDING_ROWS(OpenValues),
};

/* Hands over the options as the protocol has them, in a file without a name: headers may be secrets. */
static int pass_options(const LimpetOptions *options)
{
    _cleanup_(buf_deinit) Buf packed = BUF_NULL;
    MsgOptions said = options_say(options);
    int fd, r;

    said.data = text_of(options->data); /* with its "host:": the package checks it */
    r = body_encode(&packed, MsgOptions, &said);
    if (r < 0)
        return r;
    fd = memfd_create("limpet-options", 0);
    if (fd < 0)
        return -errno;
    r = write_all(fd, buf_head(&packed), packed.size);
    if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
        r = -errno;
    if (r == 0)
        return fd;
    close(fd);
    return r;
}

static int restore(char *file, char *session, const LimpetOptions *options)
{
    char word[] = "restore", number[16];
    char *operands[] = {word, file, session, number};
    Problem problem = PROBLEM_NULL;
    int r = env_check(options->env, &problem);

    if (r < 0) {
        fprintf(stderr, "limpet: BadRequest: %s\n", problem.text);
        return EXIT_SANDBOX;
    }
    r = pass_options(options);
    if (r < 0) {
        fprintf(stderr, "limpet: %s\n", strerror(-r));
        return EXIT_SANDBOX;
    }
    snprintf(number, sizeof(number), "%d", r);
    return become_python("limpet.saving", NULL, operands, ARRAY_SIZE(operands));
}

static int run_open(const void *values, char **operands, int n)
{
    const OpenValues *given = values;
    LimpetOptions options = given->options;
    _cleanup_(bindings_freep) LimpetBinding *bindings = NULL;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(freep) char *data = NULL;
    LimpetOpened opened;
    int r = cli_absolute(options.data, &data);

    if (r)
        return r;
    r = bindings_read(given->bindings, given->headers, &bindings);
    if (r)
        return r;
    options.data = data;
    options.bindings = bindings;
    if (given->restore)
        return restore(given->restore, operands[0], &options);
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    if (limpet_open(client, operands[0], &options, &opened))
        return cli_fail(client);
    printf("%s %s (%s)\n", opened.created ? "opened" : "attached to", opened.session, opened.engine);
    if (*opened.not_enforced && strcmp(opened.engine, "local") != 0)
        fprintf(stderr, "limpet: limits that this machine does not enforce: %s\n", opened.not_enforced);
    return 0;
}

const Command command_open = {
    .name = "open",
    .usage = "[OPTIONS] SESSION",
    .summary = "Opens a session, or attaches to it if it exists",
    .details = "\nOptions that differ from those of an open session are an error: close the session first.",
    .options = {open_options, ARRAY_SIZE(open_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .values_size = sizeof(OpenValues),
    .run = run_open,
};

/* ---- limpet close ---- */

int cli_close(LimpetClient *client, const char *session)
{
    char *out _cleanup_(freep) = NULL, *err _cleanup_(freep) = NULL;
    int r = limpet_close(client, session, &out, &err);

    fputs(out ? out : "", stdout);
    fputs(err ? err : "", stderr);
    return r;
}

static int run_close(LimpetClient *client, const void *values, char **operands, int n)
{
    int status = 0;

    for (int i = 0; i < n; i++)
        if (cli_close(client, operands[i]))
            status = cli_fail(client);
    return status;
}

const Command command_close = {
    .name = "close",
    .usage = "SESSION...",
    .summary = "Ends sessions and removes their containers; published artifacts stay",
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = -1,
    .run_connected = run_close,
};

/* ---- limpet ls ---- */

typedef struct LsValues {
    bool all;
    bool json;
} LsValues;

static const Option ls_options[] = {
    OPTION_ROW('a', "all", OPTION_FLAG, LsValues, all, NULL, "list the sessions of all users (root only)"),
    OPTION_ROW(0, "json", OPTION_FLAG, LsValues, json, NULL, "print the controller and the sessions as JSON"),
};

/* The first is shown when those of all users are. */
static const Column columns[] = {
    {"USER", false}, {"SESSION", false}, {"ENGINE", false}, {"STATUS", false},
    {"RUNS", true},  {"EPOCH", true},    {"MEMORY", true},  {"IDLE", true},
};

static void add_user(Table *table, int64_t user)
{
    const struct passwd *entry = user < 0 ? NULL : getpwuid((uid_t)user);

    if (entry)
        table_add(table, "%s", entry->pw_name);
    else
        table_add(table, "%" PRId64, user);
}

static int print_table(const LimpetSessions *list, bool all)
{
    Table table = {.columns = columns + !all, .n_columns = ARRAY_SIZE(columns) - !all};
    int status;

    for (size_t i = 0; i < list->n_sessions; i++) {
        const LimpetSession *s = &list->sessions[i];
        char memory[24], idle[48];

        if (all)
            add_user(&table, s->user);
        table_add(&table, "%s", s->session);
        table_add(&table, "%s", s->engine);
        table_add(&table, "%s", s->status);
        table_add(&table, "%" PRIu64, s->execution_count);
        table_add(&table, "%" PRIu64, s->epoch);
        table_add(&table, "%s", cli_size(memory, sizeof(memory), s->memory));
        table_add(&table, "%s", cli_seconds(idle, sizeof(idle), s->idle));
    }
    status = table_print(&table);
    if (!status && list->spares > 0)
        printf("%" PRIu64 " spare container%s ready\n", list->spares, list->spares == 1 ? "" : "s");
    return status;
}

static int run_ls(LimpetClient *client, const void *values, char **operands, int n)
{
    const LsValues *ls = values;
    _cleanup_(limpet_sessions_freep) LimpetSessions *list = NULL;

    if (ls->all ? limpet_sessions_all(client, &list) : limpet_sessions(client, &list))
        return cli_fail(client);
    return ls->json ? cli_print_json(limpet_sessions_json(list)) : print_table(list, ls->all);
}

const Command command_ls = {
    .name = "ls",
    .usage = "[OPTIONS]",
    .summary = "Lists your sessions and their branches",
    .options = {ls_options, ARRAY_SIZE(ls_options)},
    .values_size = sizeof(LsValues),
    .run_connected = run_ls,
};

/* ---- limpet vars ---- */

typedef struct VarsValues {
    const char *session;
    bool json;
} VarsValues;

static const Option vars_options[] = {
    OPTION_ROW('s', "session", OPTION_TEXT, VarsValues, session, "SESSION",
               "session; the same as the operand", .completes = COMPLETE_SESSION),
    OPTION_ROW(0, "json", OPTION_FLAG, VarsValues, json, NULL, "print the variables as JSON"),
};

static int ask_which(const LimpetSessions *list)
{
    fprintf(stderr, "limpet: %s\n",
            list->n_sessions ? "which session? Open sessions:" : "no session is open");
    for (size_t i = 0; i < list->n_sessions; i++)
        fprintf(stderr, "  %s\n", list->sessions[i].session);
    return EXIT_USAGE;
}

/* The only session there is. */
static int find_session(LimpetClient *client, LimpetSessions **list, const char **ret)
{
    if (limpet_sessions(client, list))
        return cli_fail(client);
    if ((*list)->n_sessions != 1)
        return ask_which(*list);
    *ret = (*list)->sessions[0].session;
    return 0;
}

static int run_vars(const void *values, char **operands, int n)
{
    const VarsValues *given = values;
    const char *session = n > 0 ? operands[0] : given->session;
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    _cleanup_(limpet_sessions_freep) LimpetSessions *list = NULL;
    _cleanup_(limpet_namespace_freep) LimpetNamespace *names = NULL;
    int status = 0;

    if (n > 0 && given->session) {
        fprintf(stderr, "limpet: name the session once\n");
        return EXIT_USAGE;
    }
    client = cli_connect();
    if (!client)
        return EXIT_SANDBOX;
    if (!session)
        status = find_session(client, &list, &session);
    if (status)
        return status;
    if (limpet_namespace(client, session, &names))
        return cli_fail(client);
    return given->json ? cli_print_json(limpet_namespace_json(names)) : show_variables(names);
}

const Command command_vars = {
    .name = "vars",
    .alias = "namespace",
    .usage = "[OPTIONS] [SESSION]",
    .summary = "Lists the variables of a session without running any of its code",
    .details =
        "\nNames that begin with an underscore are not listed. SESSION may be omitted if only one session is open.\n"
        "'limpet namespace' is the same command.",
    .options = {vars_options, ARRAY_SIZE(vars_options)},
    .operands_max = 1,
    .operands = {COMPLETE_SESSION},
    .values_size = sizeof(VarsValues),
    .run = run_vars,
};

/* ---- limpet sleep ---- */

static int run_sleep(LimpetClient *client, const void *values, char **operands, int n)
{
    for (int i = 0; i < n; i++)
        if (limpet_sleep(client, operands[i]))
            return cli_fail(client);
    return 0;
}

const Command command_sleep = {
    .name = "sleep",
    .usage = "SESSION...",
    .summary = "Saves sessions with everything in them and frees their memory; the next call wakes them",
    .details = "\nCalls that run or wait end first. A session in which programs run stays awake.",
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = -1,
    .run_connected = run_sleep,
};

/* ---- limpet reset ---- */

static int run_reset(LimpetClient *client, const void *values, char **operands, int n)
{
    uint64_t epoch;

    if (limpet_reset(client, operands[0], &epoch))
        return cli_fail(client);
    printf("epoch %" PRIu64 "\n", epoch);
    return 0;
}

const Command command_reset = {
    .name = "reset",
    .usage = "SESSION",
    .summary = "Ends the running call and starts a new interpreter; /session is kept",
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .run_connected = run_reset,
};

/* ---- limpet interrupt ---- */

static int run_interrupt(LimpetClient *client, const void *values, char **operands, int n)
{
    bool interrupted;

    if (limpet_interrupt(client, operands[0], &interrupted))
        return cli_fail(client);
    puts(interrupted ? "interrupted" : "nothing was running");
    return 0;
}

const Command command_interrupt = {
    .name = "interrupt",
    .usage = "SESSION",
    .summary = "Interrupts the running call of a session",
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 1,
    .run_connected = run_interrupt,
};

/* ---- limpet context ---- */

typedef struct ContextValues {
    const char *language, *cwd;
    bool json;
} ContextValues;

static const Option context_options[] = {
    OPTION_ROW('l', "language", OPTION_TEXT, ContextValues, language, "LANGUAGE",
               "language of its code, such as bash or javascript", .value = "python"),
    OPTION_ROW(0, "cwd", OPTION_TEXT, ContextValues, cwd, "DIR", "directory in the container where it starts",
               .value = "/session"),
    OPTION_ROW(0, "json", OPTION_FLAG, ContextValues, json, NULL, "print the context as JSON"),
};

static int run_context(LimpetClient *client, const void *values, char **operands, int n)
{
    const ContextValues *given = values;
    LimpetOpened opened;

    if (limpet_context(client, operands[0], n > 1 ? operands[1] : NULL, given->language, given->cwd, &opened))
        return cli_fail(client);
    opened_print(&opened, given->json);
    return 0;
}

const Command command_context = {
    .name = "context",
    .usage = "[OPTIONS] SESSION [NAME]",
    .summary = "Opens the context SESSION/NAME: variables of its own, in Python or another language",
    .details =
        "\nIt starts empty, or is attached to if it exists; the container and the files are those of SESSION. NAME\n"
        "defaults to the language. 'limpet run -s SESSION/NAME' runs code in it, and 'limpet run -s SESSION\n"
        "--language LANGUAGE' opens the context of a language as needed.",
    .options = {context_options, ARRAY_SIZE(context_options)},
    .operands = {COMPLETE_SESSION},
    .operands_min = 1,
    .operands_max = 2,
    .values_size = sizeof(ContextValues),
    .run_connected = run_context,
};

/* ---- limpet shutdown ---- */

typedef struct ShutdownValues {
    bool keep;
} ShutdownValues;

static const Option shutdown_options[] = {
    OPTION_ROW(0, "keep", OPTION_FLAG, ShutdownValues, keep, NULL,
               "keep the sessions and their variables for the next controller"),
};

static int run_shutdown(const void *values, char **operands, int n)
{
    const ShutdownValues *given = values;
    _cleanup_(limpet_freep) LimpetClient *client = limpet_new();

    if (!client) {
        fprintf(stderr, "limpet: out of memory\n");
        return EXIT_SANDBOX;
    }
    limpet_set_autostart(client, false);
    if (limpet_connect(client, NULL)) {
        bool gone = limpet_error(client)->number == LIMPET_UNAVAILABLE;

        cli_fail(client);
        return gone ? 0 : EXIT_SANDBOX;
    }
    return limpet_shutdown(client, given->keep) ? cli_fail(client) : 0;
}

const Command command_shutdown = {
    .name = "shutdown",
    .usage = "[OPTIONS]",
    .summary = "Ends all sessions and the controller; with --keep, only the controller",
    .details = "\nReturns when everything has ended. Succeeds if no controller is running.",
    .options = {shutdown_options, ARRAY_SIZE(shutdown_options)},
    .values_size = sizeof(ShutdownValues),
    .run = run_shutdown,
};
