/* What the parts of an interpreter do for each other; nobody else includes this. */
#pragma once

#include "guest/supervisor/interpreter/interpreter.h"

/* spawn.c */

typedef struct SpawnPlan {
    const CommandLine *command_line;
    char **environment;
    uint64_t memory;  /* of the sandbox, bytes; 0: unlimited */
    const char *kept; /* the file from which it becomes a frozen copy; NULL: it begins anew */
    int channel;      /* becomes CHANNEL_FD; this and the next three stay the caller's */
    int ring;         /* becomes RING_FD; -1: none */
    int out;          /* becomes standard output */
    int err;          /* becomes standard error; a failure to start is told there in one line */
} SpawnPlan;

/* Starts a process that leads a session and process group of its own. It has no descriptor but standard input
 * (nothing to read), output, error, the channel and the rings. The pid, or a negative errno. */
pid_t spawn_interpreter(const SpawnPlan *plan);

/* dialogue.c */

/* Watches the channel. 0 or a negative errno. */
int interpreter_listen(Interpreter *interpreter);

/* Takes the messages that a process has left in its channel. */
void interpreter_take_last_messages(Interpreter *interpreter);
