#include "guest/interpreter/error.h"

#include <string.h>

#include "guest/interpreter/guard.h"
#include "guest/interpreter/runtime.h"

static bool is_description(PyObject *object)
{
    return object && PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == 3 &&
           PyUnicode_Check(PyTuple_GET_ITEM(object, 0)) && PyUnicode_Check(PyTuple_GET_ITEM(object, 1)) &&
           PyUnicode_Check(PyTuple_GET_ITEM(object, 2));
}

/* Without Python code but the exception's own __str__, when the runtime was interrupted or broken. */
static PyObject *describe_briefly(PyObject *exception)
{
    const char *name = strrchr(Py_TYPE(exception)->tp_name, '.');
    _pyref_ PyObject *message = NULL;

    name = name ? name + 1 : Py_TYPE(exception)->tp_name;
    message = PyObject_Str(exception);
    if (!message) {
        PyErr_Clear();
        message = PyUnicode_FromString("<exception str() failed>");
    }
    if (!message)
        return NULL;
    _pyref_ PyObject *text = PyUnicode_FromFormat("%s: %U\n", name, message);
    return text ? Py_BuildValue("(sOO)", name, message, text) : NULL;
}

static PyObject *describe(PyObject *exception)
{
    PyObject *description;

    if (!exception)
        return Py_NewRef(runtime.last_resort);
    guard_begin_runtime();
    description = PyObject_CallOneArg(runtime.describe_error, exception);
    if (!is_description(description)) {
        PyErr_Clear();
        Py_XDECREF(description);
        description = describe_briefly(exception);
    }
    PyErr_Clear();
    return description ? description : Py_NewRef(runtime.last_resort);
}

PyObject *error_take(void)
{
    _pyref_ PyObject *exception = py_take_exception();

    return describe(exception);
}

PyObject *error_report(void)
{
    _pyref_ PyObject *exception = py_take_exception();
    PyObject *description = describe(exception);
    _pyref_ PyObject *done = exception ? PyObject_CallOneArg(runtime.keep_error, exception) : NULL;

    PyErr_Clear();
    return description;
}
