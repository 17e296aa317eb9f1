/* Exceptions as data. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Takes the exception that is set and describes it as the tuple (name, message, traceback). Never fails,
 * leaves no exception set; whatever the exception's own methods do, they cannot make it fail either. */
PyObject *error_take(void);

/* The same for an exception that a cell ends with: it becomes sys.last_exc, and sys.excepthook is told. */
PyObject *error_report(void);
