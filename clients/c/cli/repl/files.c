/* The prompt's commands about files. */
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/repl/commands.h"
#include "clients/c/cli/repl/hidden.h"
#include "clients/c/cli/table.h"
#include "clients/c/cli/transfer.h"

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

const ReplCommand repl_files = {
    .name = "files",
    .usage = "",
    .help = "list the files in /session",
    .run = files,
};
const ReplCommand repl_put = {
    .name = "put",
    .usage = "LOCAL [PATH]",
    .help = "copy a file from this machine to /session",
    .min = 1,
    .max = 2,
    .run = put,
    .complete = complete_put,
};
const ReplCommand repl_get = {
    .name = "get",
    .usage = "PATH [LOCAL]",
    .help = "copy a file from /session to this machine",
    .min = 1,
    .max = 2,
    .run = get,
    .complete = complete_get,
};
