/* Job: a program that runs for somebody: its process, what it reads, what it writes. */
#pragma once

#include <sys/resource.h>

#include "guest/supervisor/command_line.h"
#include "guest/supervisor/interpreter/environment.h"
#include "guest/supervisor/streams/pipes.h"
#include "proto/schema.h"

/* Program: what is to be run, as a message has it, checked and ready for execve(). */

typedef struct Program {
    char **argv; /* NULL at the end */
    Environment environment;
    char *directory;
} Program;

/* A directory is below the session's own where it is not absolute, and /session means that on every engine.
 * 0, or -EPROTO with a Problem. */
int program_init(Program *ret, const MsgProgram *said, const CommandLine *command_line,
                 const Environment *environment, Problem *problem);
void program_deinit(Program *program);

/* Its line, or its arguments with spaces between, as text: `size` bytes at most, and cut short where that is
 * less. */
void program_describe(const Program *program, char *ret, size_t size);

#define JOB_STREAMS 2

typedef struct Job Job;

typedef struct JobEvents {
    void (*output)(Job *job, unsigned stream, const uint8_t *bytes, size_t n); /* 1 or 2 */
    void (*closed)(Job *job); /* nobody writes to one of its streams any more */
    void (*ended)(Job *job);  /* its process has, and was reaped; others of it may live on */
} JobEvents;

struct Job {
    const JobEvents *events;
    pid_t pid; /* 0: it has ended */
    pid_t group;
    uint64_t began; /* clock_now() */
    PipeReader readers[JOB_STREAMS];
    MsgTerminal terminal; /* as it was opened or last resized; NO_UINT: it has none */
    PipeWriter writer;

    /* Once it has ended: */
    uint64_t over; /* clock_now() */
    int status;    /* as from waitpid */
    double cpu;    /* seconds */
    uint64_t peak_memory;
};

void job_init(Job *job, const JobEvents *events);

/* Plan of a job's start. */
typedef struct JobPlan {
    const CommandLine *command_line;
    const Program *program;
    gid_t mark;                  /* as SpawnSpec has it */
    bool input;                  /* its standard input is fed; otherwise it is empty */
    const MsgTerminal *terminal; /* all three are a terminal of that size; NULL: pipes */
} JobPlan;

/* 0, or -EPROTO with a Problem. */
int job_begin(Job *job, Loop *loop, const JobPlan *plan, Problem *problem);

/* A child has been reaped. Whether it was the job's. */
bool job_reaped(Job *job, pid_t pid, int status, const struct rusage *usage);

/* To its process group. */
void job_signal(const Job *job, int number);

/* 0, or -ENOTTY where it has no terminal, or another negative errno. */
int job_resize(Job *job, const MsgTerminal *size);

/* Closes the streams: what the job's processes write from now on goes nowhere, or ends them. */
void job_close(Job *job);

/* Reads what is in its streams at this moment. */
void job_drain(Job *job);

static inline bool job_is_open(const Job *job)
{
    return pipe_reader_is_open(&job->readers[0]) || pipe_reader_is_open(&job->readers[1]);
}
