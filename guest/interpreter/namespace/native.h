/* Reading objects past Python: no method, property, metaclass or __eq__ of anyone is asked, whatever cells
 * have put in their place. Nothing here leaves an exception set. Returned objects are new references, NULL
 * means that it is not there. */
#pragma once

#include "guest/interpreter/pyref.h"

/* A name that attributes are stored under; static, with `text` set. */
typedef struct NativeName {
    const char *text;
    PyObject *interned;
} NativeName;

/* The value of a key in a dictionary of attributes, whose names are interned: looks at each entry, since a
 * lookup would compare with keys that may not be plain. Borrowed. */
PyObject *native_find(PyObject *dict, NativeName *name);

/* What is in the object's own __dict__. */
PyObject *native_get_own(PyObject *object, NativeName *name);

/* An attribute that a type written in C gives the object; the type's full name begins with `prefix`. Types
 * made by a class statement have no such attributes, so that the getter is the library's. */
PyObject *native_get(PyObject *object, const char *prefix, const char *name);

/* What a method written in C that takes no arguments returns, where it is a size; -1 otherwise. The name of
 * the object's type ends in `suffix`. */
Py_ssize_t native_size(PyObject *object, const char *suffix, const char *method);
