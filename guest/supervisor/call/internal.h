/* Functions that the parts of a call have for each other; nobody else includes this. */
#pragma once

#include "guest/supervisor/call/executor.h"

/* executor.c */

/* The running or waiting call if it is the branch's, otherwise NULL. */
Cell *call_of(const Executor *executor, const Branch *branch);
/* Reads the pipes of the branch, or lets them wait, as its call has it. */
void call_update_flow(const Executor *executor, Branch *branch);

/* said.c */

void call_send_questions(Executor *executor);

/* ended.c */

void call_send_record(Executor *executor);
/* The call has ended. The caller has written to the cell's outcome how. */
void call_ended(Cell *cell);
/* Sends the record, as it is certain what became of the variables. Takes what is in `fate`. */
void call_finish(Executor *executor, Fate *fate);
/* Does both. The variables are what they were, or what the call made of them. */
void call_finish_kept(Executor *executor);
/* Ends a call that cannot be run. */
void call_abandon(Executor *executor, const char *name, const char *what, const char *why);
