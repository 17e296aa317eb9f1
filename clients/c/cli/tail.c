#include "clients/c/cli/tail.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>

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

int tail(const char *path, uint64_t n, const char *session, bool follow)
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
