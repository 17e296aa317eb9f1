/* A terminal of a process's own: a pty, of which the supervisor has the other side. */
#pragma once

#include "guest/supervisor/command_line.h"
#include "proto/schema.h"

/* Opens both ends, as the user of the session: the terminal is theirs. 0 or a negative errno. */
int terminal_open(const CommandLine *command_line, const MsgTerminal *size, int *ret_own, int *ret_program);

/* `own` is the supervisor's end. The program is told by SIGWINCH. 0 or a negative errno. */
int terminal_resize(int own, const MsgTerminal *size);
