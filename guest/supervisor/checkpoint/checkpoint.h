/* Checkpoints: frozen copies of interpreters, and the tree they form.
 *
 *   checkpoint_new() ──► ASKED ── the interpreter answers ──► ANSWERED ── `frozen` ──► KEPT ──► ENDED
 *                           ├── the copy hangs up ──► SILENT ── the interpreter answers ──► gone
 *                           └── checkpoint_becomes() ──► BECOMING ── `frozen` ──► KEPT
 *
 * `frozen` may come before the answer. Whatever is refused, late, lost, evicted or given up goes from any
 * state.
 *
 * A copy is a process of hostile code: what it says is checked, and that it exists is believed only once the
 * kernel has named it as a living child of ours. One that is pending has its place in the tree already. */
#pragma once

#include <sys/types.h>

#include "guest/supervisor/process/processes.h"
#include "proto/base/list.h"
#include "proto/base/loop.h"
#include "proto/schema.h"

typedef struct Checkpoint Checkpoint;
typedef struct Checkpoints Checkpoints;

/* The reason where its process has ended by itself. */
#define CHECKPOINT_LOST "the checkpoint was lost"

typedef enum CheckpointState {
    CHECKPOINT_ASKED,    /* the interpreter has been asked for it */
    CHECKPOINT_ANSWERED, /* the interpreter says that it has made it */
    CHECKPOINT_SILENT,   /* the copy has hung up; the interpreter may be about to say why */
    CHECKPOINT_BECOMING, /* no interpreter has been asked: the process `pid` becomes it */
    CHECKPOINT_KEPT,     /* it exists */
    CHECKPOINT_ENDED,    /* its process has ended: it is to be dropped */
} CheckpointState;

/* The kind of a checkpoint. The pristine one, of an interpreter in which no cell has run, is apart from all
 * others: never listed, found by an id, counted, measured or evicted. There is one at most, and its number is
 * 0. */
typedef enum CheckpointKind {
    CHECKPOINT_BY_HAND,
    CHECKPOINT_AUTOMATIC,
    CHECKPOINT_PRISTINE,
} CheckpointKind;

struct Checkpoint {
    List link; /* Checkpoints.all, oldest first */
    Checkpoints *set;
    CheckpointState state;
    uint64_t number;                   /* its id is "c" and this */
    char name[LIMIT_SESSION_NAME + 1]; /* empty: none */
    uint64_t branch;                   /* the number of the branch that it protects */
    uint64_t execution_count;          /* the last call whose effects are in it */
    double created;                    /* Unix seconds */
    CheckpointKind kind;
    Checkpoint *parent; /* the checkpoint that its state comes from; NULL: a fresh interpreter */
    uint64_t calls;     /* calls between the parent and it */
    uint64_t private_bytes;
    uint64_t restores; /* copies that were asked of it; the id of the last one */
    bool saves;        /* it writes its memory */
    bool saved;        /* and has done so, the last time */

    pid_t pid;  /* a child of ours that is not reaped; 0: not known yet, or reaped */
    int memory; /* what tells how much it holds (footprint_add_opened); -1: nothing */
    int channel;
    LoopFile file;
    LoopTimer limit;
    Buf in;
};

struct Checkpoints {
    Loop *loop;
    List all;
    size_t kept; /* checkpoints that exist, the pristine one left out */
    uint64_t last_number;
    uid_t uid;             /* user of the copies */
    uint64_t budget;       /* bytes that they may hold for themselves; 0: any */
    uint64_t next_measure; /* clock_now() nanoseconds; measuring takes its time */
    Buf evicted;           /* numbers of evicted checkpoints that nobody has been told of */

    /* The first returns whether an interpreter has that pid, the second adds the memory of all interpreters.
     */
    bool (*is_taken)(Checkpoints *set, pid_t pid);
    void (*add_living)(Checkpoints *set, Footprint *ret);
    /* Gives it to another branch that stands on it. false: none does. */
    bool (*hand_on)(Checkpoints *set, Checkpoint *checkpoint);
    /* The checkpoint is KEPT from now on. */
    void (*on_kept)(Checkpoints *set, Checkpoint *checkpoint);
    /* The checkpoint has written its memory, or cannot. */
    void (*on_saved)(Checkpoints *set, Checkpoint *checkpoint);
    /* The checkpoint, which stays, cannot make the copy that it was asked for with that id. */
    void (*on_refused)(Checkpoints *set, Checkpoint *checkpoint, uint64_t id, const char *why);
    /* The checkpoint is out of the tree and about to be freed. `why` is NULL when someone gave it up. */
    void (*on_gone)(Checkpoints *set, Checkpoint *checkpoint, const char *why);
};

void checkpoints_init(Checkpoints *set, Loop *loop);
void checkpoints_deinit(Checkpoints *set); /* says nothing of it, and kills nobody */

/* A checkpoint */

/* Returns whether it is not known yet if it exists. */
static inline bool checkpoint_is_pending(const Checkpoint *checkpoint)
{
    return checkpoint->state < CHECKPOINT_KEPT;
}

/* A pending one; the interpreter is to be sent *ret_end, which is the caller's. 0 or a negative errno. */
int checkpoint_new(Checkpoint **ret, Checkpoints *set, CheckpointKind kind, int *ret_end);

/* Ends it. What was said of it is wrong from now on. */
void checkpoint_drop(Checkpoint *checkpoint, const char *why);

/* The interpreter says that it has made it. */
void checkpoint_answered(Checkpoint *checkpoint);

/* Nobody has asked an interpreter for it: the process `pid` becomes it, and has `limit` nanoseconds for that.
 * 0 or a negative errno. */
int checkpoint_becomes(Checkpoint *checkpoint, pid_t pid, uint64_t limit);

/* Has a kept one write its memory to a file in the directory `place`, or to the pipe that it is, which stays
 * the caller's; where it `shares`, without what is in the memory image that it has begun with. It `saves`
 * until that has been done, or cannot be. 0 or a negative errno. */
int checkpoint_save(Checkpoint *checkpoint, int place, bool shares);

/* Its process, a child of ours, has been reaped. It is dropped with checkpoints_drop_ended(). */
void checkpoint_reaped(Checkpoint *checkpoint);

/* Waits, at most so long, until of every pending one is known whether it exists. */
void checkpoints_settle(Checkpoints *set, uint64_t limit);

/* All of them */

void checkpoints_drop_pending(Checkpoints *set, const char *why);
void checkpoints_drop_ended(Checkpoints *set);
/* Automatic ones of that branch that are older than `newest` (NULL: all) and that no other one stands on. */
void checkpoints_drop_automatic(Checkpoints *set, uint64_t branch, const Checkpoint *newest);

Checkpoint *checkpoints_find_pid(const Checkpoints *set, pid_t pid);
Checkpoint *
checkpoints_pristine(const Checkpoints *set); /* NULL when there is none, not even a pending one */
/* A kept one, by its id or name; NULL when there is none. */
Checkpoint *checkpoints_find(const Checkpoints *set, Text id_or_name);

typedef char CheckpointId[24];

/* The id of the one of that number. */
Text checkpoint_id(CheckpointId ret, uint64_t number);

/* Row of the list of checkpoints; points into itself and the checkpoint. */
typedef struct CheckpointRow {
    MsgGuestCheckpoint said;
    CheckpointId id, parent;
} CheckpointRow;

void checkpoint_say(CheckpointRow *ret, const Checkpoint *checkpoint);

Value checkpoints_say(const Checkpoints *set);         /* an array of them */
Value checkpoints_say_evicted(const Checkpoints *set); /* an array of ids */
/* Somebody was told of these. */
void checkpoints_forget_evicted(Checkpoints *set);

/* The room that they take */

/* Drops what is over LIMIT_CHECKPOINTS or, if `now` or when it is time to measure again, over the budget: the
 * oldest automatic ones first, then the oldest of all, never `newest`. */
void checkpoints_make_room(Checkpoints *set, const Checkpoint *newest, bool now);

/* Sets private_bytes of each. How much they hold together that nobody else does. */
uint64_t checkpoints_measure(Checkpoints *set);
