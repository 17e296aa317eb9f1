/* Waiters for an answer. Several threads may wait: one of them reads the channel and hands out what arrives,
 * and another takes over when it leaves. All with the GIL, which is released while waiting. */
#pragma once

#include <semaphore.h>

#include "guest/interpreter/pyref.h"

typedef enum WaiterState {
    WAITER_QUEUED, /* for its turn: LIMIT_ASKS others wait for answers */
    WAITER_ASKING, /* its question is on its way, or sent */
    WAITER_ANSWERED,
    WAITER_ENDED, /* its cell has ended */
} WaiterState;

typedef struct Waiter {
    struct Waiter *next;
    WaiterState state;
    uint64_t ask;     /* number of the question */
    PyObject *answer; /* made by answer_decode(); NULL until then */
    sem_t woken;
} Waiter;

/* Waits for the turn to ask; then gives the question its number. Must be left in any case. All but leaving:
 * 0, or -1 with an exception, such as a KeyboardInterrupt. */
int waiter_enter(Waiter *waiter);
int waiter_wait(Waiter *waiter);
void waiter_leave(Waiter *waiter);

/* On the main thread at the end of a cell: nobody waits any more, and nobody reads. */
void waiters_end(void);
