/* Tasks: what the controller asks for besides calls. One that takes time is the only thing under way: it
 * waits for one thing at a time, and takes its next step when that is there.
 *
 *   task.c       what they have in common
 *   checkpoint.c  checkpoint, checkpoints, drop, rollback
 *   branch.c      branch, commit
 *   context.c     context
 *   reset.c       close, reset
 *   namespace.c   namespace
 *   saving.c      save, load */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/call/executor.h"
#include "guest/supervisor/link/link.h"

typedef struct Tasks Tasks;

typedef enum TaskAwaits {
    AWAITS_NOTHING,     /* no task is under way */
    AWAITS_INTERPRETER, /* the branch has a ready interpreter; one is started if there is none */
    AWAITS_LISTENER,    /* likewise, and nobody waits for a checkpoint of it */
    AWAITS_CHECKPOINT,  /* `checkpoint` is kept */
    AWAITS_PLACE,       /* the interpreter is in the place of its branch, or has said why not */
    AWAITS_BRANCH,      /* the branch is where it goes back to */
    AWAITS_ANSWER,      /* the interpreter has answered */
    AWAITS_MEMORY,      /* `checkpoint` has been written to a file or made from one, or is gone */
} TaskAwaits;

typedef struct Task {
    TaskAwaits awaits;
    void (*next)(Tasks *tasks); /* the step that follows */
    uint64_t id;                /* the id of its message */
    Branch *branch;             /* the branch that is waited for */
    Branch *into;               /* commit: the branch whose place it takes */
    Branch *made;               /* a branch made by this task, which ends should the task fail */
    uint64_t number; /* of the branch to be, of the checkpoint to go back to, or of the call that is loaded */
    uint64_t epoch;  /* of the branch when its interpreter was asked */
    Checkpoint *checkpoint;      /* the checkpoint it uses or takes; NULL again when that is gone */
    bool started;                /* an interpreter was started, as there was none */
    CheckpointKind kind;         /* of the checkpoint that it takes */
    bool implicit;               /* the checkpoint was taken for this task only */
    void (*taken)(Tasks *tasks); /* the step that follows when it is kept */
    char name[LIMIT_SESSION_NAME + 1];
    bool moves, loads; /* it is `save` or `load`; which */
    bool ends;         /* `save`: the sandbox is to end then */
    bool forks;        /* it goes on in both sandboxes */
    bool resumes;      /* `load`: the state is that of a session which goes on */
    uint64_t
        thawed;    /* `load`: the number of the checkpoint that was made from the memory of another sandbox */
    bool occupies; /* the branch is occupied by it, as by a call */
    char *path;    /* of the directory */
    Reason trouble; /* why the checkpoint is gone */
    LoopTimer limit;
} Task;

/* A reset that waits for the new interpreter of its branch. It comes at any time, and holds up nobody. */
typedef struct Reset {
    const Branch *branch; /* NULL: none waits */
    uint64_t id;          /* the id of its message */
} Reset;

struct Tasks {
    Branches *branches;
    Executor *executor;
    Link *link;
    Task task;                        /* the one that is under way */
    Reset resets[LIMIT_BRANCHES + 2]; /* one for each branch; the session, and the one being made, included */
};

/* All three outlive it. */
void tasks_init(Tasks *tasks, Branches *branches, Executor *executor, Link *link);
void tasks_deinit(Tasks *tasks);

/* Takes a task of the controller. 0: it has been answered or will be. -EPROTO with a Problem: it is
 * refused. */
typedef int (*TaskHandler)(Tasks *tasks, const Message *message, Problem *problem);

/* NULL when there is no such task. */
TaskHandler task_handler(MessageKind kind);

bool tasks_are_active(const Tasks *tasks);
/* Whether the one under way is about that branch. */
bool tasks_are_about(const Tasks *tasks, const Branch *branch);

/* Nobody waits for its answer, and what the next controller asks for need not either. */
void tasks_on_controller_lost(Tasks *tasks);

/* From the branches, as BranchEvents has them */

void tasks_advance(Tasks *tasks); /* the task goes on, if what it awaits is there */
void tasks_on_gone(Tasks *tasks, const Checkpoint *checkpoint, const char *why);
int tasks_on_namespace(Tasks *tasks, Branch *branch, const Message *message, Problem *problem);
int tasks_on_moved(Tasks *tasks, Branch *branch, const Message *message, Problem *problem);
/* The branch has an interpreter, or will have none. A reset that waits for it is answered. */
void tasks_on_started(Tasks *tasks, Branch *branch);
