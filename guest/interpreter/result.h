/* The value of a cell. */
#pragma once

#include "guest/interpreter/pyref.h"

/* repr(value); where that raises, a text that says so. NULL with an exception for what is not an Exception,
 * such as KeyboardInterrupt. */
PyObject *result_repr(PyObject *value);

/* From now on each value is given to this as well: function(execution_count, value). */
void result_tell(PyObject *function);

/* Hands the value to sys.displayhook. The hook that Python is started with here keeps it as `_`, sends its
 * richer forms as a display and makes its text the result, which is returned. NULL where there is none, as
 * for None, or with an exception. */
PyObject *result_show(PyObject *value, uint64_t execution_count);

/* displayhook(value): that hook. While nothing is shown, Python's own, which prints. */
PyObject *result_displayhook(PyObject *module, PyObject *value);
