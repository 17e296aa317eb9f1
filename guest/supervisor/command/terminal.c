#include "guest/supervisor/command/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "guest/supervisor/process/act.h"
#include "proto/base/base.h"

int terminal_resize(int own, const MsgTerminal *size)
{
    struct winsize window = {.ws_row = (unsigned short)size->rows, .ws_col = (unsigned short)size->columns};

    return ioctl(own, TIOCSWINSZ, &window) < 0 ? -errno : 0;
}

static int open_as(const CommandLine *command_line)
{
    int fd, r = command_line->same_user ? 0 : act_as(command_line->uid);

    fd = r < 0 ? r : posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (r == 0 && fd < 0)
        fd = -errno;
    if (!command_line->same_user)
        act_as_self();
    return fd;
}

int terminal_open(const CommandLine *command_line, const MsgTerminal *size, int *ret_own, int *ret_program)
{
    _cleanup_(closep) int own = open_as(command_line);
    int locked = 0, program, r;

    if (own < 0)
        return own;
    r = terminal_resize(own, size);
    if (r < 0)
        return r;
    if (ioctl(own, TIOCSPTLCK, &locked) < 0)
        return -errno;
    program = ioctl(own, TIOCGPTPEER, O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (program < 0)
        return -errno;
    *ret_own = take_fd(&own);
    *ret_program = program;
    return 0;
}
