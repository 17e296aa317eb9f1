/* Starting a program. */
#pragma once

#include "guest/supervisor/command_line.h"
#include "proto/base/base.h"

typedef struct ProgramPlan {
    const CommandLine *command_line;
    char **argv;
    char **environment;
    const char *directory;
    uid_t uid;     /* its user, where that is not the session's; otherwise 0 */
    gid_t mark;    /* a group that all its descendants have, whatever they do; 0: none */
    int fds[3];    /* standard input, output and error; the caller's to close */
    bool terminal; /* these are a terminal, which becomes its controlling one */
} ProgramPlan;

/* The program leads a session and a process group of its own. One that cannot be executed says so on its
 * standard error and ends with 127 when it is not there, or with 126. The pid, or a negative errno. */
pid_t spawn_program(const ProgramPlan *plan);
