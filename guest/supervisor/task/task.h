/* Tasks: what the controller asks for besides calls. One that takes time is the only thing under way: it
 * waits for one thing at a time, and takes its next step when that is there.
 *
 *   task.c        what they have in common; close, reset, context, namespace
 *   checkpoint.c  checkpoint, checkpoints, drop, rollback, branch, commit
 *   saving.c      save, load */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/call/call.h"
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
    void (*next)(Tasks *tasks);  /* the step that follows */
    uint64_t id;                 /* the id of its message */
    Branch *branch;              /* the branch that is waited for */
    Branch *into;                /* commit: the branch whose place it takes */
    Branch *made;                /* a branch made by this task, which ends should the task fail */
    uint64_t new_branch;         /* branch: the number of the branch to be */
    uint64_t checkpoint_number;  /* rollback, load: of the checkpoint to go back to */
    uint64_t execution_count;    /* load: of the call whose state is loaded */
    uint64_t epoch;              /* of the branch when its interpreter was asked */
    Checkpoint *checkpoint;      /* the checkpoint it uses or takes; NULL again when that is gone */
    CheckpointKind kind;         /* of the checkpoint that it takes */
    bool implicit;               /* the checkpoint was taken for this task only */
    void (*taken)(Tasks *tasks); /* the step that follows when it is kept */
    char name[LIMIT_SESSION_NAME + 1];
    bool moves, loads; /* it is `save` or `load`; which */
    bool ends;         /* `save`: the sandbox is to end then */
    bool adds;         /* `save`: the memory is there already; it gives way to anything else */
    bool forks;        /* it goes on in both sandboxes */
    bool resumes;      /* `load`: the state is that of a session which goes on */
    bool memory;       /* the memory is written, or taken where it fits */
    char *path;        /* of the directory */
    Buf unreported;    /* `load`: what the branch has to tell then, an encoded map; empty: nothing */
    Reason trouble;    /* why the checkpoint is gone */
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
    bool ended;                       /* the memory was written, for the sandbox to end */
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

static inline bool tasks_are_active(const Tasks *tasks)
{
    return tasks->task.awaits != AWAITS_NOTHING;
}

/* Returns whether the one under way is about that branch. */
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

/* Between tasks */

/* 0, or -EPROTO with a Problem when a call or a task is under way. */
int task_check_idle(const Tasks *tasks, Problem *problem);
/* Begins a task about `branch`. As task_check_idle(). */
int task_begin(Tasks *tasks, const Message *message, Branch *branch, Problem *problem);
/* The task goes on with `next` when what it awaits is there. */
void task_await(Tasks *tasks, TaskAwaits awaits, void (*next)(Tasks *));
/* The task goes on with `next` when task->checkpoint is kept: one of exactly the branch's live state. It is
 * taken now, unless an automatic one will do and exists. */
void task_take_checkpoint(Tasks *tasks, CheckpointKind kind, void (*next)(Tasks *));

/* The task is over. */
void task_done(Tasks *tasks);
void task_refuse(Tasks *tasks, ErrorCode code, const char *format, ...) _printf_(3, 4);
/* Ends the task that is under way with an error, because what it was about is gone. */
void task_cancel(Tasks *tasks, const char *why);

/* Something else is asked for, to which one gives way that only adds. */
static inline void tasks_give_way(Tasks *tasks)
{
    if (tasks->task.adds)
        task_cancel(tasks, "the session is in use again");
}

/* Sends the task's answer, a `type`. 0, or as link_say(). */
#define task_answer(tasks, id, type, from) link_reply((tasks)->link, id, type, from)

int task_find_branch(Branch **ret, const Tasks *tasks, uint64_t number, Problem *problem);
/* Checks that there may be a new branch of that number. */
int task_check_new(const Tasks *tasks, uint64_t number, Problem *problem);
int task_find_checkpoint(Checkpoint **ret, const Tasks *tasks, Text id_or_name, Problem *problem);

/* Handlers, one for each kind */

int task_checkpoint(Tasks *tasks, const Message *message, Problem *problem);
int task_checkpoints(Tasks *tasks, const Message *message, Problem *problem);
int task_drop(Tasks *tasks, const Message *message, Problem *problem);
int task_rollback(Tasks *tasks, const Message *message, Problem *problem);
int task_branch(Tasks *tasks, const Message *message, Problem *problem);
int task_commit(Tasks *tasks, const Message *message, Problem *problem);
int task_move(Tasks *tasks, const Message *message, Problem *problem);

/* The interpreter has not done what it was asked for. */
void task_unanswered(Tasks *tasks, const char *why);
/* Likewise, for it is gone. */
void task_interpreter_lost(Tasks *tasks);
