/* Executor: runs the calls of a session; at most one runs or waits. This alone decides when a call is over,
 * and what its status and state are. */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/call/result.h"
#include "guest/supervisor/link/link.h"
#include "guest/supervisor/streams/streams.h"
#include "proto/base/loop.h"

/* Interruption of one call: from its deadline, or from an interrupt, up to the point where it is killed. */

typedef enum InterruptionStep {
    INTERRUPTION_STEP_WAIT,     /* for the deadline */
    INTERRUPTION_STEP_ASK,      /* SIGINT */
    INTERRUPTION_STEP_ASK_MORE, /* SIGINT again, LADDER_SECOND_SIGINT after the first */
    INTERRUPTION_STEP_KILL,     /* LADDER_KILL after the first */
} InterruptionStep;

typedef struct Interruption Interruption;

struct Interruption {
    Loop *loop;
    LoopTimer timer;
    InterruptionStep step; /* the last one taken */
    InterruptionCause cause;
    bool paused;
    uint64_t left; /* nanoseconds until the deadline, while paused */
    void (*on_step)(Interruption *interruption, InterruptionStep step);
};

/* Waits for the deadline. 0 or -ENOMEM. */
int interruption_begin(Interruption *interruption, Loop *loop, uint64_t deadline,
                       void (*on_step)(Interruption *, InterruptionStep));

void interruption_end(Interruption *interruption);

/* A call, from its `execute` to its record. */

typedef struct Executor Executor;

typedef enum CellStep {
    CELL_WAITS, /* for its interpreter, or for a checkpoint */
    CELL_RUNS,
    CELL_ENDED, /* `outcome` is known; what becomes of the variables is not */
} CellStep;

typedef struct Cell {
    Executor *executor;
    Branch *branch;
    CellStep step;
    uint64_t id;
    uint64_t branch_number; /* of the branch when the call came */
    uint64_t execution_count;
    uint64_t code_hash;
    char run_id[LIMIT_RUN_ID + 1];
    double timeout;
    OutputSubscription subscription;
    bool undo;             /* unless the call ends well, nothing of it stays in the variables */
    bool checkpoint_asked; /* a checkpoint was asked for, for the sake of this cell */
    Buf request;           /* message to the interpreter */
    uint64_t started;      /* clock_now() when it began; 0: it has not */
    double duration;       /* seconds, once it has ended */
    Interruption interruption;
    Output output[STREAMS];
    Output between[STREAMS]; /* output between the call before and its beginning */
    Displays displays;
    Questions questions;
    Outcome outcome;
    Buf words; /* the texts of `outcome`, where it has to wait */
    Protection protection;
} Cell;

/* `id`: of the message that asks for it. `limits` must outlive the cell. NULL when out of memory. */
Cell *cell_new(Branch *branch, uint64_t id, const MsgExecute *asked, uint64_t execution_count,
               const OutputLimits *limits);
Cell *cell_free(Cell *cell);

/* Encodes `executed` into `ret`, which is empty before. The cell's outcome is settled. 0, -ENOBUFS or
 * -ENOMEM. */
int cell_record(Cell *cell, const StateChange *change, uint64_t epoch, const EncodedNotes *restored,
                Buf *ret);

struct Executor {
    Branches *branches;
    Link *link;
    OutputLimits limits;
    Cell *cell; /* NULL: no call runs or waits */
    Alarm look; /* set while a call runs whose output is wanted as it comes, and for a moment longer */

    /* The last `executed`. Every new controller gets it, until the next call, or `settled`, shows that it has
     * arrived. */
    Buf record;
    uint64_t record_id; /* of the call */
};

/* `branches` and `link` outlive it. 0 or a negative errno. */
int executor_init(Executor *executor, Branches *branches, Link *link);
void executor_deinit(Executor *executor);

/* From the controller */

/* 0: a record with that id follows. -EPROTO with a Problem: the call is refused. */
int executor_execute(Executor *executor, uint64_t id, const MsgExecute *asked, Problem *problem);
void executor_interrupt(Executor *executor);
void executor_credit(Executor *executor, uint64_t id, uint64_t count);
/* The controller has the record of that call. */
void executor_settled(Executor *executor, uint64_t id);
/* -EPROTO with a Problem: the message is no answer. An answer that nobody waits for is ignored. */
int executor_answer(Executor *executor, const Message *message, Problem *problem);

/* Tells a new controller what the last one may have missed: the record, the questions. */
void executor_tell_again(Executor *executor);
void executor_on_controller_lost(Executor *executor);

/* From the branches, as BranchEvents has them */

void executor_advance(Executor *executor); /* the call begins, if what it waits for is there */
int executor_on_message(Executor *executor, Branch *branch, const Message *message, Problem *problem);
void executor_on_output(Executor *executor, Branch *branch, unsigned stream, const uint8_t *bytes, size_t n);
void executor_on_start_failed(Executor *executor, Branch *branch, const char *why);
void executor_on_lost(Executor *executor, Branch *branch, const char *fault);
bool executor_on_settled(Executor *executor, Branch *branch, StateChange *change);

/* From tasks */

/* The branch's call, if there is one, ends with its branch. */
void executor_end_closed(Executor *executor, Branch *branch);
/* The branch's call ends as one that was interrupted. The processes have been ended before. */
void executor_end_reset(Executor *executor, Branch *branch);
