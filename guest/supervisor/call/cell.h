/* A call, from its `execute` to its record. */
#pragma once

#include "guest/supervisor/call/questions.h"
#include "guest/supervisor/call/displays.h"
#include "guest/supervisor/call/ladder.h"
#include "guest/supervisor/link/attention.h"
#include "guest/supervisor/call/outcome.h"
#include "guest/supervisor/streams/output.h"
#include "guest/supervisor/streams/streams.h"

typedef struct Branch Branch;
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
    Attention attention;
    bool undo;        /* unless the call ends well, nothing of it stays in the variables */
    bool sheltered;   /* a checkpoint was asked for, for the sake of this cell */
    Buf request;      /* message to the interpreter */
    uint64_t started; /* clock_now() when it began; 0: it has not */
    double duration;  /* seconds, once it has ended */
    Ladder ladder;
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

/* The cell has written to stream 1 or 2. That is kept, counted, and sent as an event where there is credit.
 */
void cell_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n);

/* The cell shows something. That is kept, and sent as an event. */
void cell_display(Cell *cell, Link *link, const MsgDisplay *display);

/* The controller is gone, and with it events and credit that were under way. The first credit of the next one
 * resumes. */
void cell_unattended(Cell *cell);
void cell_credit(Cell *cell, uint64_t count);

/* Returns whether the pipes are read now. Where nobody takes the output the writer waits. */
bool cell_takes_output(const Cell *cell);

/* record.c */

/* Encodes `executed` into `ret`, which is empty before. The cell's outcome is settled. 0, -ENOBUFS or
 * -ENOMEM. */
int cell_record(Cell *cell, const Fate *fate, uint64_t epoch, const EncodedNotes *restored, Buf *ret);
