/* The value of a cell. */
#pragma once

#include "guest/interpreter/pyref.h"

/* repr(value); where that raises, a text that says so. NULL with an exception for what is not an Exception,
 * such as KeyboardInterrupt. */
PyObject *result_repr(PyObject *value);

/* From now on each value is given to this as well: function(execution_count, value). */
void result_tell(PyObject *function);

/* Keeps the value as `_`, sends its richer forms as a display, and returns its text. NULL with an exception.
 */
PyObject *result_report(PyObject *value, uint64_t execution_count);
