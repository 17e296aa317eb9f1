/* One call, from its `execute` to its record. */
#pragma once

#include "guest/supervisor/displays.h"
#include "guest/supervisor/ladder.h"
#include "guest/supervisor/link.h"
#include "guest/supervisor/outcome.h"
#include "guest/supervisor/output.h"
#include "guest/supervisor/streams.h"

typedef struct Cell {
    void *owner; /* for the callback of the ladder */
    uint64_t id; /* of the controller's message; its answer and events carry it */
    uint64_t execution_count;
    double timeout; /* seconds */
    bool stream;    /* send output and displays while it runs */
    unsigned credit;
    bool begun;       /* the interpreter has it */
    uint64_t started; /* clock_now() when it began */
    Ladder ladder;
    Output output[STREAMS];
    Displays displays;
} Cell;

typedef struct CellLimits {
    size_t output; /* bytes of one stream in the record */
    Spill spill;
} CellLimits;

/* `limits` must outlive the cell. NULL when out of memory. */
Cell *cell_new(uint64_t id, uint64_t execution_count, const CellLimits *limits);
Cell *cell_free(Cell *cell);

/* What the cell wrote to stream 1 or 2: kept, counted, and sent as an event if there is credit for it. */
void cell_output(Cell *cell, Link *link, unsigned stream, const uint8_t *bytes, size_t n);

/* A display that came while it runs: kept, and sent as an event. */
void cell_display(Cell *cell, Link *link, const Display *display);

void cell_credit(Cell *cell, uint64_t count);

/* Whether its pipes are to be read now. If not, nobody takes the output and the writer is to wait. */
bool cell_takes_output(const Cell *cell);

/* Encodes `executed` for the controller into `ret`, which is empty before. 0, -ENOBUFS or -ENOMEM. */
int cell_record(Cell *cell, const Outcome *outcome, uint64_t epoch, Buf *ret);
