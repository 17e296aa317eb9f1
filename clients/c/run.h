/* A call that ends in a record: what its events become, and the wait for it. */
#pragma once

#include "clients/c/result.h"

/* The newest answers as they were sent. When the controller goes away before it has one, the question comes
 * again, and is answered again without asking anybody. Answers arrive in order and no more than LIMIT_ASKS
 * questions wait, so that an older one has arrived. */
typedef struct SentAnswers {
    struct {
        uint64_t ask;
        Buf message; /* empty: none */
    } sent[LIMIT_ASKS];
    size_t next;
} SentAnswers;

typedef struct RunCall {
    ClientCall call;
    const LimpetRun *run;  /* arguments of the call, and its callbacks */
    uint64_t consumed;     /* output events since the last credit */
    uint64_t delivered[2]; /* bytes of each stream */
    SentAnswers answers;
} RunCall;

int run_make_id(char ret[static LIMIT_RUN_ID + 1], Problem *problem);

/* ClientCall.on_event of one. */
int run_on_event(ClientCall *call, const Message *event);

/* Sends what client_begin() has made, and waits. 0 or negative, as client_call(). */
int run_wait(LimpetClient *client, RunCall *run_call, LimpetResult **ret);
