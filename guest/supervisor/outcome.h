/* How a call ended, in the terms of the record: status, state, and the error in plain words. */
#pragma once

#include <sys/resource.h>

#include "guest/supervisor/executed.h"
#include "guest/supervisor/ladder.h"

typedef struct Outcome {
    const char *status;
    bool state_lost;
    Text result;
    PythonError error; /* may point into `message` */
    int exit_code;     /* -1: did not exit */
    int signal;        /* 0: no signal */
    double cpu;        /* seconds */
    uint64_t peak_memory;
    char message[1024];
} Outcome;

/* The cell came to its end by itself, in time or after it was asked. */
void outcome_finished(Outcome *ret, const Executed *executed, LadderCause cause, double timeout);

/* The interpreter is gone. */
typedef struct Loss {
    LadderCause killed; /* we killed it, for that reason; otherwise none */
    bool reset;         /* with an interrupt: the session is being reset */
    const char *fault;  /* we killed it because of this; otherwise NULL */
    int status;         /* as from waitpid */
    double timeout;     /* of the call, seconds */
} Loss;

void outcome_lost(Outcome *ret, const Loss *loss);

/* Why an interpreter ended before it was ready: its own complaint, if it made one, or how it ended. */
void outcome_describe_start(char *ret, size_t size, const Loss *loss, const Buf *complaint);

/* There was no interpreter to run it. */
void outcome_failed(Outcome *ret, const char *reason);

/* It was interrupted before it began. */
void outcome_never_begun(Outcome *ret);
