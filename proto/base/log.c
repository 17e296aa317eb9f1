#include "proto/base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* A line is one write of less than PIPE_BUF bytes, so that lines of two processes do not mix. */
#define LINE_MAX_SIZE 2048

static const char *const level_names[] = {
    [LOG_ERROR] = "error",
    [LOG_WARN] = "warn",
    [LOG_INFO] = "info",
    [LOG_DEBUG] = "debug",
};

static struct {
    const char *program;
    LogLevel level;
    unsigned long dropped; /* lines since the last one that got through */
    char path[PATH_MAX];   /* of log_to_file(); empty: none */
    off_t limit;
    bool rotated;
} log_state = {.program = "limpet", .level = LOG_INFO};

void log_setup(const char *program, LogLevel level)
{
    log_state.program = program;
    log_state.level = level;
}

int log_level_from_name(const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(level_names); i++)
        if (strcmp(name, level_names[i]) == 0)
            return (int)i;
    return -EINVAL;
}

static int file_open(const char *path)
{
    int fd _cleanup_(closep) = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (fd == STDERR_FILENO) /* standard error was closed */
        return fcntl(take_fd(&fd), F_SETFD, 0) < 0 ? -errno : 0;
    return fd < 0 || dup2(fd, STDERR_FILENO) < 0 ? -errno : 0;
}

/* The position is behind what children wrote, too: they share it. */
static void file_rotate(void)
{
    char older[PATH_MAX + 2];

    if (!*log_state.path || lseek(STDERR_FILENO, 0, SEEK_CUR) < log_state.limit)
        return;
    snprintf(older, sizeof(older), "%s.1", log_state.path);
    if (rename(log_state.path, older) == 0)
        log_state.rotated = file_open(log_state.path) == 0;
}

bool log_rotate(void)
{
    bool rotated;

    file_rotate();
    rotated = log_state.rotated;
    log_state.rotated = false;
    return rotated;
}

bool log_has_file(void)
{
    return *log_state.path;
}

int log_to_file(const char *path, size_t limit)
{
    int r = strlen(path) < sizeof(log_state.path) ? file_open(path) : -ENAMETOOLONG;

    if (r < 0)
        return r;
    strcpy(log_state.path, path);
    log_state.limit = (off_t)limit;
    lseek(STDERR_FILENO, 0, SEEK_END);
    file_rotate();
    return 0;
}

typedef struct Line {
    char text[LINE_MAX_SIZE];
    size_t size; /* at most LINE_MAX_SIZE - 1: the newline has its place */
} Line;

static _printf_(2, 0) void line_vprintf(Line *line, const char *format, va_list args)
{
    size_t room = sizeof(line->text) - line->size;
    int n = vsnprintf(line->text + line->size, room, format, args);

    if (n > 0)
        line->size += MIN((size_t)n, room - 1);
}

static _printf_(2, 3) void line_printf(Line *line, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    line_vprintf(line, format, args);
    va_end(args);
}

/* 2026-01-31T12:00:00.123Z */
static void line_timestamp(Line *line)
{
    struct timespec now;
    struct tm utc;

    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    line->size += strftime(line->text, sizeof(line->text), "%Y-%m-%dT%H:%M:%S", &utc);
    line_printf(line, ".%03ldZ", now.tv_nsec / 1000000);
}

/* Control characters, C1 in UTF-8 included, would let a peer forge lines or drive the reader's terminal. */
static void line_sanitise(Line *line)
{
    for (size_t i = 0; i < line->size; i++) {
        unsigned char c = (unsigned char)line->text[i];
        unsigned char next = i + 1 < line->size ? (unsigned char)line->text[i + 1] : 0;

        if (c < 0x20 || c == 0x7f)
            line->text[i] = '?';
        else if (c == 0xc2 && next >= 0x80 && next <= 0x9f)
            line->text[i] = line->text[i + 1] = '?';
    }
}

/* True when standard error took the line. It may be shared with other programs, so its mode is left alone:
 * a pipe that polls as writable takes PIPE_BUF bytes at once. */
static bool line_write(const Line *line)
{
    struct pollfd ready = {.fd = STDERR_FILENO, .events = POLLOUT};
    ssize_t n;

    if (poll(&ready, 1, 0) != 1 || ready.revents != POLLOUT)
        return false;
    do
        n = write(STDERR_FILENO, line->text, line->size);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)line->size;
}

void log_write(LogLevel level, const char *event, const char *fields, ...)
{
    int saved_errno = errno;
    Line line = {.size = 0};
    va_list args;

    if (level > log_state.level)
        return;
    line_timestamp(&line);
    line_printf(&line, " %s %s %s", level_names[level], log_state.program, event);
    if (log_state.dropped > 0)
        line_printf(&line, " dropped=%lu", log_state.dropped);
    if (fields[0]) {
        line_printf(&line, " ");
        va_start(args, fields);
        line_vprintf(&line, fields, args);
        va_end(args);
    }
    line_sanitise(&line);
    line.text[line.size++] = '\n';
    if (line_write(&line))
        log_state.dropped = 0;
    else
        log_state.dropped++;
    file_rotate();
    errno = saved_errno;
}
