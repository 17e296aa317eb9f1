/* Questions of cells to the client, and their answers. */
#pragma once

#include <semaphore.h>

#include "guest/channel.h"
#include "guest/interpreter/pyref.h"

/* Waiters for an answer. Several threads may wait: one of them reads the channel and hands out what arrives,
 * and another takes over when it leaves. All with the GIL, which is released while waiting. */

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

/* On the main thread at the end of a cell: nobody waits any more, and nobody reads. */
void waiters_end(void);

/* Answers are all that the channel brings during a cell. *ret_answer is a tuple (error, value), of which
 * error is None or a tuple (name, message) of str. What cannot be read as plain data is an error to be
 * raised, too. 0, or a negative errno when it is no answer at all. */
int answer_decode(const ChannelFrame *frame, uint64_t *ret_ask, PyObject **ret_answer);

/* is_answered() → bool: whether there is somebody who answers the questions of the cell that runs. A
 * RuntimeError where nobody can ask: in a forked child, and in a thread whose cell has ended. */
PyObject *ask_is_answered(PyObject *module, PyObject *unused);

/* ask(kind, name, payload) → (error, value), where is_answered(). None is no payload. A payload that is not
 * plain data is a TypeError, one over the limits a ValueError. */
PyObject *ask_ask(PyObject *module, PyObject *args);
