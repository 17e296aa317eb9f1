/* A fork for work on the variables that may come to harm, where other threads are no hindrance. */
#pragma once

#include "guest/interpreter/pyref.h"

/* _limpet.fork() → int: as os.fork(), but for the handlers of libraries, which may wait for their threads for
 * ever. In the child those threads go on; Python's are not there. */
PyObject *child_fork(PyObject *module, PyObject *unused);
