/* Commands: the programs that the controller has run beside the cells. What ends an interpreter leaves them
 * alone.
 *
 *   command.c     a command, from its message to its record, and what is asked about one
 *   background.c  what a process in the background has more
 *   list.c        all of them, and what somebody left behind
 *   child.c       a program that runs: what it is, its process, what it reads and writes */
#pragma once

#include <math.h>

#include "guest/supervisor/command/background.h"
#include "guest/supervisor/command/child.h"
#include "guest/supervisor/link/link.h"
#include "guest/supervisor/streams/streams.h"

/* Command: one command, or one process in the background, from its `exec` to its record. They run beside the
 * calls, and beside each other. */

/* State that all commands share. */
typedef struct CommandContext CommandContext;
struct CommandContext {
    Loop *loop;
    Link *link;
    const CommandLine *command_line;
    const Environment *environment; /* of the session */
    const OutputLimits *limits;
    gid_t mark; /* a group that all of them have, by which they are known; 0: none */
    void (*changed)(CommandContext *context); /* one of them may be over */
};

typedef enum CommandCause {
    COMMAND_BY_ITSELF,
    COMMAND_DEADLINE,
    COMMAND_INTERRUPT,
} CommandCause;

typedef struct Command {
    List link; /* Commands.list */
    CommandContext *context;
    uint64_t id; /* of its message */
    uint64_t branch;
    uint64_t code_hash;
    char run_id[LIMIT_RUN_ID + 1];
    double timeout;            /* seconds; NAN: it runs in the background */
    char line[LIMIT_NOTE + 1]; /* the command, for people */
    Background background;
    OutputSubscription subscription;
    ChildProcess child;
    Output output[OUTPUTS];
    LoopTimer limit;    /* its deadline; or when it is killed, once it was asked to end */
    CommandCause cause; /* why it was asked to end */
    bool killed;
    Buf record; /* once it has ended, until it is settled */
    bool settled;
} Command;

static inline bool command_in_background(const Command *command)
{
    return isnan(command->timeout);
}

static inline bool command_is_over(const Command *command)
{
    return command->child.pid == 0;
}

typedef struct Commands {
    CommandContext context;
    LoopIdle wake;
    List list;
} Commands;

/* All that is given outlives it. */
void commands_init(Commands *all, Loop *loop, Link *link, const CommandLine *command_line,
                   const Environment *environment, const OutputLimits *limits);
void commands_deinit(Commands *all); /* their processes have been ended before */

/* From the controller */

/* 0: a record with the message's id follows. -EPROTO with a Problem: it is refused. */
int commands_exec(Commands *all, const Message *message, Problem *problem);
/* A question about one process, or for all of them: answered now, or when it can be. -EPROTO with a Problem:
 * it is refused. */
int commands_process(Commands *all, const Message *message, Problem *problem);
int commands_list(const Commands *all, const Message *message, Problem *problem);

/* Returns whether any command runs, or has left something behind that does. */
bool commands_run(const Commands *all);

/* The controller has the record. */
void commands_settled(Commands *all, uint64_t id);
/* Returns whether that id is a command's. */
bool commands_interrupt(Commands *all, uint64_t id);
bool commands_credit(Commands *all, uint64_t id, uint64_t count);

/* Tells a new controller what the last one may have missed: the records. */
void commands_tell_again(const Commands *all);
void commands_on_controller_lost(Commands *all);
/* Writes the commands that a controller is told of when it is greeted: `commands` of guest_hello. */
void commands_write(Writer *w, const void *all);

/* From the processes */

void commands_reaped(Commands *all, pid_t pid, int status, const struct rusage *usage);
/* The processes that lead one or led what is left of it, at most `most`. Returns how many. */
size_t commands_leaders(const Commands *all, pid_t *ret, size_t most);

/* The orphan of that number: what a command left behind when it ended, and nobody waits for. 0 where it is
 * none. */
pid_t orphans_find(const Commands *all, Text number);
