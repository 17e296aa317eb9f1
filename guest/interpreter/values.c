#include "guest/interpreter/values.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/wire.h"

/* The bytes of a str. -1 with a MemoryError. */
static int utf8_view(PyObject *str, Utf8 *ret)
{
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(str, &size);

    if (data) {
        *ret = (Utf8){.data = data, .size = (size_t)size};
        return 0;
    }
    PyErr_Clear();

    PyObject *bytes = PyUnicode_AsEncodedString(str, "utf-8", "backslashreplace");

    if (!bytes)
        return -1;
    *ret = (Utf8){.data = PyBytes_AS_STRING(bytes), .size = (size_t)PyBytes_GET_SIZE(bytes), .owner = bytes};
    return 0;
}

static bool is_continuation(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* The end of the last whole character within n bytes, and the begin of the first one at or after n. */
static size_t character_end(const Utf8 *text, size_t n)
{
    while (n > 0 && n < text->size && is_continuation(text->data[n]))
        n--;
    return n;
}

static size_t character_begin(const Utf8 *text, size_t n)
{
    while (n < text->size && is_continuation(text->data[n]))
        n++;
    return n;
}

static int make_cut(Buf *ret, const Utf8 *text, size_t limit, TextCut cut)
{
    char mark[80];
    int n = snprintf(mark, sizeof(mark), "\n... [%zu bytes in all, cut to %zu] ...\n", text->size, limit);
    size_t room = limit - (size_t)n;
    size_t head = character_end(text, cut == CUT_END ? room : room / 2);
    size_t tail = character_begin(text, cut == CUT_END ? text->size : text->size - (room - head));
    int r = buf_append(ret, text->data, head);

    if (r == 0)
        r = buf_append(ret, mark, (size_t)n);
    return r < 0 ? r : buf_append(ret, text->data + tail, text->size - tail);
}

void str_text(StrText *ret, PyObject *str, size_t limit, TextCut cut)
{
    bool whole;

    *ret = (StrText){0};
    if (!str || !PyUnicode_Check(str))
        return;
    whole = utf8_view(str, &ret->utf8) == 0;
    if (!whole)
        PyErr_Clear();
    if (whole && ret->utf8.size <= limit)
        ret->text = (Text){ret->utf8.data, ret->utf8.size};
    else if (whole && make_cut(&ret->cut, &ret->utf8, limit, cut) == 0)
        ret->text = (Text){(const char *)buf_head(&ret->cut), ret->cut.size};
    else
        ret->text = text_of("[text left out: out of memory]");
}

void str_text_deinit(StrText *text)
{
    utf8_deinit(&text->utf8);
    buf_deinit(&text->cut);
}

static PyObject *make(const msgpack_object *object);

static PyObject *make_list(const msgpack_object_array *array)
{
    _pyref_ PyObject *list = PyList_New((Py_ssize_t)array->size);

    for (uint32_t i = 0; list && i < array->size; i++) {
        PyObject *item = make(&array->ptr[i]);
        if (!item)
            return NULL;
        PyList_SET_ITEM(list, (Py_ssize_t)i, item);
    }
    return take(list);
}

/* Keys are text or bytes, of which no two are the same. */
static PyObject *make_dict(const msgpack_object_map *map)
{
    _pyref_ PyObject *dict = PyDict_New();

    for (uint32_t i = 0; dict && i < map->size; i++) {
        _pyref_ PyObject *key = make(&map->ptr[i].key);
        _pyref_ PyObject *value = key ? make(&map->ptr[i].val) : NULL;
        if (!value || PyDict_SetItem(dict, key, value) < 0)
            return NULL;
    }
    return take(dict);
}

/* As deep as the bytes were found to be. */
static PyObject *make(const msgpack_object *object)
{
    switch (object->type) {
    case MSGPACK_OBJECT_BOOLEAN:
        return PyBool_FromLong(object->via.boolean);
    case MSGPACK_OBJECT_POSITIVE_INTEGER:
        return PyLong_FromUnsignedLongLong(object->via.u64);
    case MSGPACK_OBJECT_NEGATIVE_INTEGER:
        return PyLong_FromLongLong(object->via.i64);
    case MSGPACK_OBJECT_FLOAT32:
    case MSGPACK_OBJECT_FLOAT64:
        return PyFloat_FromDouble(object->via.f64);
    case MSGPACK_OBJECT_STR:
        return PyUnicode_DecodeUTF8(object->via.str.ptr, (Py_ssize_t)object->via.str.size, NULL);
    case MSGPACK_OBJECT_BIN:
        return PyBytes_FromStringAndSize(object->via.bin.ptr, (Py_ssize_t)object->via.bin.size);
    case MSGPACK_OBJECT_ARRAY:
        return make_list(&object->via.array);
    case MSGPACK_OBJECT_MAP:
        return make_dict(&object->via.map);
    default:
        return Py_NewRef(Py_None);
    }
}

PyObject *object_decode(const void *bytes, size_t size, const char **ret_why)
{
    msgpack_unpacked unpacked;
    PyObject *made = NULL;

    *ret_why = "the answer is no plain data, or has too many values";
    if (wire_check(bytes, size) < 0)
        return NULL;
    *ret_why = "there was no memory for the answer";
    msgpack_unpacked_init(&unpacked);
    if (msgpack_unpack_next(&unpacked, bytes, size, NULL) == MSGPACK_UNPACK_SUCCESS)
        made = make(&unpacked.data);
    msgpack_unpacked_destroy(&unpacked);
    return made;
}

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

void write_made(Writer *w, const void *object)
{
    ValueBudget budget = {.nodes = LIMIT_NODES, .keys = LIMIT_KEYS, .depth = LIMIT_DEPTH};

    if (write_value(w, (PyObject *)object, &budget))
        writer_fail(w, -EINVAL);
}
