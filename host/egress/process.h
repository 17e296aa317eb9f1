/* The process that serves: limpetd itself, executed once more, so that nothing of whoever starts it is in its
 * memory. */
#pragma once

#include "host/privilege/drop.h"

/* What it is called, by which main() knows it. */
#define EGRESS_PROGRAM "limpet-egress"

/* Starts one, which ends with us and logs what is at least of that level. `account` is whose rights it has,
 * NULL for our own. The socket leads to it. 0 or a negative errno. */
int egress_start(const Account *account, const char *log_level, pid_t *ret_pid, int *ret_socket);

/* What that is: its main(). */
int egress_main(int argc, char **argv);
