/* limpet files */
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/table.h"

typedef struct FilesValues {
    uint64_t depth;
    const char *mode;
    bool recursive, json;
} FilesValues;

static const Option files_options[] = {
    OPTION_ROW('d', "depth", OPTION_COUNT, FilesValues, depth, "N", "levels that ls shows, by default 1",
               .least = 1, .most = 128),
    OPTION_ROW('m', "mode", OPTION_TEXT, FilesValues, mode, "MODE",
               "permissions of files that write makes, by default 644"),
    OPTION_ROW('r', "recursive", OPTION_FLAG, FilesValues, recursive, NULL,
               "rm: also its contents; watch: also its subdirectories"),
    OPTION_ROW(0, "json", OPTION_FLAG, FilesValues, json, NULL, "print what ls and stat find as JSON"),
};

/* Arguments of a verb. */
typedef struct FilesTask {
    const FilesValues *values;
    LimpetClient *client;
    const char *session, *path, *to;
} FilesTask;

static const Column columns[] = {
    {"MODE", false}, {"SIZE", true}, {"MODIFIED", false}, {"PATH", false}, {"TARGET", false},
};

static const char *mode_text(char ret[static 11], const LimpetEntry *entry)
{
    static const char letters[] = "rwxrwxrwx";

    ret[0] = strcmp(entry->type, "directory") == 0 ? 'd'
             : strcmp(entry->type, "symlink") == 0 ? 'l'
             : strcmp(entry->type, "file") == 0    ? '-'
                                                   : '?';
    for (int i = 0; i < 9; i++)
        ret[1 + i] = entry->mode >> (8 - i) & 1 ? letters[i] : '-';
    ret[10] = '\0';
    return ret;
}

static int show_entries(const LimpetEntries *entries)
{
    Table table = {.columns = columns, .n_columns = ARRAY_SIZE(columns)};

    for (size_t i = 0; i < entries->n_entries; i++) {
        const LimpetEntry *entry = &entries->entries[i];
        time_t seconds = (time_t)entry->modified;
        char mode[11], when[24] = "";
        struct tm local;

        if (localtime_r(&seconds, &local))
            strftime(when, sizeof(when), "%Y-%m-%d %H:%M", &local);
        table_add(&table, "%s", mode_text(mode, entry));
        table_add(&table, "%" PRIu64, entry->size);
        table_add(&table, "%s", when);
        table_add(&table, "%s", entry->path);
        table_add(&table, "%s", entry->target ? entry->target : "");
    }
    return table_print(&table);
}

static int show(const FilesTask *task, int failed, const LimpetEntries *entries)
{
    if (failed)
        return cli_fail(task->client);
    return task->values->json ? cli_print_json(limpet_entries_json(entries)) : show_entries(entries);
}

static int files_ls(const FilesTask *task)
{
    _cleanup_(limpet_entries_freep) LimpetEntries *entries = NULL;
    const char *path = *task->path ? task->path : "/session";
    unsigned depth = (unsigned)MAX(task->values->depth, UINT64_C(1));
    int failed = limpet_files_list(task->client, task->session, path, depth, &entries);

    return show(task, failed, entries);
}

static int files_stat(const FilesTask *task)
{
    _cleanup_(limpet_entries_freep) LimpetEntries *entries = NULL;

    int r = limpet_files_stat(task->client, task->session, task->path, &entries);

    return show(task, r, entries);
}

static int files_read(const FilesTask *task)
{
    return limpet_files_read(task->client, task->session, task->path, STDOUT_FILENO) ? cli_fail(task->client)
                                                                                     : 0;
}

static int files_write(const FilesTask *task)
{
    const char *text = task->values->mode ? task->values->mode : "644";
    char *end;
    unsigned long mode = strtoul(text, &end, 8);

    if (*end || end == text || mode > 07777) {
        fprintf(stderr, "limpet: --mode takes an octal number such as 644, not '%s'\n", text);
        return EXIT_USAGE;
    }
    return limpet_files_write(task->client, task->session, task->path, STDIN_FILENO, (unsigned)mode, true)
               ? cli_fail(task->client)
               : 0;
}

static int files_mkdir(const FilesTask *task)
{
    return limpet_files_mkdir(task->client, task->session, task->path, true) ? cli_fail(task->client) : 0;
}

static int files_mv(const FilesTask *task)
{
    return limpet_files_move(task->client, task->session, task->path, task->to) ? cli_fail(task->client) : 0;
}

static int files_rm(const FilesTask *task)
{
    return limpet_files_remove(task->client, task->session, task->path, task->values->recursive)
               ? cli_fail(task->client)
               : 0;
}

static bool print_event(void *context, const char *kind, const char *path)
{
    printf("%s ", kind);
    cli_print_name(stdout, path);
    putchar('\n');
    return fflush(stdout) == 0;
}

static int files_watch(const FilesTask *task)
{
    const char *path = *task->path ? task->path : "/session";

    return limpet_files_watch(task->client, task->session, path, task->values->recursive, print_event, NULL)
               ? cli_fail(task->client)
               : 0;
}

static const struct {
    const char *name;
    int (*run)(const FilesTask *task);
} verbs[] = {
    {"ls", files_ls},       {"read", files_read}, {"write", files_write}, {"stat", files_stat},
    {"mkdir", files_mkdir}, {"mv", files_mv},     {"rm", files_rm},       {"watch", files_watch},
};

static int run(const void *values, char **operands, int n)
{
    FilesTask task = {.values = values, .to = n > 2 ? operands[2] : NULL};
    size_t verb = 0;
    int status;

    while (verb < ARRAY_SIZE(verbs) && strcmp(verbs[verb].name, operands[0]) != 0)
        verb++;
    if (verb == ARRAY_SIZE(verbs)) {
        fprintf(stderr, "limpet: files has no '%s': ls, read, write, stat, mkdir, mv, rm or watch\n",
                operands[0]);
        return EXIT_USAGE;
    }
    if ((verbs[verb].run == files_mv) != (n > 2)) {
        fprintf(stderr, "limpet: files %s takes %s\n", operands[0],
                n > 2 ? "one path, as SESSION:PATH" : "SESSION:PATH and a new path");
        return EXIT_USAGE;
    }
    status = cli_split(operands[1], &task.session, &task.path);
    if (status)
        return status;
    _cleanup_(limpet_freep) LimpetClient *client = cli_connect();
    task.client = client;
    return client ? verbs[verb].run(&task) : EXIT_SANDBOX;
}

const Command command_files = {
    .name = "files",
    .usage = "[OPTIONS] ls|read|write|stat|mkdir|mv|rm|watch SESSION:PATH [NEW]",
    .summary = "Reads and changes files anywhere in a sandbox",
    .details =
        "\nPATH is absolute or relative to /session, and may be wherever the code has access: /session, "
        "/tmp,\n"
        "/home/user. `read` prints a file, `write` writes standard input to one, `mv` renames to NEW.\n"
        "`watch` prints events in a directory until it is interrupted. Works while code runs.",
    .options = {files_options, ARRAY_SIZE(files_options)},
    .operands = {COMPLETE_CHOICE, COMPLETE_SESSION_PATH, COMPLETE_NOTHING},
    .choices = "ls|read|write|stat|mkdir|mv|rm|watch",
    .operands_min = 2,
    .operands_max = 3,
    .values_size = sizeof(FilesValues),
    .run = run,
};
