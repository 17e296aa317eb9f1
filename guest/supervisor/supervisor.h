/* The supervisor: one session with its branches, at most one call at a time. It binds the others together:
 *
 *   controller (its messages) ──► call.c (the running call) ──► branch (an interpreter, its checkpoints)
 *                        └──────► order*.c (what else is asked for) ──┘
 *
 * It alone decides the execution counts, the epochs, when a call is over, and what its status and state are.
 */
#pragma once

#include "guest/supervisor/branch.h"
#include "guest/supervisor/cell.h"
#include "guest/supervisor/controller.h"
#include "guest/supervisor/options.h"
#include "guest/supervisor/order.h"
#include "guest/supervisor/spare.h"

typedef enum CheckpointMode {
    CHECKPOINT_AUTO,
    CHECKPOINT_ALWAYS,
    CHECKPOINT_OFF,
} CheckpointMode;

/* What the controller's welcome says. */
struct Settings {
    Environment environment;
    uint64_t output_limit, spill_limit;
    CheckpointMode checkpoint;
    uint64_t checkpoint_budget;
    uint64_t memory;
    double orphan_timeout; /* seconds */
};

struct Supervisor {
    Loop *loop;
    const Options *options;
    Controller controller;
    LoopSignals signals;
    LoopIdle wake;

    bool configured; /* at least once */
    Spare spare;
    Settings settings;
    bool environment_changed; /* since the first welcome: a copy of the birth checkpoint is to be told */
    CellLimits limits;

    List branches; /* of Branch, that of the session itself first */
    size_t branch_count;
    Checkpoints checkpoints;
    Cell *cell; /* NULL: no call runs or waits */
    Order order;

    /* The last `executed`. A controller that is new gets it too, until the next call shows that it has been
     * received. */
    Buf record;
};

/* The current directory is the link directory. SIGCHLD and SIGTERM are taken over. `supervisor` and `options`
 * stay where they are. 0 or a negative errno, logged. */
int supervisor_init(Supervisor *supervisor, Loop *loop, const Options *options);

/* Ends all processes below. */
void supervisor_deinit(Supervisor *supervisor);

/* A welcome: from now on, and for interpreters started from now on; the first one starts one. With `imports`
 * (NULL: none) it is a spare, unless it is a session already. The environment is taken. 0, or -EPROTO with a
 * Problem. */
int supervisor_configure(Supervisor *supervisor, Settings *settings, const Value *imports, Problem *problem);
void supervisor_apply(Supervisor *supervisor, const Settings *settings); /* just that */

/* `environment` and `checkpoint` are those of the session that a spare becomes. The environment is taken. */
void supervisor_claim(Supervisor *supervisor, Environment *environment, CheckpointMode checkpoint);

Branch *supervisor_find(Supervisor *supervisor, uint64_t number); /* NULL when there is none */

/* Something has happened that a call, an order or a recovery may wait for: each takes its next step before
 * the loop waits again. */
void supervisor_wake(Supervisor *supervisor);

/* Waits, at most so long, until every copy that is in the making is ready. One that is ended before leaves
 * its original with the locks of half a fork, and no other copy comes from there. */
void supervisor_settle_copies(Supervisor *supervisor, uint64_t limit);

/* Kills every process that belongs to no checkpoint and to no branch but `branch`. How many there were, its
 * interpreter left out. */
int supervisor_purge(Supervisor *supervisor, Branch *branch);

/* call.c: the running call */

/* 0: a record with the call's id will follow. -EPROTO with a Problem: it was not taken. */
int supervisor_execute(Supervisor *supervisor, const Call *call, Problem *problem);
void supervisor_interrupt(Supervisor *supervisor);
void supervisor_credit(Supervisor *supervisor, uint64_t id, uint64_t count);
void supervisor_controller_lost(Supervisor *supervisor);

/* call_ask.c: its questions */

int call_on_ask(Branch *branch, const Message *message, Problem *problem);
void call_send_asks(Supervisor *supervisor);
/* -EPROTO with a Problem when it is none; one that nobody waits for is none either, and no error. */
int supervisor_answer(Supervisor *supervisor, const Message *message, Problem *problem);

/* call.c */

/* The running or waiting call if it is the branch's, otherwise NULL. */
Cell *call_of(const Branch *branch);
void call_try_begin(Supervisor *supervisor);
int call_on_executed(Branch *branch, const Message *message, Problem *problem);
int call_on_display(Branch *branch, const Message *message, Problem *problem);
void call_on_output(Branch *branch, unsigned stream, const uint8_t *bytes, size_t n);
/* It has ended in a way that is written to the cell's outcome by the caller. */
void call_ended(Cell *cell);
/* What became of the variables is certain: the record is sent. Takes what is in `fate`. */
void call_finish(Supervisor *supervisor, Fate *fate);
/* It cannot be run. */
void call_abandon(Supervisor *supervisor, const char *name, const char *what, const char *why);
