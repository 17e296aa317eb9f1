/* Changes of the names of cells since the last look. No value is held for it, so that nobody's life is
 * prolonged.
 *
 * From Python 3.12 on Python tells of each binding (bindings_watched.c); before, the namespace is compared
 * with what it was (bindings_compared.c). Objects that are changed in place are compared in both. So this is
 * not seen: a change in place that leaves the length, or the shape of an array or frame, as it was, and any
 * in an object that has none; before 3.12 also a name bound to a new object that has taken the address of the
 * old one and looks like it. A name bound to the object that it is bound to already has not changed. */
#pragma once

#include "guest/interpreter/pyref.h"

/* `value` is NULL for a name that is gone, `before` is false for a new one. Both objects are borrowed. May
 * not change the namespace. */
typedef void (*BindingFn)(void *context, PyObject *name, bool before, PyObject *value);

/* Once, when the namespace is as the first cell finds it. -1 with an exception. */
int bindings_init(void);

/* Reports each listed name (variable.h) that has been bound, deleted or changed since the last call. */
void bindings_collect(BindingFn report, void *context);
