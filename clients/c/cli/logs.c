/* limpet logs */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

#include "clients/c/cli/cli.h"

/* ---- the end of a log file ---- */

#define KEY "session="

/* Returns whether the line is about the session, or any (NULL). Values of a log line end at a blank. */
static bool about(const char *line, const char *session)
{
    size_t size = session ? strlen(session) : 0;

    if (!session)
        return true;
    for (const char *at = line; (at = strstr(at, KEY)); at++) {
        const char *value = at + strlen(KEY);

        if ((at == line || at[-1] == ' ') && strncmp(value, session, size) == 0 &&
            strchr(" /\n", value[size]))
            return true;
    }
    return false;
}

/* The last lines seen, in a lines. */
typedef struct LastLines {
    char **lines;
    uint64_t size, n;
} LastLines;

static void last_lines_deinit(LastLines *lines)
{
    for (uint64_t i = 0; lines->lines && i < lines->size; i++)
        free(lines->lines[i]);
    free(lines->lines);
}

static void read_lines(LastLines *lines, FILE *file, const char *session)
{
    char *line = NULL;
    size_t size = 0;

    while (file && getline(&line, &size, file) > 0)
        if (about(line, session)) {
            char **place = &lines->lines[lines->n++ % lines->size];

            free(*place);
            *place = strdup(line);
        }
    free(line);
}

static void print_last_lines(const LastLines *lines)
{
    for (uint64_t i = lines->n > lines->size ? lines->n - lines->size : 0; i < lines->n; i++)
        if (lines->lines[i % lines->size])
            fputs(lines->lines[i % lines->size], stdout);
    fflush(stdout);
}

/* Prints the whole lines that have come; of half a line nothing is read yet. */
static void print_new(FILE *file, const char *session)
{
    char *line = NULL;
    size_t size = 0;
    ssize_t n;

    while ((n = getline(&line, &size, file)) > 0) {
        if (line[n - 1] != '\n') {
            fseek(file, -n, SEEK_CUR);
            break;
        }
        if (about(line, session))
            fputs(line, stdout);
    }
    clearerr(file);
    free(line);
    fflush(stdout);
}

/* After the file became FILE.1 another one has its name. */
static int reopen(FILE **file, const char *path)
{
    struct stat open_status, status;
    FILE *next;

    if (fstat(fileno(*file), &open_status) < 0 || stat(path, &status) < 0 ||
        (status.st_ino == open_status.st_ino && status.st_dev == open_status.st_dev))
        return 0;
    next = fopen(path, "re");
    if (!next)
        return 0;
    fclose(*file);
    *file = next;
    return 1;
}

/* Waits for any change in the file's directory. */
static int wait_for_change(int watch)
{
    char events[4096] __attribute__((aligned(8)));

    return read(watch, events, sizeof(events)) < 0 && errno != EINTR ? -errno : 0;
}

static int watch_directory(const char *path)
{
    char directory[PATH_MAX];
    int watch = inotify_init1(IN_CLOEXEC), r;
    char *slash;

    if (watch < 0)
        return -errno;
    snprintf(directory, sizeof(directory), "%s", path);
    slash = strrchr(directory, '/');
    if (slash)
        *slash = 0;
    if (inotify_add_watch(watch, directory, IN_MODIFY | IN_CREATE | IN_MOVED_TO) >= 0)
        return watch;
    r = -errno;
    close(watch);
    return r;
}

/* From where the file has been read to. */
static int go_on(FILE **file, int watch, const char *path, const char *session)
{
    int r = 0;

    while (!r && !ferror(stdout)) {
        print_new(*file, session);
        if (reopen(file, path) == 0)
            r = wait_for_change(watch);
    }
    return r;
}

#define RING_MAX UINT64_C(1000000)

static int print_last(FILE *file, const char *path, uint64_t n, const char *session)
{
    _cleanup_(last_lines_deinit) LastLines lines = {.size = MIN(n, RING_MAX)};
    char before[PATH_MAX];
    FILE *older;

    if (snprintf(before, sizeof(before), "%s.1", path) >= (int)sizeof(before))
        return -ENAMETOOLONG;
    lines.lines = calloc(lines.size, sizeof(*lines.lines));
    if (!lines.lines)
        return -ENOMEM;
    older = fopen(before, "re");
    read_lines(&lines, older, session);
    read_lines(&lines, file, session);
    if (older)
        fclose(older);
    print_last_lines(&lines);
    return 0;
}

/* Prints the last `n` lines of FILE.1 and FILE together: all, or those with "session=SESSION" or one of its
 * branches. With `follow` also what is added from then on, until this program is ended or nobody reads it any
 * more. 0, or a negative errno. */
static int tail(const char *path, uint64_t n, const char *session, bool follow)
{
    _cleanup_(closep) int watch = follow ? watch_directory(path) : -1;
    FILE *file = fopen(path, "re");
    int r;

    if (!file)
        return -errno;
    r = follow && watch < 0 ? watch : print_last(file, path, n, session);
    clearerr(file);
    if (!r && follow)
        r = go_on(&file, watch, path, session);
    fclose(file);
    return r;
}

/* ---- limpet logs ---- */

#define LINES_DEFAULT 100

typedef struct LogsValues {
    const char *session;
    uint64_t lines;
    bool follow;
} LogsValues;

static const Option logs_options[] = {
    OPTION_ROW('f', "follow", OPTION_FLAG, LogsValues, follow, NULL, "wait for new lines and print them"),
    OPTION_ROW('n', "lines", OPTION_COUNT, LogsValues, lines, "NUMBER", "number of lines to show",
               .least = OPTION_ABOVE_ZERO, .value = "100"),
    OPTION_ROW('s', "session", OPTION_TEXT, LogsValues, session, "SESSION",
               "only lines about this session and its branches", .completes = COMPLETE_SESSION),
};

/* Finds the log of a controller in the background that was told no other place. */
static int standard_path(char ret[static PATH_MAX])
{
    const char *given = getenv("LIMPET_STATE_DIR");
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n;

    if (given && *given == '/')
        n = snprintf(ret, PATH_MAX, "%s/limpetd.log", given);
    else if (geteuid() == 0)
        n = snprintf(ret, PATH_MAX, "/var/lib/limpet/limpetd.log");
    else if (state && *state == '/')
        n = snprintf(ret, PATH_MAX, "%s/limpet/limpetd.log", state);
    else
        n = snprintf(ret, PATH_MAX, "%s/.local/state/limpet/limpetd.log", home && *home ? home : "");
    return n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Finds the log of a controller that runs, whatever its standard error is; a file has a path that begins with
 * a slash. */
static int running_path(int64_t pid, char ret[static PATH_MAX])
{
    char link[64];
    ssize_t n;

    snprintf(link, sizeof(link), "/proc/%" PRId64 "/fd/2", pid);
    n = readlink(link, ret, PATH_MAX - 1);
    if (n < 0)
        return -errno;
    ret[n] = 0;
    return 0;
}

static int explain(int64_t pid, const char *target)
{
    fprintf(stderr,
            "limpet: the controller (pid %" PRId64
            ") does not write a log file: it logs to its standard error, "
            "which is %s",
            pid, target);
    fputs(strncmp(target, "socket:", 7) != 0 ? "\n"
          : geteuid() == 0                   ? "; for the service, use 'journalctl --unit limpetd'\n"
                                             : "; for the service, use 'journalctl --user --unit limpetd'\n",
          stderr);
    return EXIT_SANDBOX;
}

static int find_log(char ret[static PATH_MAX])
{
    _cleanup_(limpet_freep) LimpetClient *client = limpet_new();
    struct stat status;
    int64_t pid;
    int r;

    if (!client)
        return EXIT_SANDBOX;
    limpet_set_autostart(client, false);
    if (limpet_connect(client, NULL) != 0)
        return standard_path(ret) < 0 ? EXIT_SANDBOX : 0;
    pid = limpet_controller(client)->pid;
    r = running_path(pid, ret);
    if (r < 0) {
        fprintf(stderr, "limpet: cannot find the log of the controller (pid %" PRId64 "): %s%s\n", pid,
                strerror(-r),
                r == -EACCES ? "; the log of root's controller needs root: sudo limpet logs" : "");
        return EXIT_SANDBOX;
    }
    return *ret == '/' && stat(ret, &status) == 0 && S_ISREG(status.st_mode) ? 0 : explain(pid, ret);
}

static int run(const void *values, char **operands, int n)
{
    const LogsValues *given = values;
    char path[PATH_MAX];
    int status = find_log(path);
    int r;

    if (status)
        return status;
    r = tail(path, given->lines ? given->lines : LINES_DEFAULT, given->session, given->follow);
    if (r == -ENOENT)
        fprintf(stderr, "limpet: no controller is running, and there is no log at %s\n", path);
    else if (r < 0)
        fprintf(stderr, "limpet: %s: %s\n", path, strerror(-r));
    return r < 0 ? EXIT_SANDBOX : 0;
}

const Command command_logs = {
    .name = "logs",
    .usage = "[OPTIONS]",
    .summary = "Shows the log of the controller",
    .details =
        "\nA controller that was started by a command or with 'limpetd --detach' logs to limpetd.log in its state\n"
        "directory. At 1 MiB the file is renamed to limpetd.log.1 and replaces the previous one. Other controllers\n"
        "log to their standard error, for example to the journal; this command then says where.",
    .options = {logs_options, ARRAY_SIZE(logs_options)},
    .values_size = sizeof(LogsValues),
    .run = run,
};
