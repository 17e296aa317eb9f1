#include "guest/interpreter/checkpoint/threads.h"

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/text.h"

static void note(PyObject *thread, Notes *notes)
{
    /* As it is stored, past anything a class may do about it. */
    _pyref_ PyObject *dict = PyObject_GenericGetDict(thread, NULL);
    PyObject *name = dict ? PyDict_GetItemString(dict, "_name") : NULL;
    Utf8 text _cleanup_(utf8_deinit) = UTF8_NULL;

    if (!name || !PyUnicode_Check(name) || utf8_view(name, &text) < 0)
        notes_add(notes, "a thread is not running");
    else
        notes_add(notes, "thread '%.*s' is not running", (int)MIN(text.size, 1000u), text.data);
    PyErr_Clear();
}

void threads_note(Notes *notes)
{
    PyObject *module = PyDict_GetItemString(runtime.modules, "threading");
    PyObject *active =
        module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "_active") : NULL;
    PyObject *ident, *thread;
    Py_ssize_t at = 0;

    if (!active || !PyDict_Check(active))
        return;
    while (PyDict_Next(active, &at, &ident, &thread)) {
        if (!PyLong_Check(ident) || PyLong_AsUnsignedLong(ident) != PyThread_get_thread_ident())
            note(thread, notes);
    }
    PyErr_Clear();
}
