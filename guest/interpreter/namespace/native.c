#include "guest/interpreter/namespace/native.h"

#include <string.h>

PyObject *native_find(PyObject *dict, NativeName *name)
{
    PyObject *key, *value;
    Py_ssize_t at = 0;

    if (!name->interned && !(name->interned = PyUnicode_InternFromString(name->text)))
        PyErr_Clear();
    while (name->interned && PyDict_Next(dict, &at, &key, &value)) {
        if (key == name->interned)
            return value;
    }
    return NULL;
}

PyObject *native_get_own(PyObject *object, NativeName *name)
{
    /* Types keep theirs in a way of their own. */
    _pyref_ PyObject *dict = PyType_Check(object) ? NULL : PyObject_GenericGetDict(object, NULL);

    if (!dict)
        PyErr_Clear();
    return dict && PyDict_Check(dict) ? Py_XNewRef(native_find(dict, name)) : NULL;
}

static const PyGetSetDef *find_getter(const PyTypeObject *type, const char *prefix, const char *name)
{
    size_t n = strlen(prefix);

    for (; type; type = type->tp_base) {
        if (strncmp(type->tp_name, prefix, n) != 0)
            continue;
        for (const PyGetSetDef *def = type->tp_getset; def && def->name; def++) {
            if (def->get && strcmp(def->name, name) == 0)
                return def;
        }
    }
    return NULL;
}

PyObject *native_get(PyObject *object, const char *prefix, const char *name)
{
    const PyGetSetDef *def = find_getter(Py_TYPE(object), prefix, name);
    PyObject *value = def ? def->get(object, def->closure) : NULL;

    if (!value)
        PyErr_Clear();
    return value;
}

static const PyMethodDef *find_method(const PyTypeObject *type, const char *name)
{
    for (const PyMethodDef *def = type->tp_methods; def && def->ml_name; def++) {
        if (def->ml_flags == METH_NOARGS && strcmp(def->ml_name, name) == 0)
            return def;
    }
    return NULL;
}

static bool ends_in(const char *text, const char *suffix)
{
    size_t n = strlen(text), m = strlen(suffix);

    return n >= m && strcmp(text + n - m, suffix) == 0;
}

Py_ssize_t native_size(PyObject *object, const char *suffix, const char *method)
{
    const PyTypeObject *type = Py_TYPE(object);
    const PyMethodDef *def = ends_in(type->tp_name, suffix) ? find_method(type, method) : NULL;
    _pyref_ PyObject *answer = def ? def->ml_meth(object, NULL) : NULL;
    Py_ssize_t size = answer && PyLong_CheckExact(answer) ? PyLong_AsSsize_t(answer) : -1;

    PyErr_Clear();
    return size;
}
