/* Names bound while nobody watches: found by comparing the namespace before and after. Not seen is a name
 * bound to a new object that has taken the address of the old one and is of its type, and no other number. */
#pragma once

#include "guest/interpreter/pyref.h"

/* `was_bound`: before nobody watched. */
typedef void (*UnwatchedFn)(PyObject *name, bool was_bound);

/* Remembers all names but those of the dict `known`. -1 where there is no memory, perhaps with an exception,
 * or where keys are no plain str, so that looking one up could run code. */
int unwatched_begin(PyObject *known);

/* Notes what has become of them, and of names that are new. Does nothing without a beginning. */
void unwatched_end(PyObject *known, UnwatchedFn note);
