/* Exec: one command, or one process in the background, from its `exec` to its record. They run beside the
 * calls, and beside each other. */
#pragma once

#include <math.h>

#include "guest/supervisor/command/background.h"
#include "guest/supervisor/command/job.h"
#include "guest/supervisor/link/attention.h"
#include "guest/supervisor/streams/output.h"

/* State that all commands share. */
typedef struct ExecContext ExecContext;
struct ExecContext {
    Loop *loop;
    Link *link;
    const CommandLine *command_line;
    const Environment *environment; /* of the session */
    const OutputLimits *limits;
    gid_t mark; /* a group that all of them have, by which they are known; 0: none */
    void (*changed)(ExecContext *context); /* one of them may be over */
};

typedef enum ExecCause {
    EXEC_BY_ITSELF,
    EXEC_DEADLINE,
    EXEC_INTERRUPT,
} ExecCause;

typedef struct Exec {
    List link; /* Commands.execs */
    ExecContext *context;
    uint64_t id; /* of its message */
    uint64_t branch;
    uint64_t code_hash;
    char run_id[LIMIT_RUN_ID + 1];
    double timeout;            /* seconds; NAN: it runs in the background */
    char line[LIMIT_NOTE + 1]; /* the command, for people */
    Background background;
    Attention attention;
    Job job;
    Output output[OUTPUTS];
    LoopTimer limit; /* its deadline; or when it is killed, once it was asked to end */
    ExecCause cause; /* why it was asked to end */
    bool killed;
    Buf record; /* once it has ended, until it is settled */
    bool settled;
} Exec;

/* Starts it. NULL with a Problem. */
Exec *exec_new(ExecContext *context, uint64_t id, const MsgExecOrder *asked, Problem *problem);
Exec *exec_free(Exec *exec);

static inline bool exec_in_background(const Exec *exec)
{
    return isnan(exec->timeout);
}

static inline bool exec_is_over(const Exec *exec)
{
    return exec->job.pid == 0;
}

void exec_interrupt(Exec *exec);
void exec_credit(Exec *exec, uint64_t count);
void exec_unattended(Exec *exec); /* the controller is gone */
void exec_send_record(const Exec *exec);
void exec_say_started(const Exec *exec); /* of one in the background */
