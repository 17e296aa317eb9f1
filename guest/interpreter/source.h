/* The source of cells, where Python's tracebacks and inspect look for it: linecache. Only the newest are
 * kept, SOURCES_MAX of them and SOURCES_BYTES in all. */
#pragma once

#include "guest/interpreter/pyref.h"

#define SOURCES_MAX   1000u
#define SOURCES_BYTES (32u << 20)

/* -1 with an exception. */
int source_register(PyObject *filename, PyObject *source);
