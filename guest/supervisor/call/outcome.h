/* End of a call, in the terms of the record: its status, and the error in plain words. The fate of the
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
    bool has_changed;     /* the call changed names, and they still are what it made of them */
    MsgChanged changed;
    Value memory;  /* absent, or what holds most of it */
    int exit_code; /* -1: did not exit */
    int signal;    /* 0: no signal */
    double cpu;    /* seconds */
    uint64_t peak_memory;
    bool speaks_of_state; /* `message` is to end with what became of the variables */
    char message[1536];
} Outcome;

/* The cell came to its end by itself, in time or after a SIGINT. *ret points to what `executed` points to. */
void outcome_finished(Outcome *ret, const MsgCellExecuted *executed, LadderCause cause, double timeout);

/* Copies the texts to `into`, which is empty before, so that they outlive their message. Changed names and
 * those that hold memory are forgotten. 0 or -ENOMEM. */
int outcome_own(Outcome *outcome, Buf *into);

/* Loss of the interpreter. */
typedef struct Loss {
    LadderCause killed; /* why the call was killed; LADDER_CAUSE_NONE: it was not */
    bool reset;         /* with LADDER_CAUSE_INTERRUPT: by a reset */
    const char *fault;  /* breach of the protocol; NULL: there was none */
    int status;         /* as from waitpid, where neither holds */
    double timeout;     /* of the call, seconds */
    bool waited;        /* the call had not begun */
} Loss;

void outcome_lost(Outcome *ret, const Loss *loss);

/* The call could not be run. `name` and the sentence say why. */
void outcome_failed(Outcome *ret, const char *name, const char *what, const char *why);

/* The call was interrupted before it began. */
void outcome_never_begun(Outcome *ret);

/* Its time limit had passed before it could begin. */
void outcome_too_late(Outcome *ret, double timeout);

/* Completes the message with what became of the variables. */
void outcome_settle(Outcome *outcome, const Fate *fate);
