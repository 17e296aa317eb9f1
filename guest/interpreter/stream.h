/* `_limpet.Stream`, what sys.stdout and sys.stderr are: a text stream without an encoder of its own that puts
 * UTF-8 into a sink, can be written whatever text holds, and cannot be closed. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Adds the types to the module `_limpet`. */
int stream_add_types(PyObject *module);

/* The stream object of descriptor 1 or 2; borrowed, NULL before `_limpet` was imported. */
PyObject *stream_object(int fd);

/* Flushes both. -1 with an exception when a signal handler raised. */
int stream_flush_all(void);
