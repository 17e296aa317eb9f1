/* A fork for work on the variables that may come to harm, where other threads are no hindrance. */
#pragma once

#include "guest/interpreter/pyref.h"

/* _limpet.fork(fd) → int: as os.fork(), but for the handlers of libraries, which may wait for their threads
 * for ever. In the child those threads go on; Python's are not there. Where there are others, the child has
 * files, pipes and connections of its own, as a copy that is brought back, so that they take nothing of what
 * is for the parent's; `fd` is the one that both have. */
PyObject *child_fork(PyObject *module, PyObject *fd);
