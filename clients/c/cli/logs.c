/* limpet logs */
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/cli/cli.h"
#include "clients/c/cli/tail.h"

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
    .details = "\nA controller that was started by a command or with 'limpetd --detach' logs to limpetd.log "
               "in its state\n"
               "directory. At 1 MiB the file is renamed to limpetd.log.1 and replaces the previous one. "
               "Other controllers\n"
               "log to their standard error, for example to the journal; this command then says where.",
    .options = {logs_options, ARRAY_SIZE(logs_options)},
    .values_size = sizeof(LogsValues),
    .run = run,
};
