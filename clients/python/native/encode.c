/* Python's plain data to msgpack, as the package msgpack has it. No code of Python's runs meanwhile, so that
 * nothing changes on the way. */
#include "clients/python/native/native.h"

#define MESSAGE_DEPTH 511 /* of what is sent; the controller takes less, and says so */

static int encode(Writer *w, PyObject *value, int depth);

static int encode_int(Writer *w, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);

    if (number == -1 && PyErr_Occurred())
        return -1;
    if (overflow > 0) {
        unsigned long long large = PyLong_AsUnsignedLongLong(value);

        if (PyErr_Occurred())
            return -1;
        write_uint(w, large);
        return 0;
    }
    if (overflow < 0) {
        PyErr_SetString(PyExc_OverflowError, "an integer is too small");
        return -1;
    }
    write_int(w, number);
    return 0;
}

static int encode_text(Writer *w, PyObject *value)
{
    Py_ssize_t size;
    const char *text = PyUnicode_AsUTF8AndSize(value, &size);

    if (!text)
        return -1;
    write_text_n(w, text, (size_t)size);
    return 0;
}

/* Encodes bytes, or a copy of the bytes that an object offers. */
static int encode_bytes(Writer *w, PyObject *value)
{
    _cleanup_(py_decrefp) PyObject *bytes = PyBytes_FromObject(value);

    if (!bytes)
        return -1;
    write_bytes(w, PyBytes_AsString(bytes), (size_t)PyBytes_Size(bytes));
    return 0;
}

/* Fails on a container that has changed. An object that offers bytes may be of a class whose code changes the
 * container that it is in: each item is held while it is encoded, and as many must come as were announced. */

static int fail_changed(void)
{
    PyErr_SetString(PyExc_RuntimeError, "it changed while it was encoded");
    return -1;
}

static int encode_held(Writer *w, PyObject *item, int depth)
{
    _cleanup_(py_decrefp) PyObject *held = Py_NewRef(item);

    return encode(w, held, depth);
}

static int encode_dict(Writer *w, PyObject *dict, int depth)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, left = PyDict_Size(dict);

    write_map(w, (size_t)left);
    while (PyDict_Next(dict, &at, &key, &value)) {
        _cleanup_(py_decrefp) PyObject *held = Py_NewRef(value);

        if (left-- == 0)
            return fail_changed();
        if (encode_held(w, key, depth) < 0 || encode(w, held, depth) < 0)
            return -1;
    }
    return left == 0 ? 0 : fail_changed();
}

/* Encodes a list or a tuple. */
static int encode_array(Writer *w, PyObject *items, int depth)
{
    bool list = PyList_Check(items);
    Py_ssize_t n = list ? PyList_Size(items) : PyTuple_Size(items);

    write_array(w, (size_t)n);
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = list ? PyList_GetItem(items, i) : PyTuple_GetItem(items, i);

        if (!item)
            return fail_changed();
        if (encode_held(w, item, depth) < 0)
            return -1;
    }
    return 0;
}

static int encode_container(Writer *w, PyObject *value, int depth)
{
    if (depth == 0) {
        PyErr_SetString(PyExc_ValueError, "it nests too deep");
        return -1;
    }
    if (PyDict_Check(value))
        return encode_dict(w, value, depth - 1);
    if (PyList_Check(value) || PyTuple_Check(value))
        return encode_array(w, value, depth - 1);
    PyErr_Format(PyExc_TypeError, "it is no plain data: %R", Py_TYPE(value));
    return -1;
}

static int encode(Writer *w, PyObject *value, int depth)
{
    if (PyUnicode_Check(value))
        return encode_text(w, value);
    if (value == Py_None) {
        write_nil(w);
        return 0;
    }
    if (PyBool_Check(value)) {
        write_bool(w, value == Py_True);
        return 0;
    }
    if (PyLong_Check(value))
        return encode_int(w, value);
    if (PyFloat_Check(value)) {
        write_double(w, PyFloat_AsDouble(value));
        return 0;
    }
    if (PyBytes_Check(value) || PyByteArray_Check(value) || PyMemoryView_Check(value))
        return encode_bytes(w, value);
    return encode_container(w, value, depth);
}

int encode_value(Writer *w, PyObject *value)
{
    return encode(w, value, MESSAGE_DEPTH);
}
