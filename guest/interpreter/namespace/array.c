#include "guest/interpreter/namespace/array.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

#include "guest/interpreter/namespace/native.h"

#define NUMPY "numpy."

/* The head of PyArrayObject, part of NumPy's ABI from 1.0 to 2.x: PyArray_DIMS() is compiled into every
 * extension module as an access to it. */
typedef struct ArrayHead {
    PyObject_HEAD char *data;
    int nd;
    Py_ssize_t *dimensions;
} ArrayHead;

bool array_is_type(const PyTypeObject *type)
{
    return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && strcmp(type->tp_name, NUMPY "ndarray") == 0 &&
           type->tp_basicsize >= (Py_ssize_t)sizeof(ArrayHead);
}

int array_shape(PyObject *array, const Py_ssize_t **ret_shape)
{
    const ArrayHead *head = (const ArrayHead *)array;

    *ret_shape = head->dimensions;
    return head->nd < 0 || head->nd > FACTS_DIMENSIONS ? 0 : head->nd;
}

Py_ssize_t array_bytes(PyObject *array)
{
    _pyref_ PyObject *bytes = native_get(array, NUMPY, "nbytes");
    Py_ssize_t n = bytes && PyLong_CheckExact(bytes) ? PyLong_AsSsize_t(bytes) : -1;

    PyErr_Clear();
    return n;
}

static void add(Label *label, const char *text)
{
    label_add(label, text, strlen(text));
}

/* From the array protocol's form, such as "<f8" or "<M8[ns]". */
static void name_typestr(const char *typestr, Label *ret)
{
    static const char *const names[] = {
        ['i'] = "int",  ['u'] = "uint",       ['f'] = "float",       ['c'] = "complex",
        ['b'] = "bool", ['M'] = "datetime64", ['m'] = "timedelta64", ['O'] = "object",
    };
    const char native = __BYTE_ORDER == __LITTLE_ENDIAN ? '<' : '>';
    unsigned char kind = (unsigned char)(typestr[0] ? typestr[1] : 0);
    char bits[16];

    if ((typestr[0] != native && typestr[0] != '|') || kind >= ARRAY_SIZE(names) || !names[kind]) {
        add(ret, typestr);
        return;
    }
    add(ret, names[kind]);
    if (strchr("iufc", kind)) {
        snprintf(bits, sizeof(bits), "%lu", strtoul(typestr + 2, NULL, 10) * 8);
        add(ret, bits);
    } else if (strchr(typestr, '[')) {
        add(ret, strchr(typestr, '['));
    }
}

void array_dtype_name(PyObject *dtype, Label *ret)
{
    _pyref_ PyObject *typestr = native_get(dtype, NUMPY "dtype", "str");
    const char *text = typestr && PyUnicode_CheckExact(typestr) ? PyUnicode_AsUTF8(typestr) : NULL;

    if (text)
        name_typestr(text, ret);
    PyErr_Clear();
}

void array_dtype(PyObject *array, Label *ret)
{
    _pyref_ PyObject *dtype = native_get(array, NUMPY, "dtype");

    if (dtype)
        array_dtype_name(dtype, ret);
}
