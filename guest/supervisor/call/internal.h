/* What the parts of a call do for each other; nobody else includes this. */
#pragma once

#include "guest/supervisor/call/calls.h"

/* calls.c */

/* The running or waiting call if it is the branch's, otherwise NULL. */
Cell *call_of(const Calls *calls, const Branch *branch);
/* Reads the pipes of the branch, or lets them wait, as its call has it. */
void call_update_flow(const Calls *calls, Branch *branch);

/* said.c */

void call_send_asks(Calls *calls);

/* ended.c */

void call_send_record(Calls *calls);
/* The call has ended. The caller has written to the cell's outcome how. */
void call_ended(Cell *cell);
/* Sends the record, as it is certain what became of the variables. Takes what is in `fate`. */
void call_finish(Calls *calls, Fate *fate);
/* Does both. The variables are what they were, or what the call made of them. */
void call_finish_kept(Calls *calls);
/* Ends a call that cannot be run. */
void call_abandon(Calls *calls, const char *name, const char *what, const char *why);
