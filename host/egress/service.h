/* The egress process where it serves the controllers of other machines: each connection says by sealed rules
 * what it may reach, and goes on as one that comes from a sandbox of this machine. It keeps nothing: as many
 * of it as one likes serve the same sessions. */
#pragma once

#include "host/privilege/confine.h"

/* Serves what connects to the socket, which is taken over, until SIGTERM. `key` is the path of the file with
 * the key of the rules; `account` is whose rights it keeps, NULL for our own. 0, or negative with the problem
 * set. */
int egress_service_run(int listening, const char *key, const Account *account, Problem *problem);
