#include "guest/interpreter/namespace/unwatched.h"

#include "guest/interpreter/namespace/variable.h"
#include "guest/interpreter/runtime.h"

/* Each name to a number that its value then gave; no value is held. */
static PyObject *looks;

/* The same for a name that has been left alone. A new object that took the address of the old one shows in
 * its type, or as a number in its value. */
static PyObject *look_at(PyObject *value)
{
    uint64_t look = (uintptr_t)value * UINT64_C(0x9e3779b97f4a7c15);

    look = (look ^ (uintptr_t)Py_TYPE(value)) * UINT64_C(0x9e3779b97f4a7c15);
    return PyLong_FromUnsignedLongLong(look ^ number_glance(value, kind_of(Py_TYPE(value))));
}

int unwatched_begin(PyObject *known)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;
    _pyref_ PyObject *fresh = PyDict_New();

    if (!fresh)
        return -1;
    PyObject_GC_UnTrack(fresh); /* gc.get_objects() does not hand it to cells */
    while (PyDict_Next(runtime.main_dict, &at, &name, &value)) {
        if (!PyUnicode_CheckExact(name))
            return -1;
        if (PyDict_Contains(known, name) == 1)
            continue;
        _pyref_ PyObject *look = look_at(value);
        if (!look || PyDict_SetItem(fresh, name, look) < 0)
            return -1;
    }
    Py_XSETREF(looks, take(fresh));
    return 0;
}

/* Compares a name that was not known with the look at it before. */
static void compare(PyObject *name, PyObject *value, UnwatchedFn note)
{
    PyObject *before = PyDict_GetItemWithError(looks, name);
    _pyref_ PyObject *now = before ? look_at(value) : NULL;

    if (!before)
        note(name, false);
    else if (!now || PyObject_RichCompareBool(before, now, Py_EQ) != 1)
        note(name, true);
}

void unwatched_end(PyObject *known, UnwatchedFn note)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;

    while (looks && PyDict_Next(runtime.main_dict, &at, &name, &value)) {
        if (!PyUnicode_CheckExact(name) || PyDict_Contains(known, name) != 1)
            compare(name, value, note);
    }
    at = 0;
    while (looks && PyDict_Next(looks, &at, &name, &value)) {
        if (PyDict_Contains(runtime.main_dict, name) == 0)
            note(name, true);
    }
    Py_CLEAR(looks);
}
