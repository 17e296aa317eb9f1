#include "clients/c/cli/raw.h"

#include <stdbool.h>
#include <stdlib.h>
#include <termios.h>
#include <unistd.h>

static struct termios before;
static bool is_raw;

void raw_begin(void)
{
    static bool at_exit;
    struct termios raw;

    if (is_raw || tcgetattr(STDIN_FILENO, &before) < 0)
        return;
    raw = before;
    cfmakeraw(&raw);
    if (!at_exit)
        at_exit = atexit(raw_end) == 0;
    is_raw = tcsetattr(STDIN_FILENO, TCSADRAIN, &raw) == 0;
}

void raw_end(void)
{
    if (is_raw)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
    is_raw = false;
}
