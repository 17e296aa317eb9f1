#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/log.h"
#include "tests/support/cmocka.h"

/* Standard error is a pipe while a test runs; cmocka's own reports go to standard output. */
typedef struct Captured {
    int saved, reader;
} Captured;

static void capture(Captured *captured)
{
    int ends[2];

    assert_int_equal(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    captured->saved = dup(STDERR_FILENO);
    captured->reader = ends[0];
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
}

static void release(Captured *captured)
{
    dup2(captured->saved, STDERR_FILENO);
    close(captured->saved);
    if (captured->reader >= 0)
        close(captured->reader);
}

/* Returns what was written since, terminated. */
static const char *captured_text(Captured *captured)
{
    static char text[1 << 17];
    ssize_t n = read(captured->reader, text, sizeof(text) - 1);

    text[n > 0 ? n : 0] = '\0';
    return text;
}

static bool matches(const char *text, const char *pattern)
{
    regex_t regex;

    if (regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) != 0)
        return false;
    bool match = regexec(&regex, text, 0, NULL, 0) == 0;
    regfree(&regex);
    return match;
}

#define TIMESTAMP "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z "

TEST(writes_one_line)
{
    Captured captured;
    const char *text;

    capture(&captured);
    log_setup("limpetd", LOG_INFO);
    log_info("session opened", "session=%s cpus=%d", "a", 2);
    text = captured_text(&captured);
    assert_true(matches(text, TIMESTAMP "info limpetd session opened session=a cpus=2\n$"));
    log_warn("closing", "%s", "");
    assert_true(matches(captured_text(&captured), TIMESTAMP "warn limpetd closing ?\n$"));
    release(&captured);
}

TEST(keeps_to_its_level)
{
    Captured captured;

    capture(&captured);
    log_setup("limpetd", LOG_WARN);
    log_info("quiet", "a=%d", 1);
    log_debug("quiet", "a=%d", 1);
    assert_string_equal(captured_text(&captured), "");
    log_error("loud", "a=%d", 1);
    assert_non_null(strstr(captured_text(&captured), " error limpetd loud a=1\n"));
    release(&captured);
    assert_int_equal(log_level_from_name("debug"), LOG_DEBUG);
    assert_int_equal(log_level_from_name("error"), LOG_ERROR);
    assert_int_equal(log_level_from_name("verbose"), -EINVAL);
}

TEST(forged_lines_stay_one_line)
{
    Captured captured;
    const char *text;

    capture(&captured);
    log_setup("limpetd", LOG_INFO);
    log_info("event", "text=%s",
             "a\nb\x1b[2J\x7f\xc2\x9b"
             "1mé");
    text = captured_text(&captured);
    assert_non_null(strstr(text, "text=a?b?[2J???1mé\n"));
    assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);
    release(&captured);
}

TEST(long_lines_are_cut)
{
    Captured captured;
    char field[8000];

    memset(field, 'x', sizeof(field) - 1);
    field[sizeof(field) - 1] = '\0';
    capture(&captured);
    log_info("event", "text=%s", field);
    const char *text = captured_text(&captured);
    assert_int_equal(strlen(text), 2048);
    assert_int_equal(text[2047], '\n');
    release(&captured);
}

/* With nobody reading, lines are dropped instead of waited for; the first that gets through says how many. */
TEST(never_waits_for_a_reader)
{
    Captured captured;
    unsigned long lines = 0, dropped = 0;
    char field[1000];
    const char *at;

    memset(field, 'x', sizeof(field) - 1);
    field[sizeof(field) - 1] = '\0';
    capture(&captured);
    fcntl(STDERR_FILENO, F_SETFL, 0); /* a write that does not fit would block */
    errno = ENOENT;
    for (int i = 0; i < 1000; i++)
        log_info("event", "text=%s", field);
    assert_int_equal(errno, ENOENT);
    for (at = captured_text(&captured); (at = strchr(at, '\n')); at++)
        lines++;
    log_info("event", "a=%d", 1);
    at = strstr(captured_text(&captured), "event dropped=");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "event dropped=%lu a=1", &dropped), 1);
    assert_true(lines > 0 && dropped > 0);
    assert_int_equal(lines + dropped, 1000);
    log_info("event", "a=%d", 2);
    assert_null(strstr(captured_text(&captured), "dropped"));
    release(&captured);
}

/* A reader that has gone costs lines, not the process: there is no SIGPIPE. */
TEST(survives_its_reader)
{
    Captured captured;

    capture(&captured);
    close(captured.reader);
    captured.reader = -1;
    log_info("event", "a=%d", 1);
    release(&captured);
    capture(&captured);
    log_info("event", "a=%d", 2);
    assert_non_null(strstr(captured_text(&captured), "event dropped=1 a=2\n"));
    release(&captured);
}

static off_t size_of(const char *path)
{
    struct stat status;

    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    return status.st_size;
}

/* A file gets the number of standard error at once where that was closed. */
TEST(a_file_that_is_standard_error_already)
{
    char directory[] = "/tmp/test_log.XXXXXX", path[64];
    int saved = dup(STDERR_FILENO);

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/log", directory);
    log_setup("limpetd", LOG_INFO);
    close(STDERR_FILENO);
    assert_int_equal(log_to_file(path, 1000), 0);
    log_info("line", "number=%d", 1);
    assert_int_equal(fcntl(STDERR_FILENO, F_GETFD), 0);
    dup2(saved, STDERR_FILENO);
    close(saved);
    assert_in_range(size_of(path), 1, 1000);
    unlink(path);
    assert_int_equal(rmdir(directory), 0);
}

TEST(a_full_file_makes_way)
{
    char directory[] = "/tmp/test_log.XXXXXX", path[64], older[64];
    int saved = dup(STDERR_FILENO);

    assert_non_null(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/log", directory);
    snprintf(older, sizeof(older), "%s/log.1", directory);
    log_setup("limpetd", LOG_INFO);
    assert_int_equal(log_to_file(path, 1000), 0);
    for (int i = 0; i < 100; i++) {
        log_info("line", "number=%d", i);
        assert_true(size_of(path) < 1000);
    }
    assert_in_range(size_of(older), 1000, 1100);
    assert_int_equal(log_to_file("/nowhere/log", 1000), -ENOENT);
    dup2(saved, STDERR_FILENO);
    close(saved);
    unlink(path);
    unlink(older);
    assert_int_equal(rmdir(directory), 0);
}
