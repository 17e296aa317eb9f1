/* Kind of an object, from its type alone. */
#pragma once

#include "guest/interpreter/namespace/label.h"

/* Kinds of the types themselves, never of their subclasses, which may be anything. */
typedef enum Kind {
    KIND_OTHER, /* only the name of its type is known */
    KIND_NONE,
    KIND_BOOL,
    KIND_INT,
    KIND_FLOAT,
    KIND_COMPLEX,
    KIND_STR,
    KIND_BYTES,
    KIND_TUPLE,
    KIND_FROZENSET,
    KIND_POLARS_FRAME,
    KIND_POLARS_SERIES,

    KIND_MUTABLE, /* from here on kinds may change in place in a way that shows */
    KIND_BYTEARRAY = KIND_MUTABLE,
    KIND_LIST,
    KIND_DICT,
    KIND_SET,
    KIND_ARRAY, /* numpy.ndarray */
    KIND_PANDAS_FRAME,
    KIND_PANDAS_SERIES,
} Kind;

Kind kind_of(PyTypeObject *type);

/* The type's full name, without `builtins.`. A module that is not plain text is a question mark. */
void type_name(PyTypeObject *type, Label *ret);
