#include "guest/interpreter/pyobject.h"

#include "proto/wire.h"

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
