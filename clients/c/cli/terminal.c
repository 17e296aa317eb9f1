#include "clients/c/cli/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <termios.h>

#include "proto/base/buf.h"
#include "proto/limits.h"
#include "proto/wire.h"

/* ---- Ctrl-C ---- */

static LimpetClient *interrupted_client;
static volatile sig_atomic_t came;
static struct sigaction action_before;

static void on_sigint(int number)
{
    came = 1;
    limpet_interrupt_call(interrupted_client);
}

void sigint_catch(LimpetClient *client, bool once)
{
    struct sigaction action = {.sa_handler = on_sigint,
                               .sa_flags = SA_RESTART | (int)(once ? SA_RESETHAND : 0)};

    interrupted_client = client;
    if (sigaction(SIGINT, NULL, &action_before) == 0 && action_before.sa_handler != SIG_IGN)
        sigaction(SIGINT, &action, NULL);
}

void sigint_release(void)
{
    sigaction(SIGINT, &action_before, NULL);
}

/* False when a SIGINT that is caught comes, or has come since `came` was 0. SIGINT is blocked but for the
 * wait itself, so that none slips in between the question and the wait. */
static bool sigint_wait_readable(int fd)
{
    struct pollfd polled = {.fd = fd, .events = POLLIN};
    sigset_t sigint, mask;
    int n = 0;

    sigemptyset(&sigint);
    sigaddset(&sigint, SIGINT);
    sigprocmask(SIG_BLOCK, &sigint, &mask);
    while (!came && n <= 0) {
        n = ppoll(&polled, 1, NULL, &mask);
        if (n < 0 && errno != EINTR)
            break;
    }
    sigprocmask(SIG_SETMASK, &mask, NULL);
    return !came;
}

/* ---- output ---- */

static bool unread;

void output_write(LimpetClient *client, FILE *file, const char *bytes, size_t size)
{
    struct sigaction before, ignore = {.sa_handler = SIG_IGN};

    if (unread)
        return;
    sigaction(SIGPIPE, &ignore, &before);
    if (fwrite(bytes, 1, size, file) < size || fflush(file) != 0)
        unread = errno == EPIPE;
    sigaction(SIGPIPE, &before, NULL);
    if (unread)
        limpet_interrupt_call(client);
}

bool output_is_read(void)
{
    return !unread;
}

void output_end(void)
{
    if (unread)
        raise(SIGPIPE);
}

/* ---- questions ---- */

/* Byte by byte: what follows the line belongs to the next question. False at the end, or when interrupted. */
static bool read_line(Buf *line)
{
    char byte;
    ssize_t n;

    for (;;) {
        if (!sigint_wait_readable(STDIN_FILENO))
            return false;
        n = read(STDIN_FILENO, &byte, 1);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return line->size > 0;
        if (byte == '\n')
            return true;
        if (buf_append(line, &byte, 1) < 0)
            return false;
    }
}

/* Before the prompt is seen, so that nothing of the answer is shown. False where there is no terminal. */
static bool stop_echo(struct termios *before)
{
    struct termios unseen;

    if (tcgetattr(STDIN_FILENO, before) < 0)
        return false;
    unseen = *before;
    unseen.c_lflag &= ~(tcflag_t)ECHO;
    return tcsetattr(STDIN_FILENO, TCSANOW, &unseen) == 0;
}

char *input_answer(void *context, const char *prompt, bool secret)
{
    _cleanup_(buf_deinit) Buf line = {.limit = 4 * LIMIT_ASK}; /* over LIMIT_ASK the library says so */
    struct termios before;
    bool unseen = secret && stop_echo(&before), answered;

    came = 0;
    fputs(prompt, stdout);
    fflush(stdout);
    answered = read_line(&line);
    if (unseen) {
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
        putchar('\n');
        fflush(stdout);
    }
    if (!answered)
        return NULL;
    return text_dup((Text){line.size > 0 ? (const char *)buf_head(&line) : "", line.size});
}
