#include "clients/c/cli/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/cli/cli.h"
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
        return complain(temporary);
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

int cli_get_artifact(LimpetClient *client, const LimpetResult *result, const char *path, const char *local)
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
