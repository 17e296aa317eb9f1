/* A branch: one line of live state, the session itself (number 0) or what was branched off from it. It owns
 * an interpreter, and knows from which checkpoint the variables in that came.
 *
 *   branch.c    its interpreter: starts, gets ready, speaks
 *   freeze.c    checkpoints of it; policy.c: those that are taken by themselves
 *   recovery.c  its interpreter is lost: back to a checkpoint, or to a new one */
#pragma once

#include "guest/supervisor/alarm.h"
#include "guest/supervisor/checkpoint.h"
#include "guest/supervisor/fate.h"
#include "guest/supervisor/interpreter.h"
#include "guest/supervisor/outcome.h"

typedef struct Branch Branch;
typedef struct Supervisor Supervisor;

/* When checkpoints are taken by themselves (policy.c). */
typedef struct Policy {
    Alarm quiet;       /* set while there is something that could be kept */
    uint64_t last_end; /* of a call; all times are clock_now() nanoseconds */
    uint64_t busy;     /* spent in calls since the last checkpoint */
    bool exposed;      /* the checkpoint it stood on has gone, and one before that may be any distance away */
    uint64_t cost;     /* of one */
    uint64_t retry;    /* not before then, after a failure; 0: any time */
    uint64_t pause;    /* after the next failure */
    Reason trouble;    /* why the newest state has none; empty: it did not come to it */
} Policy;

/* Going back to a checkpoint, while it is under way (recovery.c). */
typedef struct Recovery {
    bool active;
    Checkpoint *next; /* to be tried next; NULL: nothing is left to go back to */
    bool wanted;      /* someone asked for `next`; after it comes the branch's own line */
    bool fresh;       /* there is nothing to go back to: a copy of the birth checkpoint begins anew, and no
                         record tells of it */

    bool copying;             /* a copy is to say `ready`: */
    uint64_t restore;         /* asked for with this id */
    uint64_t number;          /* of its checkpoint, */
    uint64_t execution_count; /* the last call whose effects are in it, */
    uint64_t lost_calls;      /* and how many of the branch's are not */
    Checkpoint *from;         /* that; or, as it has gone meanwhile, the one before it */
    bool gone;
    uint64_t calls; /* between `from` and the copy's state */

    uint64_t end;   /* then it is given up */
    int ended;      /* processes that ended with the interpreter */
    Reason trouble; /* why the last one that was tried did not do */
} Recovery;

struct Branch {
    List link; /* Supervisor.branches */
    Supervisor *supervisor;
    uint64_t number;
    Interpreter interpreter;
    LoopTimer start; /* set while the interpreter is to get ready */
    Reason failure;  /* why there is none */

    uint64_t epoch;
    uint64_t execution_count; /* of the last call, whatever became of its effects */
    Checkpoint *base;         /* the live state came from there; NULL: from a fresh interpreter */
    uint64_t calls;           /* that ran on it since then, */
    uint64_t state_count;     /* the last of them */

    Checkpoint *taking; /* the interpreter has yet to say that it has made it */
    uint64_t asked;     /* clock_now() then */
    Policy policy;

    Recovery recovery;
    bool outdated; /* its interpreter was not started with the session's environment, nor told of it yet */
    bool doomed;   /* branch_doom() */
    Reason fault;  /* why; empty: to undo what the last call did */
    bool newborn;  /* to be copied from a checkpoint for the first time */
    bool ending;   /* its interpreter has ended or is being ended: what it still says of a call is too late */
    unsigned idle_losses; /* of the interpreter since a call ended by itself */
    Fate untold;          /* what became of the variables since the last record */

    bool resetting; /* a reset waits for the new interpreter */
    uint64_t reset_id;
};

/* Without an interpreter. NULL when out of memory. */
Branch *branch_new(Supervisor *supervisor, uint64_t number);
/* Its processes have been ended. */
Branch *branch_free(Branch *branch);
/* Ends its processes and its automatic checkpoints, and frees it. */
void branch_end(Branch *branch);

bool branch_is_ready(const Branch *branch);

/* Whether `base` is a checkpoint, perhaps a pending one, of exactly the live state. */
bool branch_is_exact(const Branch *branch);

/* The last call whose effects are in RAM; 0: none. */
uint64_t branch_state_count(const Branch *branch);

/* An interpreter with nothing in it: a copy of the birth checkpoint or, without that, a new process. 0 or a
 * negative errno, then branch->failure says why. */
int branch_start(Branch *branch);
int branch_spawn(Branch *branch); /* the new process */

/* It was not ready, and will not be: whoever waits for it is told. */
void branch_start_failed(Branch *branch, const char *why);

/* An interpreter that is a copy of a checkpoint. 0 or a negative errno. */
int branch_copy(Branch *branch, Checkpoint *checkpoint);

/* Where the branch would go back to now. */
void branch_protection(const Branch *branch, Protection *ret);

/* A reset waits: answers it. */
void branch_finish_reset(Branch *branch);

/* freeze.c */

/* Asks the interpreter, which is ready, for a checkpoint of its state; it becomes the base. 0 or a negative
 * errno with `why`. */
int branch_freeze(Branch *branch, CheckpointKind kind, const char *name, Reason why);
int branch_on_checkpointed(Branch *branch, const Message *message, Problem *problem);
void branch_on_kept(Branch *branch, Checkpoint *checkpoint);
void branch_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why);

/* policy.c */

int policy_init(Branch *branch);
void policy_deinit(Branch *branch);

/* A call has ended, or the interpreter is ready: there may be something to keep once it is quiet. */
void policy_on_quiet(Branch *branch, uint64_t now);
void policy_on_run(Branch *branch, uint64_t now); /* a call is about to run */
/* What one took, in nanoseconds. It counts at most twice the last: a moment at which the machine is busy
 * makes one seem dear, and the next would come too late. */
void policy_on_cost(Branch *branch, uint64_t cost);
void policy_on_failure(Branch *branch, const char *why);
void policy_on_success(Branch *branch);
void policy_on_taken(Branch *branch); /* one is in the making */
void policy_on_gone(Branch *branch);  /* that which the state stood on */
void policy_forget(Branch *branch);   /* the live state is another one */
/* Why the newest state has no checkpoint; empty when it just did not come to it. */
void policy_why_none(const Branch *branch, Reason ret);

/* recovery.c */

/* Its interpreter has died, or is to die: ends it with all that it left, and goes back. A call of the branch
 * ends with that. */
void branch_lose(Branch *branch, const Loss *loss);

/* Before the loop waits again its interpreter is ended: for a fault of it or, without one, to undo the call
 * that has just ended. */
void branch_doom(Branch *branch, const char *fault);

/* What has happened since the last time and cannot be dealt with where it is noticed: an interpreter that has
 * ended or is doomed, a recovery whose step has failed. */
void branch_sweep(Branch *branch);

/* Begins anew with a copy of the birth checkpoint. Whether there is one. */
bool branch_begin_anew(Branch *branch);

/* Its live state is that of the birth checkpoint, if there is one: which protects it as others do, unless
 * there are to be none. */
void branch_stand_on_birth(Branch *branch);

/* Replaces the live state by that of `checkpoint`, or else by the newest that can be had. */
void branch_go_back(Branch *branch, Checkpoint *checkpoint);

/* Ends its interpreter, and all processes that belong to no other branch or checkpoint. How many there were.
 */
int branch_end_processes(Branch *branch);

/* The copy that is being made does not come, for that reason. */
void recovery_refused(Branch *branch, const char *why);
void recovery_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why);
/* The copy is ready; `notes`, which are taken, say what is not in it. */
void recovery_ready(Branch *branch, Notes *notes);
void recovery_note_processes(const Branch *branch, Notes *notes);
/* Forgets every checkpoint of its line: a fresh interpreter follows. */
void recovery_abandon(Branch *branch);

DEFINE_CLEANUP(Branch *, branch_free);
