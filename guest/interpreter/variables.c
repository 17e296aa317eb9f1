#include "guest/interpreter/variables.h"

#include <errno.h>

#include "guest/interpreter/error.h"
#include "guest/interpreter/pyref.h"
#include "guest/interpreter/quietly.h"
#include "guest/interpreter/reply.h"
#include "guest/interpreter/runtime.h"

/* Returns whether the function has returned what it is to: why it could not be done, or None, and a list of
 * str. */
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

static PyObject *move_quietly(MessageKind kind, PyObject *path, bool whole)
{
    quietly_begin();
    PyObject *answer =
        kind == MSG_SAVE ? PyObject_CallFunctionObjArgs(runtime.save, path, whole ? Py_True : Py_False, NULL)
                         : PyObject_CallOneArg(runtime.load, path);
    if (!is_answer(answer)) {
        Py_XDECREF(answer);
        answer = failed();
        PyErr_Clear();
    }
    quietly_end();
    return answer;
}

int variables_move(MessageKind kind, uint64_t id, const MsgSaveCell *asked)
{
    _pyref_ PyObject *path =
        PyUnicode_DecodeUTF8(asked->path.data, (Py_ssize_t)asked->path.size, "surrogateescape");
    _pyref_ PyObject *answer = path ? move_quietly(kind, path, asked->whole) : NULL;

    if (!answer)
        return -ENOMEM;
    PyObject *error = PyTuple_GET_ITEM(answer, 0);
    return reply_moved(kind, id, error == Py_None ? NULL : error, PyTuple_GET_ITEM(answer, 1));
}
