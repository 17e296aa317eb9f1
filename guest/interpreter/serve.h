/* Messages of the supervisor, one after the other, each answered before the next is read. */
#pragma once

#include "guest/interpreter/pyref.h"

/* function(channel): between two cells their event loop goes on in it; it returns once the channel can be
 * read. None is called before one is set. */
void rest_by(PyObject *function);

/* With the GIL, which is released while there is nothing to do, so that threads of earlier cells go on.
 * Returns when the supervisor is gone (-EPIPE) or speaks nonsense: a negative errno. */
int serve(void);
