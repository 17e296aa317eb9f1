/* The OCI runtime (runc, crun, runsc): finding it, running its commands on the loop, a few at a time, and
 * what it runs under. */
#pragma once

#include <sys/types.h>

#include "proto/base/base.h"
#include "proto/base/loop.h"
#include "proto/base/problem.h"

typedef enum RuntimeKind {
    RUNTIME_RUNC, /* and whatever says nothing else of itself */
    RUNTIME_CRUN,
    RUNTIME_RUNSC,
} RuntimeKind;

typedef struct Runtime {
    Loop *loop;
    char *path; /* absolute */
    char *root; /* directory of its state */
    RuntimeKind kind;
    bool groupless;             /* containers have no control groups */
    char name[16], version[48]; /* as it says */
    List waiting;
    unsigned running;
    LoopIdle idle;
} Runtime;

#define RUNTIME_ARGUMENTS 24

/* A command of the runtime. Embedded in its owner, which keeps it and the arguments alive until on_done. */
typedef struct RuntimeJob {
    Runtime *runtime;
    List link;
    const char *arguments[RUNTIME_ARGUMENTS];
    size_t argument_count;
    LoopChild child;
    LoopTimer timer;
    void (*on_done)(struct RuntimeJob *job, int status);
} RuntimeJob;

/* Finds the program and asks for its version; blocks. ENGINE_ERROR in problem when it cannot be used. */
int runtime_init(Runtime *runtime, Loop *loop, const char *program, const char *root, Problem *problem);
void runtime_deinit(Runtime *runtime); /* no job may be under way */

/* Returns whether the version is older than the fixes of CVE-2025-31133 and its kind. */
bool runtime_is_dated(const Runtime *runtime);

/* Begins a command with the flags that every command gets: `log` is the file errors go to. `with`, NULL or
 * ended by NULL, is a program and its arguments that executes the runtime. */
void runtime_job_init(RuntimeJob *job, Runtime *runtime, const char *const *with, const char *log,
                      const char *network);
void runtime_job_add(RuntimeJob *job, const char *argument);

/* Queues the command. on_done comes later, never from here: status is as from waitpid, or a negative errno
 * when the program could not be started. A command that takes a minute is killed. */
void runtime_job_start(RuntimeJob *job, void (*on_done)(RuntimeJob *job, int status));

/* Reads the file of --pid-file. 0 or a negative errno. */
int runtime_read_pid(const char *path, pid_t *ret);

/* Returns whether the runtime has started that process, and no earlier one with its pid, as the first one of
 * the container `name`. */
bool runtime_has_started(const Runtime *runtime, const char *name, pid_t pid);

/* The last error in the log of a command; "" when there is none. */
void runtime_log_message(const char *log, char *ret, size_t size);

/* The clock of containers. CLOCK_MONOTONIC counts from the start of a machine; theirs, in a time namespace,
 * counts from a date, on every machine. So it does not go back for a session whose memory goes on after a
 * restart or elsewhere: what waits for a deadline there waits no longer than it should. */
typedef struct ContainerClock {
    char *program;       /* that makes the namespace; NULL: containers have the clock of the machine */
    char offset[48];     /* its argument */
    const char *with[4]; /* for runtime_job_init() */
} ContainerClock;

/* Finds out whether containers can have one; blocks. `ret` stays where it is. 0, or a negative errno: they
 * have the clock of the machine. */
int container_clock_open(ContainerClock *ret, const Runtime *runtime);
void container_clock_close(ContainerClock *clock);
