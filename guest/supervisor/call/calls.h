/* The calls of a session: at most one runs or waits. This alone decides when a call is over, and what its
 * status and state are.
 *
 *   calls.c   a call waits, begins, is interrupted
 *   said.c    what its interpreter says while it runs, questions included
 *   ended.c   it ends, and its record is made once it is certain what became of the variables
 *
 * What one call is made of: cell.h. */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/call/cell.h"

typedef struct Calls {
    Branches *branches;
    Link *link;
    CellLimits limits;
    Cell *cell; /* NULL: no call runs or waits */

    /* The last `executed`. Every new controller gets it, until the next call shows that it has arrived. */
    Buf record;
} Calls;

/* `branches` and `link` outlive it. */
void calls_init(Calls *calls, Branches *branches, Link *link);
void calls_deinit(Calls *calls);

/* From the controller */

/* 0: a record with that id follows. -EPROTO with a Problem: the call is refused. */
int calls_execute(Calls *calls, uint64_t id, const MsgExecute *asked, Problem *problem);
void calls_interrupt(Calls *calls);
void calls_credit(Calls *calls, uint64_t id, uint64_t count);
/* -EPROTO with a Problem: the message is no answer. An answer that nobody waits for is ignored. */
int calls_answer(Calls *calls, const Message *message, Problem *problem);

/* Tells a new controller what the last one may have missed: the record, the questions. */
void calls_tell_again(Calls *calls);
void calls_on_controller_lost(Calls *calls);

/* From the branches, as BranchEvents has them */

void calls_advance(Calls *calls); /* the call begins, if what it waits for is there */
int calls_on_message(Calls *calls, Branch *branch, const Message *message, Problem *problem);
void calls_on_output(Calls *calls, Branch *branch, unsigned stream, const uint8_t *bytes, size_t n);
void calls_on_start_failed(Calls *calls, Branch *branch, const char *why);
void calls_on_lost(Calls *calls, Branch *branch, const char *fault);
bool calls_on_settled(Calls *calls, Branch *branch, Fate *fate);

/* From orders */

/* The branch's call, if there is one, ends with its branch. */
void calls_end_closed(Calls *calls, Branch *branch);
/* The branch's call ends as one that was interrupted. The processes have been ended before. */
void calls_end_reset(Calls *calls, Branch *branch);
