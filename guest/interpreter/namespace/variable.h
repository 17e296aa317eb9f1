/* A variable as the protocol has it: name, type, shape, dtype, bytes, repr. */
#pragma once

#include "guest/interpreter/namespace/kind.h"

/* Returns whether a key of the namespace of cells is listed: a plain str that does not begin with an
 * underscore. */
bool variable_is_listed(PyObject *name);

/* Runs no code of anyone's: what is not certain without that is nil. Leaves no exception set. */
void write_variable(Writer *w, PyObject *name, PyObject *value);

/* A number in which a change in place shows: the length or shape. Equal numbers prove nothing. The namespace
 * itself, as a value, never shows any. Costs some nanoseconds, for frames some 100. */
uint64_t variable_glance(PyObject *value, Kind kind);

/* Differs for most ints, and floats, that differ. 0 for other kinds. */
uint64_t number_glance(PyObject *value, Kind kind);
