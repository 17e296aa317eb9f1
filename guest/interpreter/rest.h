/* Between two cells: what they have left to their event loop goes on until the next message comes. */
#pragma once

#include "guest/interpreter/pyref.h"

/* function(channel): it returns once the channel can be read. None is called before one is set. */
void rest_by(PyObject *function);

void rest(void);
