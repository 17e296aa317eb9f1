/* Plain Python values to msgpack. No code of the cell runs in it: only the built-in types themselves are
 * taken, and subclasses of str, int and float, whose content is read past anything they override. */
#pragma once

#include "guest/interpreter/pyref.h"
#include "proto/wire.h"

/* Share that one value may use of the limits of a message; shared by the values of a display. */
typedef struct ValueBudget {
    size_t nodes;
    size_t keys;                 /* of containers within each other */
    size_t depth;                /* containers within each other */
    const PyTypeObject *refused; /* where a value is not plain data: its type */
} ValueBudget;

/* A share of the limits that leaves room for the record around it. */
#define VALUE_BUDGET                                                                                         \
    ((ValueBudget){.nodes = LIMIT_NODES / 8, .keys = LIMIT_KEYS / 4, .depth = LIMIT_DEPTH / 2 - 2})

/* Appends one value. NULL, or why it cannot be: a phrase such as "it nests too deep"; the buffer then holds a
 * part of it. Out of memory shows in writer_finish(). */
const char *write_value(Writer *w, PyObject *value, ValueBudget *budget);
