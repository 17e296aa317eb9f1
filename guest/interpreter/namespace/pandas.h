/* Frames and series of pandas, read from where pandas keeps their data. What does not look as it should, as
 * in a version to come, is left unsaid. `ndim` is 2 for a frame, 1 for a series. */
#pragma once

#include "guest/interpreter/namespace/facts.h"

/* Finds the shape; false where it is not known. Costs some 100 ns. */
bool pandas_shape(PyObject *object, int ndim, Py_ssize_t ret_shape[2]);

void pandas_facts(PyObject *object, int ndim, Facts *ret);
