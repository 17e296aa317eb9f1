#include "clients/c/cli/input.h"

#include <errno.h>
#include <stdio.h>
#include <termios.h>

#include "clients/c/cli/sigint.h"
#include "proto/base/buf.h"
#include "proto/limits.h"
#include "proto/wire.h"

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

    sigint_forget();
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
