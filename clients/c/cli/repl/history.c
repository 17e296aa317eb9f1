#include "clients/c/cli/repl/history.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/buf.h"

/* The file is written anew when it has more lines than this. */
#define LINES_MAX (2 * HISTORY_MAX)

/* Makes the directory as well; -1 where there is no home. */
static int history_path(char ret[static PATH_MAX])
{
    const char *state = getenv("XDG_STATE_HOME");
    const char *home = getenv("HOME");
    int n = -1;

    if (state && *state == '/')
        n = snprintf(ret, PATH_MAX, "%s/limpet/repl_history", state);
    else if (home && *home == '/')
        n = snprintf(ret, PATH_MAX, "%s/.local/state/limpet/repl_history", home);
    if (n < 0 || n >= PATH_MAX)
        return -1;
    for (char *slash = ret + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = 0;
        mkdir(ret, 0700);
        *slash = '/';
    }
    return 0;
}

static int open_file(int flags)
{
    char path[PATH_MAX];

    if (history_path(path) < 0)
        return -1;
    return open(path, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static void write_line(FILE *file, const char *block)
{
    for (; *block; block++)
        if (*block == '\n')
            fputs("\\n", file);
        else if (*block == '\\')
            fputs("\\\\", file);
        else
            fputc(*block, file);
    fputc('\n', file);
}

/* Undoes write_line() in place. */
static void read_line(char *line)
{
    char *to = line;

    for (; *line && *line != '\n'; line++) {
        bool escaped = *line == '\\' && (line[1] == 'n' || line[1] == '\\');

        line += escaped;
        *to++ = escaped && *line == 'n' ? '\n' : *line;
    }
    *to = 0;
}

/* A copy beside it takes the place of the file, with the blocks that are remembered. */
static void rewrite_file(History *list)
{
    char path[PATH_MAX], temporary[PATH_MAX + 8];
    HistEvent event;
    FILE *file;
    int fd;

    if (history_path(path) < 0)
        return;
    snprintf(temporary, sizeof(temporary), "%s.XXXXXX", path);
    fd = mkostemp(temporary, O_CLOEXEC);
    file = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!file) {
        close_fd(&fd);
        return;
    }
    for (int r = history(list, &event, H_LAST); r >= 0; r = history(list, &event, H_PREV))
        write_line(file, event.str);
    if (fclose(file) != 0 || rename(temporary, path) < 0)
        unlink(temporary);
}

static size_t read_file(History *list, FILE *file)
{
    _cleanup_(freep) char *line = NULL;
    size_t size = 0, lines = 0;
    HistEvent event;

    while (getline(&line, &size, file) > 0) {
        read_line(line);
        if (*line)
            history(list, &event, H_ENTER, line);
        lines++;
    }
    return lines;
}

History *history_open(void)
{
    History *list = history_init();
    HistEvent event;
    FILE *file;
    int fd;

    if (!list)
        return NULL;
    history(list, &event, H_SETSIZE, HISTORY_MAX);
    history(list, &event, H_SETUNIQUE, 1);
    fd = open_file(O_RDONLY);
    file = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!file) {
        close_fd(&fd);
        return list;
    }
    if (read_file(list, file) > LINES_MAX)
        rewrite_file(list);
    fclose(file);
    return list;
}

void history_add(History *list, const char *block)
{
    HistEvent event;
    FILE *file;
    int fd;

    if (history(list, &event, H_FIRST) >= 0 && strcmp(event.str, block) == 0)
        return;
    history(list, &event, H_ENTER, block);
    fd = open_file(O_WRONLY | O_CREAT | O_APPEND);
    file = fd >= 0 ? fdopen(fd, "a") : NULL;
    if (!file) {
        close_fd(&fd);
        return;
    }
    write_line(file, block);
    fclose(file);
}
