/* A branch: one line of live state, the session itself (number 0) or what was branched off from it. It owns
 * an interpreter, and knows from which checkpoint the variables in that came.
 *
 *   branch.c       its interpreter starts, gets ready and speaks; checkpoints are taken of it
 *   recovery.c     its interpreter is lost: back to a checkpoint, or to a new one; whose processes live on
 *   branch_state.c its states, the moves between them that branch_states.def has, and what becomes of its
 *                  variables
 *
 * A branch knows neither calls nor orders. Whoever has some hears of it by BranchEvents. */
#pragma once

#include "guest/supervisor/checkpoint/checkpoint.h"
#include "guest/supervisor/interpreter/interpreter.h"
#include "guest/supervisor/streams/streams.h"
#include "proto/base/loop.h"
#include "proto/schema.h"

/* StateChange: the end of live state, and what the variables of a session or branch are since then. */

typedef enum State {
    STATE_KEPT,
    STATE_ROLLED_BACK,
    STATE_LOST,
} State;

/* A reason why variables are not what a reader would expect. Its text is our own, or checked. */
typedef char Reason[LIMIT_NOTE + 1];

/* Notes: short texts for a person about what a copy of memory does not bring back. They stay encoded, as they
 * are only passed on. */
typedef struct EncodedNotes {
    Buf encoded;
    size_t n;
} EncodedNotes;

#define NOTES_NULL ((EncodedNotes){0})

typedef struct StateChange {
    State state;
    uint64_t checkpoint;      /* STATE_ROLLED_BACK: the number of the checkpoint that it went back to */
    uint64_t execution_count; /* the last call whose effects are in RAM */
    uint64_t calls;           /* calls that have no effect any more, the one that ended it left out */
    Reason reason;            /* why no later state had a checkpoint; empty: calls came too fast */
    EncodedNotes not_restored;
    Value
        memory; /* STATE_ROLLED_BACK: what holds most of it; absent: it was not asked for, or nobody waits */
} StateChange;

#define STATE_UNCHANGED ((StateChange){0})

void state_change_deinit(StateChange *change);

/* `to` gets what was in `from`, which is STATE_UNCHANGED afterwards. */
void state_change_move(StateChange *to, StateChange *from);

/* The reason where there is no other. */
extern const char state_change_no_checkpoint[];

/* Appends "; its variables are …" to a sentence. */
void state_change_describe(const StateChange *change, char *sentence, size_t size);

/* Makes valid text of what a broken interpreter wrote, which may be cut or no text at all. */
void words_make_text(char *words);

/* Writes a reason. What does not fit is cut at a character. */
void reason_set(Reason reason, const char *format, ...) _printf_(2, 3);

/* Protection: the checkpoint that a call would have gone back to. */
typedef struct Protection {
    bool exists;
    uint64_t execution_count; /* the last call whose effects are in it */
    Reason reason;            /* why there is no checkpoint */
} Protection;

void notes_deinit(EncodedNotes *notes);

/* Adds a note of at most LIMIT_NOTE bytes, valid UTF-8. A note over LIMIT_NOT_RESTORED, or without memory for
 * it, is left out. */
void notes_add(EncodedNotes *notes, Text text);

/* Adds the texts of an array that was received. */
void notes_add_all(EncodedNotes *notes, const Value *texts);

/* The texts of an array that was received take the place of all notes. */
void notes_take(EncodedNotes *notes, const Value *texts);

/* The notes as an array of text. */
Value notes_say(const EncodedNotes *notes);

/* Alarm: a one-shot timerfd for delays of a few milliseconds. A timer of the loop would change the timeout of
 * each epoll_wait(), which costs more than a short call. */

typedef struct Alarm Alarm;

struct Alarm {
    LoopFile file;
    bool set;
    void (*on_due)(Alarm *alarm);
};

/* Opens an alarm that is not set. 0 or a negative errno. */
int alarm_open(Alarm *alarm, Loop *loop, void (*on_due)(Alarm *));
void alarm_close(Alarm *alarm);
/* `due`: clock_now() nanoseconds. */
void alarm_set(Alarm *alarm, uint64_t due);

typedef struct Branch Branch;
typedef struct Branches Branches;

typedef enum CheckpointMode {
    CHECKPOINT_AUTO,
    CHECKPOINT_ALWAYS,
    CHECKPOINT_OFF,
} CheckpointMode;

/* When checkpoints are taken by themselves. */
typedef struct Policy {
    Alarm quiet;       /* set while there is a state that could be kept */
    uint64_t last_end; /* when the last call ended; all times are clock_now() nanoseconds */
    uint64_t busy;     /* time spent in calls since the last checkpoint */
    bool exposed;      /* the checkpoint under the state has gone; the one before may be any distance away */
    uint64_t cost;     /* time that the interpreter takes to make one */
    uint64_t retry;    /* no checkpoint before this time, after a failure; 0: any time */
    uint64_t pause;    /* the pause that follows the next failure */
    Reason trouble;    /* why the newest state has no checkpoint; empty: there was no time for one */
} Policy;

/* Purpose of a copy. */
typedef enum CopyPurpose {
    COPY_BACK,   /* the branch goes back */
    COPY_ANEW,   /* the branch begins anew, with the pristine checkpoint; no record tells of it */
    COPY_BRANCH, /* the branch has no state yet; where there is no copy it gets none */
    COPY_FORK,   /* the branch goes back to a state that goes on in another sandbox, too */
} CopyPurpose;

/* Going back to a checkpoint (recovery.c); all 0 when the branch does not. */
typedef struct Recovery {
    CopyPurpose purpose;
    Checkpoint *next; /* NULL: nothing is left to go back to */
    bool wanted;      /* someone asked for `next`; after it comes the branch's own line */

    uint64_t end;   /* the recovery is given up at this time */
    int ended;      /* processes that ended with the interpreter */
    bool killed;    /* it may have been killed for its memory */
    Reason trouble; /* why the checkpoint that was tried last did not do */

    /* The copy that is made, or was made last. */
    uint64_t restore;         /* the message that asks for it has this id */
    uint64_t number;          /* the number of its checkpoint */
    uint64_t execution_count; /* the last call whose effects are in it */
    uint64_t lost_calls;      /* calls of the branch whose effects are not in it */
    Checkpoint *from;         /* its checkpoint; where that has gone meanwhile, the one before */
    uint64_t calls;           /* calls between `from` and the state of the copy */
} Recovery;

/* Place of a context: the directory and the language of its cells. An interpreter that starts anew starts
 * there. */
typedef struct ContextPlace {
    char language[LIMIT_LANGUAGE + 1]; /* empty: Python */
    char *cwd;                         /* NULL: /session */
} ContextPlace;

/* State of a branch and its interpreter. branch_states.def says what each waits for. */
typedef enum BranchState {
#define BRANCH_STATE(state, seconds, late, awaits) BRANCH_##state,
#include "guest/supervisor/branch/branch_states.def"
} BranchState;

/* Events that move a branch from state to state, some of the interpreter's, some of our own. */
typedef enum BranchEvent {
    BRANCH_ON_START,        /* a new process is started */
    BRANCH_ON_COPY,         /* a checkpoint is asked for a copy */
    BRANCH_ON_THAW,         /* it is to become one, and a process is to become that */
    BRANCH_ON_READY,        /* the interpreter says `ready` */
    BRANCH_ON_REFUSE,       /* the copy does not come */
    BRANCH_ON_FREEZE,       /* the interpreter is asked for a checkpoint */
    BRANCH_ON_CHECKPOINTED, /* the interpreter answers that */
    BRANCH_ON_OCCUPY,       /* a call begins, or a load */
    BRANCH_ON_VACATE,       /* it has ended */
    BRANCH_ON_UNDO,         /* the call that has just ended is undone */
    BRANCH_ON_HANG_UP,      /* the channel has ended */
    BRANCH_ON_KILL,         /* the interpreter is to be ended for a fault */
    BRANCH_ON_END,          /* its processes have been ended */
    BRANCH_ON_CLOSED,       /* its last words have been read */
} BranchEvent;

/* News that a new interpreter is told, with its first `prepare`. */
typedef enum BranchNews {
    NEWS_ENVIRONMENT = 1 << 0, /* the session's environment */
    NEWS_PROXY = 1 << 1,       /* there is a way to the network */
    NEWS_PLACE = 1 << 2,       /* the place of the branch */
} BranchNews;

struct Branch {
    List link; /* Branches.all */
    Branches *set;
    uint64_t number;
    BranchState state;
    LoopTimer limit; /* of the state */
    Interpreter interpreter;
    Buf complaint; /* standard error of the interpreter until it was ready */
    Reason why;    /* EMPTY: why there is no interpreter; KILLING: what it did */

    uint64_t epoch;
    uint64_t execution_count; /* the number of the last call, whatever became of its effects */
    Checkpoint *base;         /* the checkpoint that the live state comes from; NULL: a fresh interpreter */
    uint64_t calls;           /* calls that ran on `base` since then */
    uint64_t state_count;     /* the number of the last of those calls */

    Checkpoint *taking; /* the checkpoint that the interpreter is making */
    uint64_t asked;     /* clock_now() when the interpreter was asked for it */
    Policy policy;

    Recovery recovery;
    unsigned news;           /* BranchNews that the interpreter has yet to be told */
    bool lacks;              /* it has begun anew with a copy that lacks something */
    ContextPlace place;      /* of a context */
    Reason misplaced;        /* why it could not do as it was told; empty: it has, or has yet to answer */
    unsigned losses;         /* how often the interpreter was lost since a call began */
    StateChange unreported;  /* what became of the variables since the last record */
    Output between[STREAMS]; /* what was written while no call ran, since the last call began */
    bool is_restored; /* they were loaded since the last record; `restored` has what is not as it was */
    EncodedNotes restored;
};

/* Returns whether a copy of a checkpoint is to become its interpreter. */
static inline bool branch_is_recovering(const Branch *branch)
{
    return branch->state == BRANCH_COPYING || branch->state == BRANCH_RETRYING ||
           branch->state == BRANCH_THAWING;
}

/* Returns whether there is an interpreter that takes messages. */
static inline bool branch_is_ready(const Branch *branch)
{
    return branch->state >= BRANCH_IDLE && branch->state <= BRANCH_RUNNING;
}

/* Returns whether there is an interpreter that said `ready` once. */
static inline bool branch_was_ready(const Branch *branch)
{
    return branch->state >= BRANCH_IDLE;
}

/* Events that others hear of branches, and functions that they have for them. */
typedef struct BranchEvents {
    /* Something has happened that others may wait for. Each takes its next step before the loop waits. */
    void (*changed)(Branches *set);
    /* Returns whether a call or an order is under way, of any branch. */
    bool (*is_busy)(const Branches *set);
    /* Returns whether a call or an order about that branch is under way. */
    bool (*is_wanted)(const Branch *branch);
    /* The interpreter is ready, after a start, or `copied`: as the copy that the branch goes on with. */
    void (*ready)(Branch *branch, bool copied);
    /* The interpreter was not ready, and will not be. */
    void (*start_failed)(Branch *branch, const char *why);
    /* The interpreter is lost with all that it left; the branch goes back now. `fault` is NULL when it ended
     * by itself, or was ended for the sake of its call. */
    void (*lost)(Branch *branch, const char *fault);
    /* The state of the variables is certain. Takes `change` when a call waits for that; false: nobody does.
     */
    bool (*settled)(Branch *branch, StateChange *change);
    /* The branch is about to be freed. */
    void (*ended)(Branch *branch);
    /* A message of a ready interpreter that is none of the branch's own; the interpreter may have ended
     * since. Negative with a Problem: it breaks the protocol. */
    int (*message)(Branch *branch, const Message *message, Problem *problem);
    void (*output)(Branch *branch, unsigned stream, const uint8_t *bytes, size_t n);
    /* A child has ended that is no interpreter and no checkpoint. */
    void (*reaped)(Branches *set, pid_t pid, int status, const struct rusage *usage);
    /* Tells which processes live on when those of a branch end: a group that they have, or 0; and the leaders
     * of sessions, at most `most`. Returns how many. */
    size_t (*spare)(Branches *set, gid_t *ret_mark, pid_t *ret_leaders, size_t most);
    /* A note about the programs beside all branches that are not brought back with them. NULL: there are
     * none. */
    const char *(*beside)(const Branches *set);
    /* A phrase about the programs of the code that would end with the sandbox. NULL: there are none. */
    const char *(*in_use)(const Branches *set);
    /* A checkpoint is kept from now on. */
    void (*kept)(Branches *set, const Checkpoint *checkpoint);
    /* A checkpoint is out of the tree and about to be freed. `why` is NULL when someone gave it up. */
    void (*gone)(Branches *set, const Checkpoint *checkpoint, const char *why);
} BranchEvents;

/* All branches, that of the session itself first, and what they share. */
struct Branches {
    Loop *loop;
    const CommandLine *command_line;
    const BranchEvents *events;
    List all; /* of Branch */
    size_t count;
    Checkpoints checkpoints;
    CheckpointMode mode;
    Environment environment;  /* of interpreters that are started from now on */
    bool environment_changed; /* since it was first known: a copy of the pristine checkpoint has yet to be
                                 told */
    bool proxied_late;        /* since then: copies of any checkpoint have yet to be told that */
    uint64_t memory;          /* of the sandbox, bytes; 0: unlimited */
    pid_t files_pid;          /* a process of the supervisor's own, which lives on; 0: none */
};

/* All branches */

void branches_init(Branches *set, Loop *loop, const CommandLine *command_line, const BranchEvents *events);
void branches_deinit(Branches *set); /* the processes have been ended before */

/* Sets the environment of interpreters that are started from now on. It is taken. */
void branches_set_environment(Branches *set, Environment *environment);

Branch *branches_find(const Branches *set, uint64_t number); /* NULL when there is none */
void branches_changed(Branches *set);
bool branches_are_busy(const Branches *set);

/* Reaps the children that have ended, and takes what follows from that. */
void branches_reap(Branches *set);
/* Deals with what was noticed where it could not be dealt with: ended processes, interpreters that are to be
 * killed, failed steps of a recovery. */
void branches_sweep(Branches *set);
/* Ends every process below. */
void branches_end_all(Branches *set);

/* A branch */

/* A branch without an interpreter. NULL when out of memory. */
Branch *branch_new(Branches *set, uint64_t number);
/* A branch that is to be a copy of `from`, or of a checkpoint of that: COPY_BRANCH follows. */
Branch *branch_new_from(const Branch *from, uint64_t number);
/* Frees a branch whose processes have been ended. */
Branch *branch_free(Branch *branch);
/* Ends its processes and its automatic checkpoints, and frees it. */
void branch_end(Branch *branch);

/* Moves it. An event that its state does not have is a mistake of ours: an assertion fails, and without those
 * its interpreter is KILLING. 0, or -ENOMEM where the limit of the new state cannot be set. */
int branch_move(Branch *branch, BranchEvent event);

/* Before it starts; a language has at most LIMIT_LANGUAGE bytes. 0 or -ENOMEM. */
int branch_set_place(Branch *branch, Text language, Text cwd);
/* Its variables are in a program beside the interpreter, of which there are no checkpoints. */
bool branch_is_foreign(const Branch *branch);

/* Returns whether `base` is a checkpoint, perhaps a pending one, of exactly the live state. */
bool branch_is_exact(const Branch *branch);

/* Starts an interpreter with nothing in it: a copy of the pristine checkpoint or, without one, a new process.
 * 0 or a negative errno; branch->why then says it. */
int branch_start(Branch *branch);
int branch_spawn(Branch *branch); /* always a new process */

/* A call begins to run on the branch. `execution_count` is its number. */
void branch_occupy(Branch *branch, uint64_t execution_count, uint64_t now);
/* The call has ended, at `now`, after it ran for `busy` nanoseconds; the branch is vacated. */
void branch_call_ended(Branch *branch, uint64_t busy, uint64_t now);
/* Something was written to stream 1 or 2 that belongs to no call. */
void branch_wrote(Branch *branch, unsigned stream, const uint8_t *bytes, size_t n);
/* Moves what there is of that to `ret`. */
void branch_take_between(Branch *branch, Output ret[STREAMS]);
void branch_forget_between(Branch *branch);
/* Nothing runs on the branch any more. */
void branch_vacate(Branch *branch);

/* The branch takes the number and the place of `of`, which ends. It keeps its interpreter. */
void branch_take_place(Branch *branch, Branch *of);

/* Tells to which checkpoint the branch would go back now. */
void branch_protection(const Branch *branch, Protection *ret);

/* Its checkpoints */

/* Asks the interpreter, which is IDLE, for a checkpoint of its state; it becomes the base. 0 or a negative
 * errno with `why`. */
int branch_freeze(Branch *branch, CheckpointKind kind, const char *name, Reason why);

/* Makes the directory in which a copy of the branch is to write its memory, as the code's user, who removes
 * it, too. False where it cannot be made. */
bool branch_make_place(const Branch *branch, const char *path);

/* Makes a checkpoint out of the memory behind `shared`, or (-1) in the file `kept`, as of that call: *ret,
 * which is pending. It is in the line of the branch, which has no other checkpoint, and yet to go there. 0 or
 * a negative errno. */
int branch_thaw(Branch *branch, const KeptMemory *memory, uint64_t execution_count, Checkpoint **ret);

/* Makes the pristine checkpoint, of which there is none, out of the memory behind `shared`, which another
 * sandbox has written. Branches that are started meanwhile wait for it. 0 or a negative errno. */
int branch_thaw_pristine(Branch *branch, int shared);

/* Checkpoints that are taken by themselves */

CheckpointMode policy_mode(const Branch *branch);
/* A call has ended, or the interpreter is ready. A checkpoint may be worth while once the branch is quiet. */
void policy_on_quiet(Branch *branch, uint64_t now);
/* The newest state is worth one whatever follows. */
void policy_protect(Branch *branch);
/* Writes why the newest state has no checkpoint; nothing when there was no time for one. */
void policy_why_none(const Branch *branch, Reason ret);

/* Going back (recovery.c) */

/* Ends what is left of the interpreter and of its processes, and goes back. `fault`: as with
 * BranchEvents.lost. */
void branch_lose(Branch *branch, const char *fault);

/* The interpreter is ended before the loop waits again: for a fault of its own, or to undo the call that has
 * just ended. */
void branch_kill(Branch *branch, const char *fault);
void branch_undo(Branch *branch);

/* The live state is that of the pristine checkpoint, if there is one. That checkpoint protects it as others
 * do, except where checkpoints are off. */
void branch_stand_on_pristine(Branch *branch);

/* The branch becomes a session. Losses and recoveries of the spare that it was are forgotten. */
void branch_forget_past(Branch *branch);

/* Replaces the live state by that of `checkpoint`. Where that fails, or it is NULL, by that of the newest
 * checkpoint of its line. */
void branch_go_back(Branch *branch, Checkpoint *checkpoint, CopyPurpose purpose);

/* Forgets every checkpoint of its line, because a fresh interpreter follows. */
void branch_forget_line(Branch *branch);

/* Ends the interpreter, and all processes that belong to no other branch or checkpoint. Returns how many
 * there were. */
int branch_end_processes(Branch *branch);

DEFINE_CLEANUP(Branch *, branch_free);

/* The words that the next record of a branch has to say of the time before it. The controller keeps them
 * while the session is saved, as no record can tell of it then. Returns false where there is nothing; *ret
 * points into the branch. */
bool branch_say_unreported(const Branch *branch, MsgUnreported *ret);
/* A branch that goes on with what was saved tells it. */
void branch_take_unreported(Branch *branch, const MsgUnreported *said);

/* Between branch.c and recovery.c */

/* Tells whoever waits for the interpreter that it will not be ready. */
void branch_start_failed(Branch *branch, const char *why);

/* Asks for a copy of a checkpoint, which becomes the interpreter. 0 or a negative errno. */
int branch_copy(Branch *branch, Checkpoint *checkpoint);

void branch_on_kept(Branch *branch, Checkpoint *checkpoint);
void branch_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why);

void policy_on_gone(Branch *branch); /* the checkpoint under the live state has gone */
void policy_forget(Branch *branch);  /* the live state is another one */

/* Begins anew with a copy of the pristine checkpoint, once a process has become that. false: there is none.
 */
bool branch_begin_anew(Branch *branch);

void recovery_on_gone(Branch *branch, Checkpoint *checkpoint, const char *why);
/* The copy is ready. `notes` say what is not in it; they are taken. */
void recovery_ready(Branch *branch, EncodedNotes *notes, Value memory);
void recovery_note_processes(const Branch *branch, EncodedNotes *notes);
