/* The commands that copy and list files. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/show.h"
#include "clients/c/limpet_files.h"

static int complain(const char *path)
{
    fprintf(stderr, "limpet: %s: %s\n", path, strerror(errno));
    return EXIT_USAGE;
}

/* ---- directories ---- */

typedef struct ProgressLine {
    int percent; /* shown on the terminal; -1: none yet */
} ProgressLine;

static void show_progress(void *context, uint64_t done, uint64_t whole)
{
    ProgressLine *line = context;
    int percent = whole > 0 ? (int)(100 * (double)done / (double)whole) : 100;
    char size[16], of[16];

    if (percent == line->percent)
        return;
    line->percent = percent;
    fprintf(stderr, "\r%3d %% of %s, %s ", percent, cli_size(of, sizeof(of), whole),
            cli_size(size, sizeof(size), done));
}

/* Returns whether there is a directory at a path. Other problems are told by the copy. */
static bool is_directory(LimpetClient *client, const char *session, const char *path)
{
    LimpetEntries *found = NULL;
    bool is =
        !limpet_files_stat(client, session, path, &found) && strcmp(found->entries[0].type, "directory") == 0;

    limpet_entries_free(found);
    return is;
}

static bool is_local_directory(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

typedef int CopyTree(LimpetClient *client, const char *session, const char *from, const char *to,
                     LimpetOnProgress *on_progress, void *context);

static int copy_tree(LimpetClient *client, CopyTree *copy, const char *session, const char *from,
                     const char *to)
{
    ProgressLine line = {.percent = -1};
    int r = copy(client, session, from, to, isatty(STDERR_FILENO) ? show_progress : NULL, &line);

    if (line.percent >= 0)
        fputs("\r\033[K", stderr);
    return r ? cli_fail(client) : 0;
}

/* ---- files ---- */

/* Source of a copy: a file of a session, or an artifact of a call. */
typedef struct Source {
    const char *session;
    const LimpetResult *result; /* NULL: it is of the session */
    const char *path;
} Source;

static int fetch(LimpetClient *client, const Source *source, int fd)
{
    int r = source->result ? limpet_artifact(client, source->result, source->path, fd)
                           : limpet_get(client, source->session, source->path, fd);

    return r ? cli_fail(client) : 0;
}

/* Gets the file under a temporary name, so that a failure does not cost the one that is there. */
static int get_replacing(LimpetClient *client, const Source *source, const char *local)
{
    _cleanup_(freep) char *temporary = NULL;
    _cleanup_(closep) int fd = -1;
    mode_t mask = umask(0);
    int status;

    umask(mask);
    if (asprintf(&temporary, "%s.XXXXXX", local) < 0) {
        temporary = NULL;
        return complain(local);
    }
    fd = mkostemp(temporary, O_CLOEXEC);
    if (fd < 0)
        return complain(local);
    status = fetch(client, source, fd);
    if (!status && (fchmod(fd, 0666 & ~mask) < 0 || rename(temporary, local) < 0))
        status = complain(local);
    if (status)
        unlink(temporary);
    return status;
}

static int get_special(LimpetClient *client, const Source *source, const char *local)
{
    _cleanup_(closep) int fd = open(local, O_WRONLY | O_CLOEXEC);

    return fd < 0 ? complain(local) : fetch(client, source, fd);
}

static int get_to(LimpetClient *client, const Source *source, const char *local)
{
    struct stat status;

    if (!source->result && is_directory(client, source->session, source->path))
        return copy_tree(client, limpet_files_get_tree, source->session, source->path, local);
    if (stat(local, &status) == 0 && !S_ISREG(status.st_mode))
        return get_special(client, source, local);
    return get_replacing(client, source, local);
}

/* The last name of `path` in a directory, to be freed; NULL with errno set. */
static char *named(const char *directory, const char *path)
{
    _cleanup_(freep) char *copy = strdup(path);
    size_t n = strlen(directory);
    char *joined;

    if (!copy)
        return NULL;
    for (size_t end = strlen(copy); end > 1 && copy[end - 1] == '/';)
        copy[--end] = '\0';
    if (asprintf(&joined, "%s%s%s", directory, n > 0 && directory[n - 1] != '/' ? "/" : "", basename(copy)) <
        0)
        return NULL;
    return joined;
}

static int get(LimpetClient *client, const Source *source, const char *local)
{
    _cleanup_(freep) char *inside = NULL;

    if (strcmp(local, "-") == 0)
        return fetch(client, source, STDOUT_FILENO);
    if (!is_local_directory(local))
        return get_to(client, source, local);
    inside = named(local, source->path);
    return inside ? get_to(client, source, inside) : complain(local);
}

int cli_get(LimpetClient *client, const char *session, const char *path, const char *local)
{
    return get(client, &(Source){.session = session, .path = path}, local);
}

/* The same of an artifact of a call, which is there as a whole or not at all, unless `local` is "-". */
static int get_artifact(LimpetClient *client, const LimpetResult *result, const char *path, const char *local)
{
    return get(client, &(Source){.result = result, .path = path}, local);
}

int cli_put(LimpetClient *client, const char *local, const char *session, const char *path)
{
    _cleanup_(closep) int file = -1;
    _cleanup_(freep) char *inside = NULL;
    int fd = STDIN_FILENO;

    if (!*path || path[strlen(path) - 1] == '/') {
        inside = named(path, local);
        if (!inside)
            return complain(local);
        path = inside;
    }
    if (is_local_directory(local))
        return copy_tree(client, limpet_files_put_tree, session, local, path);
    if (strcmp(local, "-") != 0)
        fd = file = open(local, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return complain(local);
    return limpet_put(client, session, path, fd) ? cli_fail(client) : 0;
}

/* ---- limpet put ---- */

static int run_put(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    const char *local = operands[0], *session, *path;
    int r = cli_split(operands[1], &session, &path);

    if (r)
        return r;
    /* Before a controller is started for nothing. */
    if (strcmp(local, "-") != 0 && access(local, R_OK) < 0) {
        fprintf(stderr, "limpet: %s: %s\n", local, strerror(errno));
        return EXIT_USAGE;
    }
    client = cli_connect();
    return client ? cli_put(client, local, session, path) : EXIT_SANDBOX;
}

const Command command_put = {
    .name = "put",
    .usage = "LOCAL SESSION:PATH",
    .summary = "Copies a file or a directory into a session",
    .details =
        "\nPATH is absolute or relative to /session. LOCAL '-' is standard input. If PATH is empty or ends in a slash,\n"
        "the file or directory keeps its name. A directory is merged into an existing one.",
    .operands = {COMPLETE_FILE, COMPLETE_SESSION_PATH},
    .operands_min = 2,
    .operands_max = 2,
    .run = run_put,
};

/* ---- limpet get ---- */

static int run_get(const void *values, char **operands, int n)
{
    _cleanup_(limpet_freep) LimpetClient *client = NULL;
    const char *session, *path;
    int r = cli_split(operands[0], &session, &path);

    if (r)
        return r;
    client = cli_connect();
    return client ? cli_get(client, session, *path ? path : "/session", operands[1]) : EXIT_SANDBOX;
}

const Command command_get = {
    .name = "get",
    .usage = "SESSION:PATH LOCAL",
    .summary = "Copies a file or a directory out of a session",
    .details =
        "\nPATH is absolute or relative to /session. LOCAL '-' is standard output. If LOCAL is a directory, the file\n"
        "or directory keeps its name there.",
    .operands = {COMPLETE_SESSION_PATH, COMPLETE_FILE},
    .operands_min = 2,
    .operands_max = 2,
    .run = run_get,
};

/* ---- limpet files ---- */

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
    OPTION_ROW(0, "json", OPTION_FLAG, FilesValues, json, NULL, "print the entries of ls and stat as JSON"),
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

/* The new path may name its session as the old one does. */
static int files_mv(const FilesTask *task)
{
    size_t n = strlen(task->session);
    bool named = strncmp(task->to, task->session, n) == 0 && task->to[n] == ':';
    const char *to = task->to + (named ? n + 1 : 0);

    return limpet_files_move(task->client, task->session, task->path, to) ? cli_fail(task->client) : 0;
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

static int run_files(const void *values, char **operands, int n)
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
        "\nPATH is absolute or relative to /session, and may be wherever the code has access: /session, /tmp,\n"
        "/home/user. `read` prints a file, `write` writes standard input to one, `mv` renames to NEW.\n"
        "`watch` prints events in a directory until it is interrupted. Works while code runs.",
    .options = {files_options, ARRAY_SIZE(files_options)},
    .operands = {COMPLETE_CHOICE, COMPLETE_SESSION_PATH, COMPLETE_NOTHING},
    .choices = "ls|read|write|stat|mkdir|mv|rm|watch",
    .operands_min = 2,
    .operands_max = 3,
    .values_size = sizeof(FilesValues),
    .run = run_files,
};

/* ---- limpet artifact ---- */

static int run_artifact(LimpetClient *client, const void *values, char **operands, int n)
{
    LimpetResult *result = NULL;
    int r;

    if (limpet_set_artifacts(client, NULL) || limpet_result(client, operands[0], LIMPET_FOREVER, &result))
        return cli_fail(client);
    r = get_artifact(client, result, operands[1], n > 2 ? operands[2] : ".");
    limpet_result_free(result);
    return r;
}

const Command command_artifact = {
    .name = "artifact",
    .usage = "RUN_ID PATH [LOCAL]",
    .summary = "Fetches a file that a call has published, and checks its SHA-256",
    .details =
        "\nFor a controller on another machine, whose copies cannot be opened here. RUN_ID and PATH are those of the\n"
        "call's record (`limpet run --json`). LOCAL is a file or a directory, by default this one; '-' is\n"
        "standard output. Waits for a call that still runs.",
    .operands = {COMPLETE_NOTHING, COMPLETE_NOTHING, COMPLETE_FILE},
    .operands_min = 2,
    .operands_max = 3,
    .run_connected = run_artifact,
};
