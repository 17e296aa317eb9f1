/* Owned references that go out of scope by themselves: `_pyref_ PyObject *x = NULL;`. One variable is owned
 * or borrowed, never both; a reference leaves its variable through take(). */
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "proto/base/base.h"

static inline void py_decrefp(PyObject **p)
{
    Py_XDECREF(*p);
}

#define _pyref_ _cleanup_(py_decrefp)

/* Takes the exception that is set, complete with traceback; NULL when none is. A new reference. */
static inline PyObject *py_take_exception(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback;

    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (value && traceback)
        PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}
