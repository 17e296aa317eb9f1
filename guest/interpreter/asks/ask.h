/* Questions of a cell to the client that runs it, as limpet_runtime asks them. */
#pragma once

#include "guest/interpreter/pyref.h"

/* is_answered() → bool: whether there is somebody who answers the questions of the cell that runs. A
 * RuntimeError where nobody can ask: in a forked child, and in a thread whose cell has ended. */
PyObject *ask_is_answered(PyObject *module, PyObject *unused);

/* ask(kind, name, payload) → (error, value), where is_answered(). None is no payload. A payload that is not
 * plain data is a TypeError, one over the limits a ValueError. */
PyObject *ask_ask(PyObject *module, PyObject *args);
