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

/* Returns the object's own attribute from its __dict__, or NULL. */
PyObject *native_get_own(PyObject *object, NativeName *name);

/* An attribute that a type written in C gives the object; the type's full name begins with `prefix`. Types
 * made by a class statement have no such attributes, so that the getter is the library's. */
PyObject *native_get(PyObject *object, const char *prefix, const char *name);

/* Returns the size that a method written in C without arguments returns; -1 where it returns none. The name
 * of the object's type ends in `suffix`. */
Py_ssize_t native_size(PyObject *object, const char *suffix, const char *method);
