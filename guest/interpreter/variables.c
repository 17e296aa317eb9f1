#include "guest/interpreter/variables.h"

#include <errno.h>

#include "guest/interpreter/error.h"
#include "guest/interpreter/pyref.h"
#include "guest/interpreter/quietly.h"
#include "guest/interpreter/reply.h"
#include "guest/interpreter/runtime.h"

/* What the function is to return: why it could not be done, or None, and a list of str. */
static bool is_answer(PyObject *answer)
{
    if (!answer || !PyTuple_CheckExact(answer) || PyTuple_GET_SIZE(answer) != 2 ||
        !PyList_CheckExact(PyTuple_GET_ITEM(answer, 1)))
        return false;
    return PyTuple_GET_ITEM(answer, 0) == Py_None || PyUnicode_Check(PyTuple_GET_ITEM(answer, 0));
}

/* The answer where the function has none: it raised. */
static PyObject *failed(void)
{
    _pyref_ PyObject *error = error_take();

    return Py_BuildValue(
        "(N[])", PyUnicode_FromFormat("%U: %U", PyTuple_GET_ITEM(error, 0), PyTuple_GET_ITEM(error, 1)));
}

static PyObject *move_quietly(PyObject *function, PyObject *path)
{
    quietly_begin();
    PyObject *answer = PyObject_CallOneArg(function, path);
    if (!is_answer(answer)) {
        Py_XDECREF(answer);
        answer = failed();
        PyErr_Clear();
    }
    quietly_end();
    return answer;
}

int variables_move(MessageKind kind, uint64_t id, Text path)
{
    _pyref_ PyObject *name = PyUnicode_DecodeUTF8(path.data, (Py_ssize_t)path.size, "surrogateescape");
    _pyref_ PyObject *answer =
        name ? move_quietly(kind == MSG_SAVE ? runtime.save : runtime.load, name) : NULL;

    if (!answer)
        return -ENOMEM;
    PyObject *error = PyTuple_GET_ITEM(answer, 0);
    return reply_moved(kind, id, error == Py_None ? NULL : error, PyTuple_GET_ITEM(answer, 1));
}
