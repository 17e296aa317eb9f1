/* The commands of the prompt, which begin with a colon. */
#include "clients/c/cli/repl/repl.h"

#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <wordexp.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"

typedef struct ReplCommand {
    const char *name, *usage, *help;
    size_t min, max; /* arguments */
    void (*run)(Repl *repl, char **arguments, size_t n);
    /* Adds the words that may stand as an argument; or NULL. */
    void (*complete)(Repl *repl, size_t place, const char *prefix, Words *ret);
} ReplCommand;

/* ---- files ---- */

/* A line for each: its size, a blank, its path below /session. Hidden ones are ours or nobody's business.
 * Where the engine does not isolate there is no /session: it is the home there. */
static const char list_code[] =
    "exec('''\n"
    "import itertools, os\n"
    "root = '/session' if os.path.isdir('/session') else os.path.expanduser('~')\n"
    "def files():\n"
    "    for folder, folders, names in os.walk(root):\n"
    "        folders[:] = sorted(name for name in folders if name[0] != '.')\n"
    "        yield from (os.path.join(folder, name) for name in sorted(names) if name[0] != '.')\n"
    "for path in itertools.islice(filter(os.path.isfile, files()), 1000):\n"
    "    name = os.path.relpath(path, root)\n"
    "    print(os.path.getsize(path), name if name.isprintable() else ascii(name)[1:-1])\n"
    "''', {})";

static void add_row(Table *table, char *line)
{
    char *path = strchr(line, ' ');
    char size[24];

    if (!path)
        return;
    table_add(table, "%s", path + 1);
    table_add(table, "%s", cli_size(size, sizeof(size), strtoull(line, NULL, 10)));
}

static void files(Repl *repl, char **arguments, size_t n)
{
    static const Column columns[] = {{"FILE", false}, {"SIZE", true}};
    Table table = {.columns = columns, .n_columns = ARRAY_SIZE(columns)};
    _cleanup_(freep) char *printed = hidden_run(repl, list_code);
    char *rest = NULL;

    if (!printed) {
        fprintf(stderr, "limpet: cannot list the files while a call runs in the session\n");
        return;
    }
    for (char *line = strtok_r(printed, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        add_row(&table, line);
    table_print(&table);
}

static void put(Repl *repl, char **arguments, size_t n)
{
    const char *path = n > 1 ? arguments[1] : "";

    if (!cli_put(repl->client, arguments[0], repl->session, path))
        printf("%s → %s%s%s\n", arguments[0], *path == '/' ? "" : "/session/", path,
               !*path || path[strlen(path) - 1] == '/' ? basename(arguments[0]) : "");
}

static void get(Repl *repl, char **arguments, size_t n)
{
    const char *local = n > 1 ? arguments[1] : ".";

    if (!cli_get(repl->client, repl->session, arguments[0], local))
        printf("%s → %s\n", arguments[0], n > 1 ? local : basename(arguments[0]));
}

/* Files of this machine; a directory goes on. */
static void complete_local(const char *prefix, Words *ret)
{
    char pattern[4096];
    struct stat status;
    glob_t found = {0};

    if (snprintf(pattern, sizeof(pattern), "%s*", prefix) >= (int)sizeof(pattern))
        return;
    if (glob(pattern, GLOB_MARK | GLOB_NOSORT, NULL, &found) == 0)
        for (size_t i = 0; i < found.gl_pathc; i++)
            words_add(ret, found.gl_pathv[i], prefix);
    globfree(&found);
    if (ret->n == 1 && stat(ret->words[0], &status) == 0 && !S_ISDIR(status.st_mode))
        ret->after = ' ';
}

static void complete_session(Repl *repl, const char *prefix, Words *ret)
{
    _cleanup_(freep) char *printed = hidden_run(repl, list_code);
    char *rest = NULL;

    for (char *line = printed ? strtok_r(printed, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        if (strchr(line, ' '))
            words_add(ret, strchr(line, ' ') + 1, prefix);
}

static void complete_put(Repl *repl, size_t place, const char *prefix, Words *ret)
{
    if (place == 0)
        complete_local(prefix, ret);
}

static void complete_get(Repl *repl, size_t place, const char *prefix, Words *ret)
{
    if (place == 0)
        complete_session(repl, prefix, ret);
    else
        complete_local(prefix, ret);
}

static const ReplCommand repl_files = {
    .name = "files",
    .usage = "",
    .help = "list the files in /session",
    .run = files,
};
static const ReplCommand repl_put = {
    .name = "put",
    .usage = "LOCAL [PATH]",
    .help = "copy a file from this machine to /session",
    .min = 1,
    .max = 2,
    .run = put,
    .complete = complete_put,
};
static const ReplCommand repl_get = {
    .name = "get",
    .usage = "PATH [LOCAL]",
    .help = "copy a file from /session to this machine",
    .min = 1,
    .max = 2,
    .run = get,
    .complete = complete_get,
};

/* ---- state ---- */

static void vars(Repl *repl, char **arguments, size_t n)
{
    _cleanup_(limpet_namespace_freep) LimpetNamespace *names = NULL;

    if (limpet_namespace(repl->client, repl->session, &names))
        repl_complain(repl);
    else
        show_variables(names);
}

static void checkpoint(Repl *repl, char **arguments, size_t n)
{
    _cleanup_(limpet_taken_freep) LimpetTaken *taken = NULL;

    if (limpet_checkpoint(repl->client, repl->session, n > 0 ? arguments[0] : NULL, false, &taken))
        repl_complain(repl);
    else
        show_taken(taken);
}

static void checkpoints(Repl *repl, char **arguments, size_t n)
{
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;

    if (limpet_checkpoints(repl->client, repl->session, &list))
        repl_complain(repl);
    else
        show_checkpoints(list);
}

/* The last one that was taken by hand: automatic ones follow each cell. */
static const char *last_by_hand(const LimpetCheckpoints *list)
{
    const char *id = NULL;

    for (size_t i = 0; i < list->n_checkpoints; i++)
        if (!list->checkpoints[i].automatic)
            id = list->checkpoints[i].id;
    return id;
}

static void rollback(Repl *repl, char **arguments, size_t n)
{
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;
    _cleanup_(limpet_rollback_freep) LimpetRollback *back = NULL;
    const char *to = n > 0 ? arguments[0] : NULL;

    if (!to && limpet_checkpoints(repl->client, repl->session, &list)) {
        repl_complain(repl);
        return;
    }
    if (!to)
        to = last_by_hand(list);
    if (!to)
        fprintf(stderr,
                "limpet: there is no manual checkpoint; :checkpoint takes one, :checkpoints lists all\n");
    else if (limpet_rollback(repl->client, repl->session, to, &back))
        repl_complain(repl);
    else
        show_rollback(repl->session, back);
}

static void complete_checkpoint(Repl *repl, size_t place, const char *prefix, Words *ret)
{
    _cleanup_(limpet_checkpoints_freep) LimpetCheckpoints *list = NULL;

    if (place > 0 || limpet_checkpoints(repl->client, repl->session, &list))
        return;
    for (size_t i = 0; i < list->n_checkpoints; i++)
        words_add(ret, list->checkpoints[i].name ? list->checkpoints[i].name : list->checkpoints[i].id,
                  prefix);
}

static void move_to(Repl *repl, const char *session, const char *instance)
{
    char name[sizeof(repl->session)];

    snprintf(name, sizeof(name), "%s", session);
    snprintf(repl->session, sizeof(repl->session), "%s", name);
    snprintf(repl->instance, sizeof(repl->instance), "%s", instance);
    printf("cells run in %s\n", repl->session);
}

/* A branch that is open already is gone on with. */
static void branch(Repl *repl, char **arguments, size_t n)
{
    char name[2 * sizeof(repl->session)];
    LimpetOpened opened;

    if (n == 0) {
        move_to(repl, repl->origin, "");
        return;
    }
    if (!limpet_branch(repl->client, repl->session, arguments[0], NULL, &opened)) {
        move_to(repl, opened.session, opened.instance);
    } else if (limpet_error(repl->client)->number == LIMPET_BRANCH_EXISTS) {
        snprintf(name, sizeof(name), "%s/%s", repl->session, arguments[0]);
        move_to(repl, name, "");
    } else {
        repl_complain(repl);
    }
}

static void commit(Repl *repl, char **arguments, size_t n)
{
    char parent[sizeof(repl->session)];
    char *slash;

    snprintf(parent, sizeof(parent), "%s", repl->session);
    slash = strrchr(parent, '/');
    if (!slash) {
        fprintf(stderr, "limpet: the prompt is not in a branch; ':branch NAME' opens one\n");
        return;
    }
    *slash = 0;
    if (limpet_commit(repl->client, parent, repl->session, NULL, NULL))
        repl_complain(repl);
    else
        move_to(repl, parent, "");
}

static void reset(Repl *repl, char **arguments, size_t n)
{
    uint64_t epoch;

    if (limpet_reset(repl->client, repl->session, &epoch))
        repl_complain(repl);
    else
        printf("new interpreter, epoch %" PRIu64 "; /session is kept\n", epoch);
}

static const ReplCommand repl_vars = {
    .name = "vars",
    .usage = "",
    .help = "list the variables without running any code",
    .run = vars,
};
static const ReplCommand repl_checkpoint = {
    .name = "checkpoint",
    .usage = "[NAME]",
    .help = "take a checkpoint of the variables",
    .max = 1,
    .run = checkpoint,
};
static const ReplCommand repl_rollback = {
    .name = "rollback",
    .usage = "[ID|NAME]",
    .help = "restore a checkpoint; by default the last manual one",
    .max = 1,
    .run = rollback,
    .complete = complete_checkpoint,
};
static const ReplCommand repl_checkpoints = {
    .name = "checkpoints",
    .usage = "",
    .help = "list the checkpoints",
    .run = checkpoints,
};
static const ReplCommand repl_branch = {
    .name = "branch",
    .usage = "[NAME]",
    .help = "switch to a branch with its own variables; without NAME, back to the session",
    .max = 1,
    .run = branch,
};
static const ReplCommand repl_commit = {
    .name = "commit",
    .usage = "",
    .help = "make this branch the state of the session, and return to the session",
    .run = commit,
};
static const ReplCommand repl_reset = {
    .name = "reset",
    .usage = "",
    .help = "start a new interpreter; files are kept",
    .run = reset,
};

/* ---- the table ---- */

static void help(Repl *repl, char **arguments, size_t n);

static void toggle_time(Repl *repl, char **arguments, size_t n)
{
    repl->time = !repl->time;
    printf("timing of cells is %s\n", repl->time ? "on" : "off");
}

static void quit(Repl *repl, char **arguments, size_t n)
{
    repl->quit = true;
    repl->keep = !repl->own;
}

static const ReplCommand repl_time = {
    .name = "time", .usage = "", .help = "turn the timing of cells on or off", .run = toggle_time};
static const ReplCommand repl_quit = {
    .name = "quit",
    .usage = "",
    .help = "leave the prompt; closes the session unless -s was given",
    .run = quit,
};
static const ReplCommand repl_help = {.name = "help", .usage = "", .help = "show this list", .run = help};

static const ReplCommand *const table[] = {
    &repl_vars, &repl_checkpoint, &repl_rollback, &repl_checkpoints, &repl_branch, &repl_commit, &repl_files,
    &repl_put,  &repl_get,        &repl_reset,    &repl_time,        &repl_quit,   &repl_help,
};

static void help(Repl *repl, char **arguments, size_t n)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++) {
        char usage[64];

        snprintf(usage, sizeof(usage), ":%s %s", table[i]->name, table[i]->usage);
        printf("  %-22s %s\n", usage, table[i]->help);
    }
    puts(
        "A blank line ends a block. Tab completes, Ctrl-R searches the history, Ctrl-C interrupts a cell and\n"
        "keeps the variables, Ctrl-D leaves the prompt and keeps the session.");
}

static const ReplCommand *find(const char *name, size_t size)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        if (strlen(table[i]->name) == size && memcmp(table[i]->name, name, size) == 0)
            return table[i];
    return NULL;
}

static void run_words(Repl *repl, const ReplCommand *command, char **words, size_t n)
{
    if (n < command->min || n > command->max)
        fprintf(stderr, "limpet: usage: :%s%s%s\n", command->name, *command->usage ? " " : "",
                command->usage);
    else
        command->run(repl, words, n);
    fflush(stdout);
}

/* Arguments are words as a shell has them, with quotes, ~ and patterns, but no commands. */
void commands_run(Repl *repl, const char *line)
{
    size_t size = strcspn(line + 1, " \t\n");
    const ReplCommand *command = find(line + 1, size);
    wordexp_t words;

    if (!command) {
        fprintf(stderr, "limpet: unknown command ':%.*s'; :help lists the commands\n", (int)size, line + 1);
        return;
    }
    if (wordexp(line + 1 + size, &words, WRDE_NOCMD) != 0) {
        fprintf(stderr, "limpet: quote names with characters such as $ ; ( or |\n");
        return;
    }
    run_words(repl, command, words.we_wordv, words.we_wordc);
    wordfree(&words);
}

static void complete_command(const char *prefix, Words *ret)
{
    for (size_t i = 0; i < ARRAY_SIZE(table); i++)
        words_add(ret, table[i]->name, prefix);
    ret->from = strlen(prefix);
    ret->after = ' ';
}

void commands_complete(Repl *repl, const char *before, Words *ret)
{
    size_t size = strcspn(before + 1, " ");
    const char *rest = before + 1 + size, *word = strrchr(before, ' ');
    const ReplCommand *command = find(before + 1, size);
    size_t place = 0;

    if (!*rest) {
        complete_command(before + 1, ret);
        return;
    }
    if (!command || !command->complete)
        return;
    /* Words before the one at the cursor, less the command. */
    for (const char *c = rest; c < word; c++)
        place += *c == ' ' && c[1] != ' ';
    ret->from = strlen(word + 1);
    command->complete(repl, place, word + 1, ret);
}
