/* How a call ended, in the terms of the record: its status, and the error in plain words. What became of the
 * variables is another matter (fate.h), told once it is certain. */
#pragma once

#include <sys/types.h>

#include "guest/supervisor/branch/fate.h"
#include "guest/supervisor/call/ladder.h"
#include "proto/schema.h"

typedef struct Outcome {
    const char *status;
    Text result;
    MsgPythonError error; /* may point into `message`; without a name there is none */
    bool has_changed;     /* something that is still true: */
    MsgChanged changed;
    int exit_code; /* -1: did not exit */
    int signal;    /* 0: no signal */
    double cpu;    /* seconds */
    uint64_t peak_memory;
    bool speaks_of_state; /* `message` is to end with what became of the variables */
    char message[1536];
} Outcome;

/* The cell came to its end by itself, in time or after it was asked. Points to what `executed` points to. */
void outcome_finished(Outcome *ret, const MsgCellExecuted *executed, LadderCause cause, double timeout);

/* Its texts outlive the message they came in: copied to `into`, which is empty before. What the cell changed
 * is forgotten. 0 or -ENOMEM. */
int outcome_own(Outcome *outcome, Buf *into);

/* The interpreter is gone. */
typedef struct Loss {
    LadderCause killed; /* we killed it, for that reason; otherwise none */
    bool reset;         /* with an interrupt: the session is being reset */
    const char *fault;  /* we killed it because of this; otherwise NULL */
    int status;         /* as from waitpid, where we did not kill it */
    double timeout;     /* of the call, seconds */
} Loss;

void outcome_lost(Outcome *ret, const Loss *loss);

/* It could not be run: `name` and the sentence say why. */
void outcome_failed(Outcome *ret, const char *name, const char *what, const char *why);

/* It was interrupted before it began. */
void outcome_never_begun(Outcome *ret);

/* The last step, when it is certain: completes the message. */
void outcome_settle(Outcome *outcome, const Fate *fate);
