/* The namespace of cells, told without running code of theirs. */
#pragma once

#include "guest/interpreter/pyref.h"
#include "proto/schema.h"

/* Held while they are described: libraries asked for the size of their data may let other threads run. */
typedef struct Listed {
    PyObject *names[LIMIT_NAMESPACE], *values[LIMIT_NAMESPACE];
    size_t count, more;
} Listed;

/* With the GIL, all of them. */
void listed_hold(Listed *ret);
void listed_release(Listed *listed);

/* Returns the message with the listing; points to `listed`. */
MsgNamespace listed_say(const Listed *listed);
