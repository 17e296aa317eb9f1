/* One call, from its `execute` to its record. */
#pragma once

#include "guest/supervisor/call/asks.h"
#include "guest/supervisor/call/displays.h"
#include "guest/supervisor/call/ladder.h"
#include "guest/supervisor/link/link.h"
#include "guest/supervisor/call/outcome.h"
#include "guest/supervisor/call/output.h"
#include "guest/supervisor/streams/streams.h"

typedef struct Branch Branch;
typedef struct Calls Calls;

typedef enum CellStep {
    CELL_WAITS, /* for its interpreter, or for a checkpoint */
    CELL_RUNS,
    CELL_ENDED, /* `outcome` is known; what becomes of the variables is not */
} CellStep;

typedef struct Cell {
    Calls *calls;
    Branch *branch;
    CellStep step;
    uint64_t id;
    uint64_t branch_number; /* as it was when the call came */
    uint64_t execution_count;
    uint64_t code_hash;
    char run_id[LIMIT_RUN_ID + 1];
    double timeout;
    bool stream;
    bool attended;  /* whoever asked for the stream is there to take it */
    bool undo;      /* if it does not end well nothing of it is to stay in the variables */
    bool sheltered; /* a checkpoint was asked for, for this cell's sake */
    unsigned credit;
    Buf request;      /* what the interpreter is to be sent */
    uint64_t started; /* clock_now() when it began */
    double duration;  /* seconds, once it has ended */
    Ladder ladder;
    Output output[STREAMS];
    Displays displays;
    Asks asks;
    Outcome outcome;
    Buf words; /* that `outcome` points to, when it has to wait */
    Protection protection;
} Cell;

typedef struct CellLimits {
    size_t output; /* bytes of one stream in the record */
    Spill spill;
} CellLimits;

/* `id`: of the message that asks for it. `limits` must outlive the cell. NULL when out of memory. */
Cell *cell_new(Branch *branch, uint64_t id, const MsgExecute *asked, uint64_t execution_count,
               const CellLimits *limits);
Cell *cell_free(Cell *cell);

/* What the cell wrote to stream 1 or 2: kept, counted, and sent as an event if there is credit for it. */
void cell_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n);

/* A display that came while it runs: kept, and sent as an event. */
void cell_display(Cell *cell, Link *link, const MsgDisplay *display);

/* The controller is gone: events and credit that were under way are lost. The next one's first credit
 * resumes. */
void cell_unattended(Cell *cell);
void cell_credit(Cell *cell, uint64_t count);

/* Whether its pipes are to be read now. If not, nobody takes the output and the writer is to wait. */
bool cell_takes_output(const Cell *cell);

/* record.c */

/* Encodes `executed` into `ret`, which is empty before. The cell's outcome is settled. 0, -ENOBUFS or
 * -ENOMEM. */
int cell_record(Cell *cell, const Fate *fate, uint64_t epoch, Buf *ret);
