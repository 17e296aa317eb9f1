/* Executor: runs the calls of a session; at most one runs or waits. This alone decides when a call is over,
 * and what its status and state are.
 *
 *   executor.c  a call waits, begins, is interrupted
 *   said.c      what its interpreter says while it runs, questions included
 *   ended.c     it ends, and its record is made once it is certain what became of the variables
 *
 * What one call is made of: cell.h. */
#pragma once

#include "guest/supervisor/branch/branch.h"
#include "guest/supervisor/call/cell.h"

typedef struct Executor {
    Branches *branches;
    Link *link;
    OutputLimits limits;
    Cell *cell; /* NULL: no call runs or waits */

    /* The last `executed`. Every new controller gets it, until the next call, or `settled`, shows that it has
     * arrived. */
    Buf record;
    uint64_t record_id; /* of the call */
} Executor;

/* `branches` and `link` outlive it. */
void executor_init(Executor *executor, Branches *branches, Link *link);
void executor_deinit(Executor *executor);

/* From the controller */

/* 0: a record with that id follows. -EPROTO with a Problem: the call is refused. */
int executor_execute(Executor *executor, uint64_t id, const MsgExecute *asked, Problem *problem);
void executor_interrupt(Executor *executor);
void executor_credit(Executor *executor, uint64_t id, uint64_t count);
/* The controller has the record of that call. */
void executor_settled(Executor *executor, uint64_t id);
/* -EPROTO with a Problem: the message is no answer. An answer that nobody waits for is ignored. */
int executor_answer(Executor *executor, const Message *message, Problem *problem);

/* Tells a new controller what the last one may have missed: the record, the questions. */
void executor_tell_again(Executor *executor);
void executor_on_controller_lost(Executor *executor);

/* From the branches, as BranchEvents has them */

void executor_advance(Executor *executor); /* the call begins, if what it waits for is there */
int executor_on_message(Executor *executor, Branch *branch, const Message *message, Problem *problem);
void executor_on_output(Executor *executor, Branch *branch, unsigned stream, const uint8_t *bytes, size_t n);
void executor_on_start_failed(Executor *executor, Branch *branch, const char *why);
void executor_on_lost(Executor *executor, Branch *branch, const char *fault);
bool executor_on_settled(Executor *executor, Branch *branch, Fate *fate);

/* From tasks */

/* The branch's call, if there is one, ends with its branch. */
void executor_end_closed(Executor *executor, Branch *branch);
/* The branch's call ends as one that was interrupted. The processes have been ended before. */
void executor_end_reset(Executor *executor, Branch *branch);
