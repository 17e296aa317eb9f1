/* The egress process: what sandboxes reach of the network goes through it. It speaks HTTP as a proxy to code
 * that may be hostile, finds names, checks addresses and connects, with the rights of nobody. The controller
 * tells it whom it serves. */
#pragma once

#include "host/privilege/helper.h"
#include "proto/base/problem.h"

#define EGRESS_PROGRAM "limpet-egress"

/* Starts one, as helper_start() has it, which logs what is at least of that level. `account` is whose rights
 * it has, NULL for our own. */
int egress_start(Loop *loop, LoopChild *child, const Account *account, const char *log_level, int socket);

/* Main function of that process. */
int egress_main(int argc, char **argv);
