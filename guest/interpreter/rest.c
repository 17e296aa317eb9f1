#include "guest/interpreter/rest.h"

#include <stdlib.h>
#include <unistd.h>

#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/inbox.h"
#include "guest/interpreter/run.h"

static PyObject *runs; /* lives as long as the process */

void rest_by(PyObject *function)
{
    Py_XSETREF(runs, Py_NewRef(function));
}

void rest(void)
{
    if (!runs || !inbox_is_empty())
        return;
    run.rests = true;
    _pyref_ PyObject *done = PyObject_CallFunction(runs, "i", descriptors_channel());
    run.rests = false;
    if (getpid() != run.process) /* a task has forked */
        _exit(done ? EXIT_SUCCESS : EXIT_FAILURE);
    PyErr_Clear();
}
