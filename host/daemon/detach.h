/* Serving in the background, the way tmux starts its server: the caller's process returns once clients can
 * connect, or with the words of what went wrong. */
#pragma once

#include "host/config/paths.h"

/* Forks. In the parent it returns the exit status (0 when the socket answers; words on stderr otherwise); in
 * the child -1, with *ret_report to give to detach_report. */
int detach(const Paths *paths, int *ret_report);

/* In the child: NULL says that clients can connect, text says why not. Closes the descriptor. */
void detach_report(int *report, const char *text);
