/* Shared by the files of a call, and included by nobody else. */
#pragma once

#include "host/call/call.h"

/* The supervisor answers a call by its deadline and three seconds; this much later it counts as stuck. */
#define WATCHDOG_SLACK 8.0

/* last.c */
/* Keeps the text that exit functions wrote at the end of the session, for its close() to return. */
void call_keep_last_words(Session *session, const MsgExecuted *executed);

/* turn.c */
/* Ends one that has no more than a reason. */
void call_end_bare(Call *call, const char *status, const char *state, const char *name, const char *message);
/* Its session ends. */
void call_lose(Call *call, bool ran, const char *reason);
/* Ends a call that could not be sent, for that reason. */
void call_fail_unsent(Call *call, int error);
/* Output or a display of a call that was SENT. */
int call_on_event(Call *call, const Message *message, Problem *problem);
