/* Sound msgpack to Python's plain data. Its depth is bounded: wire_check() has let it through. */
#include <string.h>

#include "clients/python/native/native.h"

static PyObject *decode(KeyCache *keys, const msgpack_object *object);

static unsigned slot_of(const char *text, size_t size)
{
    unsigned hash = (unsigned)size;

    for (size_t i = 0; i < size; i++)
        hash = hash * 31 + (uint8_t)text[i];
    return hash & (KEYS_KEPT - 1);
}

static bool is_text(PyObject *kept, const char *text, size_t size)
{
    Py_ssize_t n;
    const char *bytes = kept ? PyUnicode_AsUTF8AndSize(kept, &n) : NULL;

    return bytes && (size_t)n == size && memcmp(bytes, text, size) == 0;
}

void keep_key(KeyCache *keys, PyObject *text)
{
    Py_ssize_t size;
    const char *bytes = PyUnicode_AsUTF8AndSize(text, &size);
    PyObject **slot;

    if (!bytes) {
        PyErr_Clear();
        return;
    }
    slot = &keys->kept[slot_of(bytes, (size_t)size)];
    Py_INCREF(text);
    Py_XDECREF(*slot);
    *slot = text;
}

static PyObject *decode_key(KeyCache *keys, const msgpack_object *object)
{
    const char *text = object->via.str.ptr;
    size_t size = object->via.str.size;
    PyObject **slot, *made;

    if (object->type != MSGPACK_OBJECT_STR || size > KEY_MOST)
        return decode(keys, object);
    slot = &keys->kept[slot_of(text, size)];
    if (!is_text(*slot, text, size)) {
        made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, NULL);
        if (!made)
            return NULL;
        Py_XDECREF(*slot);
        *slot = made;
    }
    Py_INCREF(*slot);
    return *slot;
}

PyObject *decode_map(KeyCache *keys, const msgpack_object_map *map)
{
    _cleanup_(py_decrefp) PyObject *dict = PyDict_New();

    for (uint32_t i = 0; dict && i < map->size; i++) {
        _cleanup_(py_decrefp) PyObject *key = decode_key(keys, &map->ptr[i].key);
        _cleanup_(py_decrefp) PyObject *value = key ? decode(keys, &map->ptr[i].val) : NULL;

        if (!value || PyDict_SetItem(dict, key, value) < 0)
            return NULL;
    }
    return take(dict);
}

static PyObject *decode_array(KeyCache *keys, const msgpack_object_array *array)
{
    _cleanup_(py_decrefp) PyObject *list = PyList_New((Py_ssize_t)array->size);

    for (uint32_t i = 0; list && i < array->size; i++) {
        PyObject *item = decode(keys, &array->ptr[i]);

        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) /* steals it */
            return NULL;
    }
    return take(list);
}

static PyObject *decode(KeyCache *keys, const msgpack_object *object)
{
    switch (object->type) {
    case MSGPACK_OBJECT_NIL:
        Py_RETURN_NONE;
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
        return decode_array(keys, &object->via.array);
    case MSGPACK_OBJECT_MAP:
        return decode_map(keys, &object->via.map);
    default:
        PyErr_SetString(PyExc_ValueError, "an ext type");
        return NULL;
    }
}
