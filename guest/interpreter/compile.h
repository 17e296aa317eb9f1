/* Source of a cell to code objects. */
#pragma once

#include "guest/interpreter/pyref.h"

/* `tail` is the last statement where it is an expression whose value is wanted; `head` is what comes before.
 * Either may be NULL. */
typedef struct Compiled {
    PyObject *head, *tail;
} Compiled;

static inline void compiled_deinit(Compiled *compiled)
{
    Py_CLEAR(compiled->head);
    Py_CLEAR(compiled->tail);
}

/* `source` has line ends as \n. What the cell imports from __future__ holds for later cells too. -1 with an
 * exception. */
int compile_cell(PyObject *source, PyObject *filename, Compiled *ret);
