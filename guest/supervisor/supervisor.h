/* The supervisor: one session, at most one call at a time, one interpreter. It binds the others together:
 *
 *   controller (its messages) ──► supervisor ──► cell (the running call: ladder, outputs, displays)
 *                                     └────────► interpreter (process, channel, pipes)
 *
 * It alone decides the execution count, the epoch, when a call is over, and what its status is. */
#pragma once

#include "guest/supervisor/cell.h"
#include "guest/supervisor/controller.h"
#include "guest/supervisor/interpreter.h"
#include "guest/supervisor/options.h"

struct Supervisor {
    Loop *loop;
    const Options *options;
    Controller controller;
    Interpreter interpreter;
    LoopSignals signals;
    LoopTimer start; /* set while the interpreter is starting */

    bool configured; /* at least once */
    Environment environment;
    CellLimits limits;

    uint64_t execution_count;
    uint64_t epoch;
    Cell *cell;  /* NULL: idle */
    bool ending; /* the interpreter is being ended by us: what it still says about its cell is too late */

    bool resetting; /* a reset waits for the new interpreter */
    uint64_t reset_id;

    /* The last `executed`. A controller that is new gets it too, until the next call shows that it has been
     * received. */
    Buf record;
};

/* The current directory is the link directory. SIGCHLD and SIGTERM are taken over. `supervisor` and `options`
 * stay where they are. 0 or a negative errno, logged. */
int supervisor_init(Supervisor *supervisor, Loop *loop, const Options *options);

/* Ends all processes below. */
void supervisor_deinit(Supervisor *supervisor);

/* The orders of the controller */

/* From now on, and for interpreters started from now on; the first time starts one. Takes `environment`. */
void supervisor_configure(Supervisor *supervisor, Environment environment, size_t output_limit,
                          uint64_t spill_limit);

typedef struct Call {
    uint64_t id;
    Text code;
    Text run_id;
    double timeout; /* seconds */
    bool stream;
} Call;

/* 0: a record with the call's id will follow. -EPROTO with a Problem: it was not taken. */
int supervisor_execute(Supervisor *supervisor, const Call *call, Problem *problem);
void supervisor_interrupt(Supervisor *supervisor);
void supervisor_credit(Supervisor *supervisor, uint64_t id, uint64_t count);

/* The answer follows when there is a new interpreter. */
void supervisor_reset(Supervisor *supervisor, uint64_t id);

void supervisor_controller_lost(Supervisor *supervisor);
