#include "guest/interpreter/result.h"

#include "guest/interpreter/error.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/runtime.h"

static PyObject *told; /* wants to have each value; NULL where nobody does */

void result_tell(PyObject *function)
{
    Py_XSETREF(told, Py_XNewRef(function));
}

static PyObject *describe_failure(PyObject *value, PyObject *exception)
{
    const char *type = Py_TYPE(value)->tp_name, *name = Py_TYPE(exception)->tp_name;
    _pyref_ PyObject *message = PyObject_Str(exception);

    if (message)
        return PyUnicode_FromFormat("<%.200s object; repr() raised %.200s: %U>", type, name, message);
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyErr_Clear();
    return PyUnicode_FromFormat("<%.200s object; repr() raised %.200s>", type, name);
}

PyObject *result_repr(PyObject *value)
{
    PyObject *text = PyObject_Repr(value);

    if (text || !PyErr_ExceptionMatches(PyExc_Exception))
        return text;
    _pyref_ PyObject *exception = py_take_exception();
    return describe_failure(value, exception);
}

/* As in IPython: not where the cells have made `_` a name of their own. The name alone keeps the value: of
 * `last` only the address is known. */
static int keep_last(PyObject *value)
{
    static PyObject *name;
    static const void *last;
    PyObject *current;

    if (!name && !(name = PyUnicode_InternFromString("_")))
        return -1;
    current = PyDict_GetItemWithError(runtime.main_dict, name);
    if (current && current != last)
        return 0;
    last = value;
    return PyDict_SetItem(runtime.main_dict, name, value);
}

/* Types that have no form but text, told without a look at their methods. */
static bool is_plain(PyObject *value)
{
    return PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyBool_Check(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) ||
           PyTuple_CheckExact(value) || PyBytes_CheckExact(value) || PyAnySet_CheckExact(value);
}

static int display(PyObject *value, PyObject *text)
{
    guard_begin_runtime();
    _pyref_ PyObject *done = PyObject_CallFunctionObjArgs(runtime.display_result, value, text, NULL);
    return done ? 0 : -1;
}

static int tell(PyObject *value, uint64_t execution_count)
{
    if (!told)
        return 0;
    guard_begin_runtime();
    _pyref_ PyObject *done = PyObject_CallFunction(told, "KO", (unsigned long long)execution_count, value);
    return done ? 0 : -1;
}

static PyObject *report(PyObject *value, uint64_t execution_count)
{
    if (keep_last(value) < 0 || tell(value, execution_count) < 0)
        return NULL;

    _pyref_ PyObject *text = result_repr(value);

    if (!text || (!is_plain(value) && display(value, text) < 0))
        return NULL;
    return take(text);
}

/* The value that another hook has been given. */
static struct {
    bool shows;
    uint64_t execution_count;
    PyObject *text;
} showing;

PyObject *result_displayhook(PyObject *module, PyObject *value)
{
    if (!showing.shows)
        return PyObject_CallOneArg(runtime.python_displayhook, value);
    if (value == Py_None)
        Py_RETURN_NONE;

    PyObject *text = report(value, showing.execution_count);

    if (!text)
        return NULL;
    Py_XSETREF(showing.text, text);
    Py_RETURN_NONE;
}

static bool is_usual(PyObject *hook)
{
    return !hook || hook == runtime.displayhook || hook == runtime.python_displayhook ||
           !PyCallable_Check(hook);
}

/* Tells of a hook that fails, as Python tells of a sys.excepthook that does. */
static void tell_failure(void)
{
    _pyref_ PyObject *error = error_take();

    PySys_FormatStderr("Error in sys.displayhook:\n%U", PyTuple_GET_ITEM(error, 2));
    PyErr_Clear();
}

/* A hook that fails does not keep the value from being shown. */
static PyObject *show_by(PyObject *hook, PyObject *value, uint64_t execution_count)
{
    showing.shows = true;
    showing.execution_count = execution_count;
    _pyref_ PyObject *done = PyObject_CallOneArg(hook, value);
    _pyref_ PyObject *text = take(showing.text);
    showing.shows = false;
    if (done)
        return take(text);
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    tell_failure();
    return text ? take(text) : report(value, execution_count);
}

PyObject *result_show(PyObject *value, uint64_t execution_count)
{
    _pyref_ PyObject *hook = Py_XNewRef(PySys_GetObject("displayhook"));

    if (value == Py_None)
        return NULL;
    return is_usual(hook) ? report(value, execution_count) : show_by(hook, value, execution_count);
}
