/* Commands: the programs that the controller has run beside the cells. What ends an interpreter leaves them
 * alone.
 *
 *   exec.c     a command, from its message to its record; background.c, what a process has more
 *   ask.c      what is asked about a process; list.c, all of them; orphans.c, what somebody left behind
 *   program.c  what is to be run; spawn.c: its process
 *   job.c      a program that runs: tap.c, what it writes; feed.c, what it reads */
#pragma once

#include "guest/supervisor/command/exec.h"

typedef struct Commands {
    ExecContext context;
    LoopIdle wake;
    List execs;
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

/* The one of that run_id or name, or NULL. */
Exec *commands_find(const Commands *all, Text process);

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
