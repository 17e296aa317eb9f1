#include "guest/interpreter/namespace/kind.h"

#include <string.h>

#include "guest/interpreter/namespace/array.h"
#include "guest/interpreter/namespace/native.h"

static PyObject *qualname(PyTypeObject *type)
{
    return ((PyHeapTypeObject *)type)->ht_qualname;
}

/* Borrowed; NULL when it is not plain text. Class bodies begin with it, so that the search is short. */
static PyObject *module(PyTypeObject *type)
{
    static NativeName attribute = {.text = "__module__"};
    PyObject *name = type->tp_dict ? native_find(type->tp_dict, &attribute) : NULL;

    return name && PyUnicode_CheckExact(name) ? name : NULL;
}

static bool in_package(PyObject *module_name, const char *package)
{
    size_t n = strlen(package);
    const char *name = module_name ? PyUnicode_AsUTF8(module_name) : NULL;

    if (!name)
        PyErr_Clear();
    return name && strncmp(name, package, n) == 0 && (name[n] == '\0' || name[n] == '.');
}

/* A class that a cell gives such a name gets no further than lying about itself: how its objects are looked
 * at does not depend on what they are. */
static Kind frame_kind(PyTypeObject *type)
{
    bool frame = PyUnicode_CompareWithASCIIString(qualname(type), "DataFrame") == 0;

    if (!frame && PyUnicode_CompareWithASCIIString(qualname(type), "Series") != 0)
        return KIND_OTHER;
    if (in_package(module(type), "pandas"))
        return frame ? KIND_PANDAS_FRAME : KIND_PANDAS_SERIES;
    if (in_package(module(type), "polars"))
        return frame ? KIND_POLARS_FRAME : KIND_POLARS_SERIES;
    return KIND_OTHER;
}

Kind kind_of(PyTypeObject *type)
{
    static const struct {
        PyTypeObject *type;
        Kind kind;
    } exact[] = {
        {&PyLong_Type, KIND_INT},
        {&PyUnicode_Type, KIND_STR},
        {&PyFunction_Type, KIND_OTHER},
        {&PyModule_Type, KIND_OTHER},
        {&PyType_Type, KIND_OTHER},
        {&PyFloat_Type, KIND_FLOAT},
        {&PyList_Type, KIND_LIST},
        {&PyDict_Type, KIND_DICT},
        {&PyBool_Type, KIND_BOOL},
        {&PyTuple_Type, KIND_TUPLE},
        {&PySet_Type, KIND_SET},
        {&PyBytes_Type, KIND_BYTES},
        {&PyComplex_Type, KIND_COMPLEX},
        {&PyByteArray_Type, KIND_BYTEARRAY},
        {&PyFrozenSet_Type, KIND_FROZENSET},
    };

    for (size_t i = 0; i < ARRAY_SIZE(exact); i++) {
        if (type == exact[i].type)
            return exact[i].kind;
    }
    if (type == Py_TYPE(Py_None))
        return KIND_NONE;
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE)
        return frame_kind(type);
    return array_is_type(type) ? KIND_ARRAY : KIND_OTHER;
}

static void static_name(const char *name, Label *ret)
{
    static const char builtins[] = "builtins.";

    if (strncmp(name, builtins, sizeof(builtins) - 1) == 0)
        name += sizeof(builtins) - 1;
    label_add(ret, name, strlen(name));
}

void type_name(PyTypeObject *type, Label *ret)
{
    label_init(ret);
    if (!(type->tp_flags & Py_TPFLAGS_HEAPTYPE)) {
        static_name(type->tp_name, ret);
        return;
    }
    PyObject *name = module(type);
    if (!name)
        label_add(ret, "?", 1);
    else if (PyUnicode_CompareWithASCIIString(name, "builtins") != 0)
        label_add_str(ret, name);
    if (ret->size > 0)
        label_add(ret, ".", 1);
    label_add_str(ret, qualname(type));
}
