/* The command line of limpet-guest. */
#pragma once

/* The session's directory as everything that leaves the sandbox names it, wherever --directory is: clients
 * name files alike on every engine. */
#define SESSION_PATH "/session"

/* The home of the interpreter's user. Without a user of its own that is the session's directory. */
#define HOME_PATH "/home/user"

/* Socket at which pip in the sandbox asks for packages, and the variable that names another one. */
#define PIP_SOCKET   "/run/limpet-pip"
#define PIP_VARIABLE "LIMPET_PIP"

#include <stdbool.h>
#include <sys/types.h>

#include "proto/limits.h"

typedef struct CommandLine {
    const char *link;      /* the session's directory of the host: sock, session, secret */
    const char *directory; /* where cells run: /session */
    char interpreter[LIMIT_PATH];
    char browser[LIMIT_PATH];
    const char *browser_socket; /* where it is asked for; NULL: nowhere */
    uid_t uid;                  /* user and group of the interpreter */
    uid_t browser_uid;          /* user of the browser, whose group is the interpreter's */
    bool same_user;             /* the interpreter keeps the supervisor's uid */
    double orphan_timeout;      /* seconds without a controller until the supervisor ends itself */
} CommandLine;

/* 0; 1 after --help or --version; -EINVAL after a message on standard error. */
int command_line_parse(CommandLine *ret, int argc, char **argv);
