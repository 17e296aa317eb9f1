/* Calls: running the code of a cell, and what becomes of its value, its figures and its errors. */
#pragma once

#include <stdbool.h>

#include "guest/interpreter/pyref.h"
#include "guest/interpreter/link.h"
#include "proto/base/base.h"
#include "proto/wire.h"

/* Takes the exception that is set and describes it as the tuple (name, message, traceback). Never fails,
 * leaves no exception set; whatever the exception's own methods do, they cannot make it fail either. */
PyObject *error_take(void);

/* The language of cells, where it is not Python: a function in Python that has them run by a program beside
 * the interpreter (limpet_languages).
 *
 * function(code, number) → the value of the cell, or None; it raises what the cell ended with. From then on
 * it is called in place of compiling the cell. */
void language_set(PyObject *function);

/* repr(value); where that raises, a text that says so. NULL with an exception for what is not an Exception,
 * such as KeyboardInterrupt. */
PyObject *result_repr(PyObject *value);

/* From now on each value is given to this as well: function(execution_count, value). */
void result_tell(PyObject *function);

/* From now on function(value) gives the text of a result; None: repr() does again. */
void result_format(PyObject *function);

/* From now on these are called before and after each cell; what they raise is dropped. */
void cells_tell(PyObject *before, PyObject *after);

/* displayhook(value): that hook. While nothing is shown, Python's own, which prints. */
PyObject *result_displayhook(PyObject *module, PyObject *value);

typedef struct CellRequest {
    uint64_t id; /* of the message */
    uint64_t execution_count;
    bool asks;   /* somebody answers its questions */
    bool script; /* nothing follows it */
    bool last;   /* the session ends with it */
    Text code;   /* read before any of it runs: the next message takes its place */
} CellRequest;

/* Runs the cell; whatever it does ends in a reply, which is to be sent, except where it ends the process.
 * Everything it wrote has left the process when this returns. 0 or a negative errno. */
int cell_run(const CellRequest *cell, Buf *reply);

/* Runs code before the first cell, for nobody: what it prints and shows goes nowhere. As (name, message,
 * traceback) what it ended with, or NULL when it ended well. */
PyObject *cell_set_up(Text code);
