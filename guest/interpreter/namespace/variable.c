#include "guest/interpreter/namespace/variable.h"

#include <stdio.h>
#include <string.h>

#include "guest/interpreter/namespace/array.h"
#include "guest/interpreter/namespace/pandas.h"
#include "guest/interpreter/namespace/polars.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/text.h"
#include "proto/schema.h"

bool variable_is_listed(PyObject *name)
{
    return PyUnicode_CheckExact(name) &&
           (PyUnicode_GET_LENGTH(name) == 0 || PyUnicode_READ_CHAR(name, 0) != '_');
}

static Py_ssize_t length(PyObject *value, Kind kind)
{
    switch (kind) {
    case KIND_STR:
        return PyUnicode_GetLength(value);
    case KIND_DICT:
        return PyDict_GET_SIZE(value);
    case KIND_SET:
    case KIND_FROZENSET:
        return PySet_GET_SIZE(value);
    case KIND_BYTES:
    case KIND_BYTEARRAY:
    case KIND_LIST:
    case KIND_TUPLE:
        return Py_SIZE(value);
    default:
        return -1;
    }
}

static void collect_array(PyObject *array, Facts *ret)
{
    const Py_ssize_t *shape;

    ret->ndim = array_shape(array, &shape);
    for (int i = 0; i < ret->ndim; i++)
        ret->shape[i] = shape[i];
    ret->bytes = array_bytes(array);
    array_dtype(array, &ret->dtype);
}

static void collect_builtin(PyObject *value, Kind kind, Facts *ret)
{
    Py_ssize_t n = length(value, kind);

    if (n < 0)
        return;
    ret->ndim = 1;
    ret->shape[0] = n;
    if (kind == KIND_STR)
        ret->bytes = n * (Py_ssize_t)PyUnicode_KIND(value);
    else if (kind == KIND_BYTES || kind == KIND_BYTEARRAY)
        ret->bytes = n;
}

static void collect(PyObject *value, Kind kind, Facts *ret)
{
    facts_init(ret);
    switch (kind) {
    case KIND_ARRAY:
        collect_array(value, ret);
        break;
    case KIND_PANDAS_FRAME:
        pandas_facts(value, 2, ret);
        break;
    case KIND_PANDAS_SERIES:
        pandas_facts(value, 1, ret);
        break;
    case KIND_POLARS_FRAME:
        polars_facts(value, 2, ret);
        break;
    case KIND_POLARS_SERIES:
        polars_facts(value, 1, ret);
        break;
    default:
        collect_builtin(value, kind, ret);
    }
}

/* The text of a value, and what it points to. */
typedef struct Repr {
    Text text;
    char digits[32];
    PyObject *str;
    Utf8 utf8;
} Repr;

static void repr_deinit(Repr *repr)
{
    utf8_deinit(&repr->utf8);
    Py_CLEAR(repr->str);
}

/* Python's own digits would run the handlers of pending signals on the way, so that integers of more than 64
 * bits go without. */
static void take_int_repr(Repr *repr, PyObject *value)
{
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);

    if (overflow != 0)
        return;
    snprintf(repr->digits, sizeof(repr->digits), "%lld", number);
    repr->text = text_of(repr->digits);
}

/* By the type's own slot, for the same reason. */
static void take_short_repr(Repr *repr, PyObject *value)
{
    repr->str = Py_TYPE(value)->tp_repr(value);
    if (repr->str && utf8_view(repr->str, &repr->utf8) == 0 && repr->utf8.size <= LIMIT_NOTE)
        repr->text = (Text){repr->utf8.data, repr->utf8.size};
    PyErr_Clear();
}

static void take_repr(Repr *repr, PyObject *value, Kind kind)
{
    bool short_text = (kind == KIND_STR || kind == KIND_BYTES) && length(value, kind) <= LIMIT_NOTE;

    if (kind == KIND_INT)
        take_int_repr(repr, value);
    else if (short_text || kind == KIND_NONE || kind == KIND_BOOL || kind == KIND_FLOAT ||
             kind == KIND_COMPLEX)
        take_short_repr(repr, value);
}

static void write_shape(Writer *w, const void *source)
{
    const Facts *facts = source;

    write_array(w, (size_t)facts->ndim);
    for (int i = 0; i < facts->ndim; i++)
        write_uint(w, (uint64_t)facts->shape[i]);
}

void write_variable(Writer *w, PyObject *name, PyObject *value)
{
    Kind kind = kind_of(Py_TYPE(value));
    Repr repr _cleanup_(repr_deinit) = {.str = NULL};
    Label type, label;
    Facts facts;

    label_init(&label);
    label_add_str(&label, name);
    type_name(Py_TYPE(value), &type);
    collect(value, kind, &facts);
    take_repr(&repr, value, kind);
    body_write(w, MsgVariable,
               (&(MsgVariable){
                   .name = {label.data, label.size},
                   .type = {type.data, type.size},
                   .shape = {.write = facts.ndim < 0 ? NULL : write_shape, .source = &facts},
                   .dtype = label_text(&facts.dtype),
                   .bytes = facts.bytes < 0 ? NO_UINT : (uint64_t)facts.bytes,
                   .repr = repr.text,
               }));
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    return (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t shape_glance(const Py_ssize_t *shape, int ndim)
{
    uint64_t glance = (uint64_t)ndim;

    for (int i = 0; i < ndim; i++)
        glance = mix(glance, (uint64_t)shape[i]);
    return glance;
}

uint64_t variable_glance(PyObject *value, Kind kind)
{
    const Py_ssize_t *shape;
    Py_ssize_t frame[2];
    int ndim;

    if (value == runtime.main_dict)
        return 0;
    if (kind == KIND_ARRAY) {
        ndim = array_shape(value, &shape);
        return shape_glance(shape, ndim);
    }
    if (kind == KIND_PANDAS_FRAME || kind == KIND_PANDAS_SERIES) {
        ndim = kind == KIND_PANDAS_FRAME ? 2 : 1;
        return pandas_shape(value, ndim, frame) ? shape_glance(frame, ndim) : 0;
    }
    return (uint64_t)length(value, kind);
}

uint64_t number_glance(PyObject *value, Kind kind)
{
    double number;
    uint64_t bits;

    if (kind == KIND_INT)
        return PyLong_AsUnsignedLongLongMask(value);
    if (kind != KIND_FLOAT)
        return 0;
    number = PyFloat_AS_DOUBLE(value);
    memcpy(&bits, &number, sizeof(bits));
    return bits;
}
