/* Calls: runs the calls of a session; at most one runs or waits. This alone decides when a call is over,
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

typedef struct Calls Calls;

typedef enum CallStep {
    CALL_WAITS, /* for its interpreter, or for a checkpoint */
    CALL_RUNS,
    CALL_ENDED, /* `outcome` is known; what becomes of the variables is not */
} CallStep;

typedef struct Call {
    Calls *calls;
    Branch *branch;
    CallStep step;
    uint64_t id;
    uint64_t branch_number; /* of the branch when the call came */
    uint64_t execution_count;
    uint64_t code_hash;
    char run_id[LIMIT_RUN_ID + 1];
    double timeout;
    OutputSubscription subscription;
    bool undo;             /* unless the call ends well, nothing of it stays in the variables */
    bool checkpoint_asked; /* a checkpoint was asked for, for the sake of this call */
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
} Call;

/* `id`: of the message that asks for it. `limits` must outlive the call. NULL when out of memory. */
Call *call_new(Branch *branch, uint64_t id, const MsgExecute *asked, uint64_t execution_count,
               const OutputLimits *limits);
Call *call_free(Call *call);

/* Encodes `executed` into `ret`, which is empty before. The call's outcome is settled. 0, -ENOBUFS or
 * -ENOMEM. */
int call_record(Call *call, const StateChange *change, uint64_t epoch, const EncodedNotes *restored,
                Buf *ret);

struct Calls {
    Branches *branches;
    Link *link;
    OutputLimits limits;
    Call *call; /* NULL: no call runs or waits */
    Alarm look; /* set while a call runs whose output is wanted as it comes, and for a moment longer */

    /* The last `executed`. Every new controller gets it, until the next call, or `settled`, shows that it has
     * arrived. */
    Buf record;
    uint64_t record_id; /* of the call */
};

/* `branches` and `link` outlive it. 0 or a negative errno. */
int calls_init(Calls *calls, Branches *branches, Link *link);
void calls_deinit(Calls *calls);

/* From the controller */

/* 0: a record with that id follows. -EPROTO with a Problem: the call is refused. */
int calls_execute(Calls *calls, uint64_t id, const MsgExecute *asked, Problem *problem);
void calls_interrupt(Calls *calls);
void calls_credit(Calls *calls, uint64_t id, uint64_t count);
/* The controller has the record of that call. */
void calls_settled(Calls *calls, uint64_t id);
/* -EPROTO with a Problem: the message is no answer. An answer that nobody waits for is ignored. */
int calls_answer(Calls *calls, const Message *message, Problem *problem);

/* Tells a new controller what the last one may have missed: the record, the questions. */
void calls_tell_again(Calls *calls);
void calls_on_controller_lost(Calls *calls);

/* From the branches, as BranchEvents has them */

void calls_advance(Calls *calls); /* the call begins, if what it waits for is there */
int calls_on_message(Calls *calls, Branch *branch, const Message *message, Problem *problem);
void calls_on_output(Calls *calls, Branch *branch, unsigned stream, const uint8_t *bytes, size_t n);
void calls_on_start_failed(Calls *calls, Branch *branch, const char *why);
void calls_on_lost(Calls *calls, Branch *branch, const char *fault);
bool calls_on_settled(Calls *calls, Branch *branch, StateChange *change);

/* From orders */

/* The branch's call, if there is one, ends with its branch. */
void calls_end_closed(Calls *calls, Branch *branch);
/* The branch's call ends as one that was interrupted. The processes have been ended before. */
void calls_end_reset(Calls *calls, Branch *branch);
