#include "guest/interpreter/errors.h"

#include <signal.h>
#include <string.h>

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/output.h"

static const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction before[ARRAY_SIZE(numbers)];

/* faulthandler writes to the descriptor itself. It is let in at once, and ends the process. */
static void on_fatal(int number)
{
    sinks_mark();
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
        if (numbers[i] == number)
            sigaction(number, &before[i], NULL);
    }
    raise(number);
}

void crash_init(void)
{
    struct sigaction action = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK | SA_NODEFER};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
        sigaction(numbers[i], &action, &before[i]);
}

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
