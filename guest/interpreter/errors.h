/* Errors of cells as they are reported, and of the process. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Fatal signals: what was printed before them comes before the traceback that faulthandler writes. */

/* Once, when Python's faulthandler is there. */
void crash_init(void);

/* Takes the exception that is set and describes it as the tuple (name, message, traceback). Never fails,
 * leaves no exception set; whatever the exception's own methods do, they cannot make it fail either. */
PyObject *error_take(void);

/* The same for an exception that a cell ends with: it becomes sys.last_exc, and sys.excepthook is told. */
PyObject *error_report(void);
