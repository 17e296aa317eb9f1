/* Versions in the sandbox: that of Python, those of all packages, and requirements of the installed ones. */
#pragma once

#include "clients/c/client.h"
#include "clients/c/saving/json_read.h"

typedef struct Versions {
    struct json_object *said, *packages, *requirements;
    Text python;
} Versions;

#define VERSIONS_NULL ((Versions){0})

/* The command that tells; NULL at the end. */
extern const char *const versions_command[];

/* Asked of a process of its own: nothing of the variables is touched. 0, or -EPROTO with the client's
 * problem. */
int versions_ask(Versions *ret, LimpetClient *client, const char *session);
void versions_deinit(Versions *versions);
