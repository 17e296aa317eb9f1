#include "guest/supervisor/services/browser.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "guest/supervisor/process/spawn.h"
#include "guest/supervisor/services/ports.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define READY "DevTools listening on " /* Chromium's own words, before the address */

/* A slow machine reads a large program from a slow disk. */
#define START_LIMIT (90 * NSEC_PER_SEC)

/* ---- those who ask ---- */

static void watch_askers(Browser *browser)
{
    if (browser->file.loop)
        loop_file_change(&browser->file, browser->asking < BROWSER_ASKERS ? EPOLLIN : 0);
}

/* The line fits into the buffer of a socket that nobody has written to: one who does not read it misses it.
 */
static void tell(int asker, const char *word, const char *what)
{
    char line[2 * BROWSER_LINE];
    int n = snprintf(line, sizeof(line), "%s %s\n", word, what);

    if (send(asker, line, MIN((size_t)n, sizeof(line) - 1), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        log_info("nobody waits for the browser any more", "error=%s", strerror(errno));
    close(asker);
}

static void tell_all(Browser *browser, const char *word, const char *what)
{
    for (size_t i = 0; i < browser->asking; i++)
        tell(browser->askers[i], word, what);
    browser->asking = 0;
    watch_askers(browser);
}

/* ---- what it says ---- */

/* Only what is plain text, whatever a browser says. */
static void take_line(Browser *browser)
{
    browser->line[browser->size] = '\0';
    for (char *c = browser->line; *c; c++)
        if ((unsigned char)*c < ' ' || (unsigned char)*c > '~')
            *c = '?';
    if (browser->size > 0)
        strcpy(browser->last, browser->line);
    browser->size = 0;
    if (*browser->url || strncmp(browser->last, READY, strlen(READY)) != 0)
        return;
    strcpy(browser->url, browser->last + strlen(READY));
    loop_timer_cancel(&browser->limit);
    tell_all(browser, "at", browser->url);
}

/* Takes output by lines. The excess of a line that is too long is left out. */
static void on_data(PipeReader *reader, const uint8_t *bytes, size_t n)
{
    Browser *browser = container_of(reader, Browser, said);

    for (size_t i = 0; i < n; i++) {
        if (bytes[i] == '\n')
            take_line(browser);
        else if (browser->size < BROWSER_LINE - 1)
            browser->line[browser->size++] = bytes[i] ? (char)bytes[i] : '?';
    }
}

/* Does nothing: the process tells its end. */
static void on_end(PipeReader *reader)
{
}

/* ---- its process ---- */

static void on_limit(LoopTimer *timer)
{
    Browser *browser = container_of(timer, Browser, limit);

    log_error("the browser does not start", "pid=%d", (int)browser->pid);
    kill(-browser->pid, SIGKILL);
}

static int open_ends(Browser *browser, SpawnSpec *spec)
{
    int pair[2];

    if (pipe2(pair, O_CLOEXEC) < 0)
        return -errno;
    spec->fds[1] = spec->fds[2] = pair[1];
    return pipe_reader_open(&browser->said, browser->loop, pair[0]);
}

/* 0 or a negative errno. */
static int start(Browser *browser)
{
    const CommandLine *command_line = browser->command_line;
    char *argv[] = {(char *)command_line->browser, NULL};
    SpawnSpec spec = {.command_line = command_line,
                      .argv = argv,
                      .environment = browser->environment->entries,
                      .directory = "/",
                      .uid = command_line->browser_uid,
                      .fds = {-1, -1, -1},
                      .fd_count = 3,
                      .is_command = true};
    pid_t pid = open_ends(browser, &spec);

    if (pid == 0)
        pid = loop_timer_set(browser->loop, &browser->limit, clock_now() + START_LIMIT, on_limit);
    if (pid == 0)
        pid = spawn(&spec);
    close_fd(&spec.fds[1]);
    if (pid < 0) {
        loop_timer_cancel(&browser->limit);
        pipe_reader_close(&browser->said);
        return (int)pid;
    }
    browser->pid = pid;
    *browser->last = *browser->url = '\0';
    browser->size = 0;
    log_info("browser started", "pid=%d", (int)pid);
    return 0;
}

static void describe_end(const Browser *browser, int status, char *ret, size_t size)
{
    const char *last = *browser->last ? browser->last : "it said nothing";

    if (loop_timer_is_set(&browser->limit) && browser->limit.due <= clock_now())
        snprintf(ret, size, "it did not start in time: %s", last);
    else if (WIFSIGNALED(status))
        snprintf(ret, size, "it was ended by signal %d: %s", WTERMSIG(status), last);
    else
        snprintf(ret, size, "it ended with exit code %d: %s", WEXITSTATUS(status), last);
}

void browser_reaped(Browser *browser, pid_t pid, int status)
{
    char why[BROWSER_LINE + 64];

    if (pid != browser->pid)
        return;
    pipe_reader_drain(&browser->said);
    if (browser->size > 0)
        take_line(browser);
    describe_end(browser, status, why, sizeof(why));
    log_info("browser ended", "pid=%d status=%d", (int)pid, status);
    kill(-pid, SIGKILL); /* the rest of its group */
    browser->pid = 0;
    *browser->url = '\0';
    pipe_reader_close(&browser->said);
    loop_timer_cancel(&browser->limit);
    tell_all(browser, "failed", why);
}

/* ---- the socket ---- */

static void on_asked(LoopFile *file, uint32_t events)
{
    Browser *browser = container_of(file, Browser, file);
    int asker = accept4(browser->listener, NULL, NULL, SOCK_CLOEXEC);
    int r;

    if (asker < 0)
        return;
    if (*browser->url) {
        tell(asker, "at", browser->url);
        return;
    }
    r = browser->pid ? 0 : start(browser);
    if (r < 0) {
        tell(asker, "failed",
             r == -EAGAIN ? "the session has as many processes as its option `pids` allows" : strerror(-r));
        return;
    }
    browser->askers[browser->asking++] = asker;
    watch_askers(browser);
}

void browser_init(Browser *browser, Loop *loop, const CommandLine *command_line,
                  const Environment *environment)
{
    int r;

    *browser = (Browser){.loop = loop,
                         .command_line = command_line,
                         .environment = environment,
                         .listener = -1,
                         .said = {.fd = -1, .on_data = on_data, .on_end = on_end}};
    if (!command_line->browser_socket)
        return;
    r = listen_at_path(command_line->browser_socket, SOMAXCONN);
    if (r >= 0) {
        browser->listener = r;
        r = loop_file_add(loop, &browser->file, browser->listener, EPOLLIN, on_asked);
    }
    if (r < 0)
        log_error("nobody can ask for a browser", "socket=%s error=%s", command_line->browser_socket,
                  strerror(-r));
}

void browser_deinit(Browser *browser)
{
    tell_all(browser, "failed", "the session ends");
    loop_timer_cancel(&browser->limit);
    pipe_reader_close(&browser->said);
    loop_file_remove(&browser->file);
    close_fd(&browser->listener);
}
