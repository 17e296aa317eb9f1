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

    /* The last `executed`. A controller that is new gets it too, until the next call shows that it has been
     * received. */
    Buf record;
} Calls;

/* `branches` and `link` outlive it. */
void calls_init(Calls *calls, Branches *branches, Link *link);
void calls_deinit(Calls *calls);

/* From the controller */

/* 0: a record with that id will follow. -EPROTO with a Problem: it was not taken. */
int calls_execute(Calls *calls, uint64_t id, const MsgExecute *asked, Problem *problem);
void calls_interrupt(Calls *calls);
void calls_credit(Calls *calls, uint64_t id, uint64_t count);
/* -EPROTO with a Problem when it is no answer; one that nobody waits for is none either, and no error. */
int calls_answer(Calls *calls, const Message *message, Problem *problem);

/* A controller that is new is told what the last one may not have been told. */
void calls_tell_again(Calls *calls);
void calls_on_controller_lost(Calls *calls);

/* From the branches, as BranchEvents has them */

void calls_advance(Calls *calls); /* what the call waits for may be there */
int calls_on_message(Calls *calls, Branch *branch, const Message *message, Problem *problem);
void calls_on_output(Calls *calls, Branch *branch, unsigned stream, const uint8_t *bytes, size_t n);
void calls_on_start_failed(Calls *calls, Branch *branch, const char *why);
void calls_on_lost(Calls *calls, Branch *branch, const char *fault);
bool calls_on_settled(Calls *calls, Branch *branch, Fate *fate);

/* From orders */

/* The branch's call, if there is one, ends with its branch. */
void calls_end_closed(Calls *calls, Branch *branch);
/* It ends as one that was interrupted: the branch's processes have been ended. */
void calls_end_reset(Calls *calls, Branch *branch);
