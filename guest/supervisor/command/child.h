/* ChildProcess: a program that runs for somebody: its process, what it reads, what it writes. */
#pragma once

#include <sys/resource.h>

#include "guest/supervisor/command_line.h"
#include "guest/supervisor/interpreter/environment.h"
#include "guest/supervisor/streams/pipes.h"
#include "proto/schema.h"

/* CommandSpec: what is to be run, as a message has it, checked and ready for execve(). */

typedef struct CommandSpec {
    char **argv; /* NULL at the end */
    Environment environment;
    char *directory;
} CommandSpec;

/* A directory is below the session's own where it is not absolute, and /session means that on every engine.
 * 0, or -EPROTO with a Problem. */
int command_spec_init(CommandSpec *ret, const MsgProgram *said, const CommandLine *command_line,
                      const Environment *environment, Problem *problem);
void command_spec_deinit(CommandSpec *program);

/* Its line, or its arguments with spaces between, as text: `size` bytes at most, and cut short where that is
 * less. */
void command_spec_describe(const CommandSpec *program, char *ret, size_t size);

#define CHILD_STREAMS 2

typedef struct ChildProcess ChildProcess;

typedef struct ChildEvents {
    void (*output)(ChildProcess *child, unsigned stream, const uint8_t *bytes, size_t n); /* 1 or 2 */
    void (*closed)(ChildProcess *child); /* nobody writes to one of its streams any more */
    void (*ended)(ChildProcess *child);  /* its process has, and was reaped; others of it may live on */
} ChildEvents;

struct ChildProcess {
    const ChildEvents *events;
    pid_t pid; /* 0: it has ended */
    pid_t group;
    uint64_t began; /* clock_now() */
    PipeReader readers[CHILD_STREAMS];
    MsgTerminal terminal; /* as it was opened or last resized; NO_UINT: it has none */
    PipeWriter writer;

    /* Once it has ended: */
    uint64_t over; /* clock_now() */
    int status;    /* as from waitpid */
    double cpu;    /* seconds */
    uint64_t peak_memory;
};

void child_init(ChildProcess *child, const ChildEvents *events);

/* Plan of a child's start. */
typedef struct ChildPlan {
    const CommandLine *command_line;
    const CommandSpec *program;
    gid_t mark;                  /* as SpawnSpec has it */
    bool input;                  /* its standard input is fed; otherwise it is empty */
    const MsgTerminal *terminal; /* all three are a terminal of that size; NULL: pipes */
} ChildPlan;

/* 0, or -EPROTO with a Problem. */
int child_begin(ChildProcess *child, Loop *loop, const ChildPlan *plan, Problem *problem);

/* A child has been reaped. Whether it was the child's. */
bool child_reaped(ChildProcess *child, pid_t pid, int status, const struct rusage *usage);

/* To its process group. */
void child_signal(const ChildProcess *child, int number);

/* 0, or -ENOTTY where it has no terminal, or another negative errno. */
int child_resize(ChildProcess *child, const MsgTerminal *size);

/* Closes the streams: what the child's processes write from now on goes nowhere, or ends them. */
void child_close(ChildProcess *child);

/* Reads what is in its streams at this moment. */
void child_drain(ChildProcess *child);

static inline bool child_is_open(const ChildProcess *child)
{
    return pipe_reader_is_open(&child->readers[0]) || pipe_reader_is_open(&child->readers[1]);
}
