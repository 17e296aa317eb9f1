/* Shape: makes instances of a dataclass of what came for one. limpet/_connection/_pure.py is the same in
 * Python and has the contract. */
#include "clients/python/native/native.h"

/* A field of a shape; references are owned. */
typedef struct Part {
    PyObject *name;
    PyObject *absent;  /* its value then; NULL: it has to be there */
    PyObject *convert; /* NULL: it is taken as it is */
} Part;

typedef struct Shape {
    PyObject_HEAD PyTypeObject *made;
    PyObject *attributes; /* the text "__dict__" */
    Part *parts;
    Py_ssize_t n;
} Shape;

static PyObject *new_reference(PyObject *object)
{
    Py_XINCREF(object);
    return object;
}

/* The parts in the order of the names. 0, or -1 with an exception and some of them filled. */
static int take_parts(Shape *shape, KeyCache *keys, PyObject *names, PyObject *absent, PyObject *converts)
{
    shape->n = PyTuple_Size(names);
    shape->parts = PyMem_Calloc((size_t)shape->n + 1, sizeof(*shape->parts));
    if (!shape->parts) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < shape->n; i++) {
        PyObject *name = PyTuple_GetItem(names, i);

        keep_key(keys, name);
        shape->parts[i] = (Part){
            .name = new_reference(name),
            .absent = new_reference(PyDict_GetItemWithError(absent, name)),
            .convert = new_reference(PyDict_GetItemWithError(converts, name)),
        };
    }
    return PyErr_Occurred() ? -1 : 0;
}

static PyObject *shape_new(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *module = PyType_GetModule(type);
    PyObject *made, *names, *absent, *converts;
    Shape *shape;

    if (!module || !PyArg_ParseTuple(arguments, "O!O!O!O!", &PyType_Type, &made, &PyTuple_Type, &names,
                                     &PyDict_Type, &absent, &PyDict_Type, &converts))
        return NULL;
    shape = (Shape *)PyType_GenericAlloc(type, 0);
    if (!shape)
        return NULL;
    shape->made = (PyTypeObject *)new_reference(made);
    shape->attributes = PyUnicode_InternFromString("__dict__");
    if (!shape->attributes || take_parts(shape, &native_of(module)->keys, names, absent, converts) < 0) {
        Py_DECREF(shape);
        return NULL;
    }
    return (PyObject *)shape;
}

static void shape_free(PyObject *self)
{
    Shape *shape = (Shape *)self;
    PyTypeObject *type = Py_TYPE(self);

    for (Py_ssize_t i = 0; shape->parts && i < shape->n; i++) {
        Py_XDECREF(shape->parts[i].name);
        Py_XDECREF(shape->parts[i].absent);
        Py_XDECREF(shape->parts[i].convert);
    }
    PyMem_Free(shape->parts);
    Py_XDECREF(shape->attributes);
    Py_XDECREF(shape->made);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *convert(PyObject *how, PyObject *value);

static PyObject *convert_list(PyObject *each, PyObject *list)
{
    _cleanup_(py_decrefp) PyObject *made = NULL;

    if (!PyList_Check(list))
        return PyErr_Format(PyExc_TypeError, "%R where a list belongs", list);
    made = PyList_New(0);
    for (Py_ssize_t i = 0; made && i < PyList_Size(list); i++) {
        _cleanup_(py_decrefp) PyObject *item = convert(each, PyList_GetItem(list, i));

        if (!item || PyList_Append(made, item) < 0)
            return NULL;
    }
    return take(made);
}

static int convert_item(PyObject *made, PyObject *hows, PyObject *key, PyObject *value)
{
    _cleanup_(py_decrefp) PyObject *name = convert(PyTuple_GetItem(hows, 0), key);
    _cleanup_(py_decrefp) PyObject *converted = name ? convert(PyTuple_GetItem(hows, 1), value) : NULL;

    return converted ? PyObject_SetItem(made, name, converted) : -1;
}

static PyObject *convert_dict(PyObject *hows, PyObject *dict)
{
    _cleanup_(py_decrefp) PyObject *made = NULL;
    _cleanup_(py_decrefp) PyObject *items = NULL;

    if (!PyDict_Check(dict))
        return PyErr_Format(PyExc_TypeError, "%R where a map belongs", dict);
    made = PyDict_New();
    items = PyDict_Items(dict);
    for (Py_ssize_t i = 0; made && items && i < PyList_Size(items); i++) {
        PyObject *item = PyList_GetItem(items, i);

        if (convert_item(made, hows, PyTuple_GetItem(item, 0), PyTuple_GetItem(item, 1)) < 0)
            return NULL;
    }
    return items ? take(made) : NULL;
}

/* `how` is a function, or [how] of each item of a list, or (how, how) of the keys and the values of a map. It
 * may be code of Python's, which must not take the value away meanwhile. */
static PyObject *convert(PyObject *how, PyObject *value)
{
    _cleanup_(py_decrefp) PyObject *kept = new_reference(value);

    if (PyList_Check(how))
        return convert_list(PyList_GetItem(how, 0), kept);
    if (PyTuple_Check(how))
        return convert_dict(how, kept);
    return PyObject_CallFunctionObjArgs(how, kept, NULL);
}

static int convert_field(const Part *part, PyObject *fields, PyObject *value)
{
    _cleanup_(py_decrefp) PyObject *converted = convert(part->convert, value);

    return converted ? PyDict_SetItem(fields, part->name, converted) : -1;
}

/* Makes one of the fields what its attribute is. */
static int settle(const Part *part, PyObject *fields)
{
    PyObject *value = PyDict_GetItemWithError(fields, part->name);

    if (PyErr_Occurred())
        return -1;
    if (part->absent && (!value || value == Py_None)) {
        if (value != part->absent && PyDict_SetItem(fields, part->name, part->absent) < 0)
            return -1;
        value = part->absent;
        if (value == Py_None)
            return 0;
    }
    if (!value) {
        PyErr_SetObject(PyExc_KeyError, part->name);
        return -1;
    }
    return part->convert ? convert_field(part, fields, value) : 0;
}

/* The fields alone, where others have come as well. */
static PyObject *known(const Shape *shape, PyObject *fields)
{
    _cleanup_(py_decrefp) PyObject *known = PyDict_New();

    for (Py_ssize_t i = 0; known && i < shape->n; i++) {
        PyObject *name = shape->parts[i].name;

        if (PyDict_SetItem(known, name, PyDict_GetItemWithError(fields, name)) < 0)
            return NULL;
    }
    return take(known);
}

/* A dict of what the attributes are to be. */
static PyObject *attributes(const Shape *shape, PyObject *came)
{
    _cleanup_(py_decrefp) PyObject *fields = PyDict_Copy(came);

    for (Py_ssize_t i = 0; fields && i < shape->n; i++)
        if (settle(&shape->parts[i], fields) < 0)
            return NULL;
    return fields && PyDict_Size(fields) > shape->n ? known(shape, fields) : take(fields);
}

/* Past the class's own __setattr__: that of a frozen dataclass refuses. */
static PyObject *shape_call(PyObject *self, PyObject *arguments, PyObject *named)
{
    Shape *shape = (Shape *)self;
    _cleanup_(py_decrefp) PyObject *made = NULL;
    _cleanup_(py_decrefp) PyObject *fields = NULL;
    PyObject *came;

    if (!PyArg_ParseTuple(arguments, "O", &came))
        return NULL;
    if (!PyDict_Check(came))
        return PyErr_Format(PyExc_TypeError, "%R where a map belongs", came);
    fields = attributes(shape, came);
    made = fields ? PyType_GenericAlloc(shape->made, 0) : NULL;
    if (!made || PyObject_GenericSetAttr(made, shape->attributes, fields) < 0)
        return NULL;
    return take(made);
}

static PyType_Slot shape_slots[] = {
    {Py_tp_new, (void *)shape_new},
    {Py_tp_dealloc, (void *)shape_free},
    {Py_tp_call, (void *)shape_call},
    {0, NULL},
};

PyType_Spec shape_spec = {
    .name = "limpet._native.Shape",
    .basicsize = sizeof(Shape),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = shape_slots,
};
