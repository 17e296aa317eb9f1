/* `_limpet.Stream`, what is below sys.stdout and sys.stderr: a stream of bytes that puts them into a sink,
 * and cannot be closed. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Adds the type, and `stdout` and `stderr`, to the module `_limpet`. */
int stream_add(PyObject *module);

/* The stream object of descriptor 1 or 2; borrowed, NULL before `_limpet` was imported. */
PyObject *stream_object(int fd);

/* Flushes both. -1 with an exception when a signal handler raised. */
int stream_flush_all(void);
