/* Starting processes of the sandbox, and acting as the user of one. */
#pragma once

#include <sys/types.h>

#include "guest/supervisor/command_line.h"

/* More descriptors than any process begins with. */
#define SPAWN_FDS 8

typedef struct SpawnSpec {
    const CommandLine *command_line;
    char **argv; /* the program is looked for in PATH if its name has no slash */
    char **environment;
    const char *directory;
    const char *preload; /* a library that is loaded before the program begins; NULL: none */
    uid_t uid;           /* its user, if not the session's; otherwise 0 */
    gid_t mark;          /* a group that all its descendants have, whatever they do; 0: none */
    int fds[SPAWN_FDS];  /* become 0, 1 and so on; the caller's to close. -1: /dev/null */
    size_t fd_count;     /* the process has no others */
    bool terminal;       /* the first three are a terminal, which becomes its controlling one */
    bool is_command;     /* the kernel ends it before an interpreter when memory runs out, and its failure to
                          * start is told as a shell tells it, with 126, or 127 if there is no such program */
} SpawnSpec;

/* Starts a process that leads a session and a process group of its own, ends with the supervisor, and has no
 * power. One that cannot be executed says why on its standard error, and ends. The pid, or a negative errno.
 */
pid_t spawn(const SpawnSpec *spec);

/* Makes `uid` the effective user and group. Nobody of that user can reach the supervisor meanwhile: for
 * signals, limits and tracing the real and saved ids count. 0 or a negative errno; act_as_self() follows
 * either way. */
int act_as(uid_t uid);
void act_as_self(void);
