#include "guest/interpreter/pyvalue.h"

#include "guest/interpreter/text.h"

static const char *write_any(Writer *w, PyObject *value, ValueBudget *budget);

static const char *write_text_value(Writer *w, PyObject *str)
{
    Utf8 text _cleanup_(utf8_deinit) = UTF8_NULL;

    if (utf8_view(str, &text) < 0) {
        PyErr_Clear();
        return "there was no memory for it";
    }
    write_text_n(w, text.data, text.size);
    return NULL;
}

static const char *write_integer(Writer *w, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);

    if (overflow == 0) {
        write_int(w, number);
        return NULL;
    }
    unsigned long long large = PyLong_AsUnsignedLongLong(value);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return "it holds an integer of more than 64 bits";
    }
    write_uint(w, large);
    return NULL;
}

static const char *write_sequence(Writer *w, PyObject *sequence, ValueBudget *budget)
{
    Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence);

    write_array(w, (size_t)n);
    for (Py_ssize_t i = 0; i < n; i++) {
        const char *why = write_any(w, PySequence_Fast_GET_ITEM(sequence, i), budget);
        if (why)
            return why;
    }
    return NULL;
}

/* Keys must be plain str with an encoding of their own, so that no two can become one. */
static const char *write_dict(Writer *w, PyObject *dict, ValueBudget *budget)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, n = PyDict_GET_SIZE(dict);

    if ((size_t)n > budget->keys || (size_t)n > budget->nodes)
        return "it has too many keys";
    budget->keys -= (size_t)n;
    budget->nodes -= (size_t)n;
    write_map(w, (size_t)n);
    while (PyDict_Next(dict, &at, &key, &value)) {
        Py_ssize_t size;
        const char *text = PyUnicode_CheckExact(key) ? PyUnicode_AsUTF8AndSize(key, &size) : NULL;
        if (!text) {
            PyErr_Clear();
            return "it has a key that is not text";
        }
        write_text_n(w, text, (size_t)size);
        const char *why = write_any(w, value, budget);
        if (why)
            return why;
    }
    budget->keys += (size_t)n;
    return NULL;
}

static const char *write_container(Writer *w, PyObject *value, ValueBudget *budget)
{
    bool is_dict = PyDict_CheckExact(value);

    if (!is_dict && !PyList_CheckExact(value) && !PyTuple_CheckExact(value)) {
        budget->refused = Py_TYPE(value);
        return "it holds values that are not plain data";
    }
    if (budget->depth == 0)
        return "it nests too deep";
    budget->depth--;
    const char *why = is_dict ? write_dict(w, value, budget) : write_sequence(w, value, budget);
    budget->depth++;
    return why;
}

static const char *write_any(Writer *w, PyObject *value, ValueBudget *budget)
{
    if (budget->nodes == 0)
        return "it has too many values";
    budget->nodes--;
    if (value == Py_None)
        write_nil(w);
    else if (PyBool_Check(value))
        write_bool(w, value == Py_True);
    else if (PyFloat_Check(value))
        write_double(w, PyFloat_AS_DOUBLE(value));
    else if (PyBytes_CheckExact(value))
        write_bytes(w, PyBytes_AS_STRING(value), (size_t)PyBytes_GET_SIZE(value));
    else if (PyByteArray_CheckExact(value))
        write_bytes(w, PyByteArray_AS_STRING(value), (size_t)PyByteArray_GET_SIZE(value));
    else if (PyUnicode_Check(value))
        return write_text_value(w, value);
    else if (PyLong_Check(value))
        return write_integer(w, value);
    else
        return write_container(w, value, budget);
    return NULL;
}

const char *write_value(Writer *w, PyObject *value, ValueBudget *budget)
{
    return write_any(w, value, budget);
}
