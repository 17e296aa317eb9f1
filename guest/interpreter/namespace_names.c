#include "guest/interpreter/namespace_names.h"

#include <string.h>

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/values.h"
#include "proto/limits.h"

/* A name as it was when last looked at. `value` and `type` are addresses to compare with: objects that were
 * there may be gone. */
typedef struct Seen {
    PyObject *name;
    PyObject *value;
    const void *type;
    uint64_t fingerprint;
    bool has_shape; /* `fingerprint` is Python's */
    bool is_new;    /* `fingerprint` is to come */
} Seen;

/* In the order of the namespace. */
static struct {
    Seen *entries;
    size_t count, room;
} seen;

/* A walk through the namespace. Entries before `kept` are of this walk, those from `at` on of the last. */
typedef struct Walk {
    NameChanges *changes; /* or NULL */
    size_t kept, at;
    PyObject *gone;   /* dict of the names that were not in their place, or NULL */
    PyObject *shaped; /* values of the entries that have a shape, or NULL */
} Walk;

static bool is_listed(PyObject *name)
{
    return PyUnicode_GET_LENGTH(name) == 0 || PyUnicode_READ_CHAR(name, 0) != '_';
}

static void append(PyObject **list, PyObject *item)
{
    if (!*list)
        *list = PyList_New(0);
    if (!*list || !item || PyList_Append(*list, item) < 0)
        PyErr_Clear();
}

static void note(const Walk *walk, NamesKind kind, PyObject *name, PyObject *value)
{
    NameChanges *changes = walk->changes;

    if (!changes || !is_listed(name))
        return;
    if (changes->count == LIMIT_CHANGED) {
        changes->more++;
        return;
    }
    changes->count++;
    _pyref_ PyObject *item = value ? PyTuple_Pack(2, name, value) : Py_NewRef(name);
    append(&changes->names[kind], item);
}

/* The head of PyArrayObject, part of NumPy's ABI from 1.0 to 2.x: PyArray_DIMS() is compiled into every
 * extension module as an access to it. */
typedef struct ArrayHead {
    PyObject_HEAD char *data;
    int nd;
    Py_ssize_t *dimensions;
} ArrayHead;

/* No class statement makes a type like it. */
static bool is_array(const PyTypeObject *type)
{
    return !(type->tp_flags & Py_TPFLAGS_HEAPTYPE) && strcmp(type->tp_name, "numpy.ndarray") == 0 &&
           type->tp_basicsize >= (Py_ssize_t)sizeof(ArrayHead);
}

static uint64_t mix(uint64_t a, uint64_t b)
{
    return (a ^ b) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t array_fingerprint(const ArrayHead *array)
{
    uint64_t bits = (uint64_t)array->nd;

    for (int i = 0; i < array->nd; i++)
        bits = mix(bits, (uint64_t)array->dimensions[i]);
    return bits;
}

/* Texts of the same size mostly differ in how they begin or end. */
static uint64_t text_fingerprint(const char *text, size_t size)
{
    uint64_t first = 0, last = 0;
    size_t n = MIN(size, sizeof(first));

    memcpy(&first, text, n);
    memcpy(&last, text + size - n, n);
    return mix(mix(size, first), last);
}

/* Types that Python may know a shape of: their names are those of frames. */
static bool has_shape(const PyTypeObject *type)
{
    return strcmp(type->tp_name, "DataFrame") == 0 || strcmp(type->tp_name, "Series") == 0;
}

/* Returns a number in which a change in place shows. A loop that binds a number or a text again and again
 * leaves it at one of two addresses, so that these are looked at themselves. The namespace itself, as a
 * value, never shows any. */
static uint64_t fingerprint(PyObject *value)
{
    const PyTypeObject *type = Py_TYPE(value);
    uint64_t bits = 0;

    if (type == &PyLong_Type)
        return PyLong_AsUnsignedLongLongMask(value);
    if (type == &PyList_Type || type == &PyTuple_Type || type == &PyByteArray_Type)
        return (uint64_t)Py_SIZE(value);
    if (type == &PyUnicode_Type)
        return text_fingerprint(PyUnicode_DATA(value),
                                (size_t)(PyUnicode_GET_LENGTH(value) * PyUnicode_KIND(value)));
    if (type == &PyBytes_Type)
        return text_fingerprint(PyBytes_AS_STRING(value), (size_t)PyBytes_GET_SIZE(value));
    if (type == &PyDict_Type && value != runtime.main_dict)
        return (uint64_t)PyDict_GET_SIZE(value);
    if (type == &PySet_Type || type == &PyFrozenSet_Type)
        return (uint64_t)PySet_GET_SIZE(value);
    if (is_array(type))
        return array_fingerprint((const ArrayHead *)value);
    if (type == &PyFloat_Type)
        memcpy(&bits, &(double){PyFloat_AS_DOUBLE(value)}, sizeof(bits));
    return bits;
}

static bool looks_the_same(const Seen *entry, PyObject *value)
{
    return entry->value == value && entry->type == Py_TYPE(value) &&
           (entry->has_shape || entry->fingerprint == fingerprint(value));
}

static void remember(Seen *entry, PyObject *value)
{
    bool shaped = has_shape(Py_TYPE(value));

    *entry = (Seen){entry->name, value, Py_TYPE(value), shaped ? 0 : fingerprint(value), shaped, shaped};
}

static bool reserve(void)
{
    size_t room = seen.room ? seen.room * 2 : 64;

    if (seen.count < seen.room)
        return true;
    Seen *entries = realloc(seen.entries, room * sizeof(*entries));
    if (!entries)
        return false;
    seen.entries = entries;
    seen.room = room;
    return true;
}

static void drop(Walk *walk)
{
    PyObject *name = seen.entries[walk->at++].name;

    if (!walk->gone)
        walk->gone = PyDict_New();
    if (!walk->gone || PyDict_SetItem(walk->gone, name, Py_None) < 0)
        PyErr_Clear();
    Py_DECREF(name);
}

static void keep(Walk *walk, PyObject *value)
{
    Seen *entry = &seen.entries[walk->at++];

    if (!looks_the_same(entry, value)) {
        note(walk, NAMES_CHANGED, entry->name, value);
        remember(entry, value);
    }
    if (entry != &seen.entries[walk->kept])
        seen.entries[walk->kept] = *entry;
    walk->kept++;
}

/* All entries of the last walk have been dealt with. One that there is no memory for is new the next time,
 * too. */
static void add(Walk *walk, PyObject *name, PyObject *value)
{
    bool before = walk->gone && PyDict_Contains(walk->gone, name) == 1;

    if (before)
        PyDict_DelItem(walk->gone, name);
    note(walk, before ? NAMES_CHANGED : NAMES_ADDED, name, value);
    seen.count = walk->kept;
    if (reserve()) {
        seen.entries[walk->kept] = (Seen){.name = Py_NewRef(name)};
        remember(&seen.entries[walk->kept++], value);
        seen.count = walk->kept;
    }
    walk->at = seen.count;
}

/* Dictionaries keep their order: a name that is not in its place is gone, or was bound again and comes with
 * the new ones, last. */
static void walk_namespace(Walk *walk)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(runtime.main_dict, &at, &name, &value)) {
        size_t kept = walk->kept;
        bool in_place = walk->at < seen.count && seen.entries[walk->at].name == name;
        if (!in_place && !PyUnicode_CheckExact(name))
            continue;
        while (walk->at < seen.count && seen.entries[walk->at].name != name)
            drop(walk);
        if (walk->at < seen.count)
            keep(walk, value);
        else
            add(walk, name, value);
        if (walk->kept > kept && seen.entries[kept].has_shape)
            append(&walk->shaped, value);
    }
    while (walk->at < seen.count)
        drop(walk);
    seen.count = walk->kept;
}

static void note_gone(const Walk *walk)
{
    PyObject *name, *none;
    Py_ssize_t at = 0;

    while (walk->gone && PyDict_Next(walk->gone, &at, &name, &none))
        note(walk, NAMES_DELETED, name, NULL);
}

/* Python is asked when the walk is over: another thread may change the namespace meanwhile. */
static void compare_shapes(Walk *walk)
{
    _pyref_ PyObject *shapes =
        walk->shaped ? runtime_call(runtime.fingerprints, 1, (PyObject *[]){walk->shaped}) : NULL;
    Py_ssize_t at = 0, count = shapes && PyList_CheckExact(shapes) ? PyList_GET_SIZE(shapes) : 0;

    for (size_t i = 0; i < seen.count && at < count; i++) {
        Seen *entry = &seen.entries[i];
        if (!entry->has_shape)
            continue;
        uint64_t now = PyLong_AsUnsignedLongLongMask(PyList_GET_ITEM(shapes, at));
        PyObject *value = PyList_GET_ITEM(walk->shaped, at++);
        if (!entry->is_new && entry->fingerprint != now)
            note(walk, NAMES_CHANGED, entry->name, value);
        entry->fingerprint = now;
        entry->is_new = false;
    }
}

/* Most names that change are bound to one of these, which need no Python to be described. */
static bool is_plain(PyObject *name, PyObject *value)
{
    int overflow = 0;

    if (!PyUnicode_IS_ASCII(name) || PyUnicode_GET_LENGTH(name) > (Py_ssize_t)LIMIT_NOTE)
        return false;
    if (PyLong_CheckExact(value))
        PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow &&
           (PyLong_CheckExact(value) || PyFloat_CheckExact(value) || PyBool_Check(value) || value == Py_None);
}

static bool needs_python(PyObject *item)
{
    return !PyTuple_Check(item) || !is_plain(PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1));
}

/* Puts a description in the place of each item that is not plain. */
static bool describe(PyObject *items)
{
    PyObject *others = NULL;

    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(items); i++) {
        if (needs_python(PyList_GET_ITEM(items, i)))
            append(&others, PyList_GET_ITEM(items, i));
    }
    if (!others)
        return true;
    _pyref_ PyObject *asked = others;
    _pyref_ PyObject *described = runtime_call(runtime.describe, 1, &others);
    if (!described || !PyList_CheckExact(described) || PyList_GET_SIZE(described) != PyList_GET_SIZE(others))
        return false;
    for (Py_ssize_t i = 0, at = 0; i < PyList_GET_SIZE(items) && at < PyList_GET_SIZE(described); i++) {
        if (PyList_GET_ITEM(items, i) == PyList_GET_ITEM(others, at))
            PyList_SetItem(items, i, Py_NewRef(PyList_GET_ITEM(described, at++)));
    }
    return true;
}

static Text text_in(PyObject *str)
{
    Py_ssize_t size = 0;
    const char *text = str ? PyUnicode_AsUTF8AndSize(str, &size) : NULL;

    return (Text){text, (size_t)size};
}

/* An item as is_plain(). */
static void write_plain(Writer *w, PyObject *name, PyObject *value)
{
    _pyref_ PyObject *repr = PyObject_Repr(value);

    PyErr_Clear();
    body_write(w, MsgVariable,
               (&(MsgVariable){.name = text_in(name),
                               .type = text_of(Py_TYPE(value)->tp_name),
                               .bytes = NO_UINT,
                               .repr = text_in(repr)}));
}

static void write_names(Writer *w, const void *source)
{
    PyObject *items = (PyObject *)source;
    Py_ssize_t count = items ? PyList_GET_SIZE(items) : 0;

    write_array(w, (size_t)count);
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GET_ITEM(items, i);
        if (PyTuple_Check(item))
            write_plain(w, PyTuple_GET_ITEM(item, 0), PyTuple_GET_ITEM(item, 1));
        else
            write_made(w, item);
    }
}

MsgChanged name_changes_encode(const NameChanges *changes)
{
    return (MsgChanged){
        .added = {.write = write_names, .source = changes->names[NAMES_ADDED]},
        .changed = {.write = write_names, .source = changes->names[NAMES_CHANGED]},
        .deleted = {.write = write_names, .source = changes->names[NAMES_DELETED]},
        .more = changes->more,
    };
}

static void look(NameChanges *ret)
{
    Walk walk = {.changes = ret};
    /* Objects are made, which may start a collection, and a finalizer of the cells' with it. */
    int collector = PyGC_Disable();

    if (PyErr_CheckSignals() < 0)
        PyErr_Clear();
    walk_namespace(&walk);
    note_gone(&walk);
    compare_shapes(&walk);
    PyErr_Clear();
    if (collector)
        PyGC_Enable();
    Py_XDECREF(walk.gone);
    Py_XDECREF(walk.shaped);
}

void names_collect(NameChanges *ret)
{
    *ret = (NameChanges){0};
    look(ret);
    for (int i = 0; i < NAMES_KINDS; i++) {
        if (ret->names[i] && !describe(ret->names[i]))
            ret->count = 0;
    }
}

void names_forget(void)
{
    look(NULL);
}

void name_changes_deinit(NameChanges *changes)
{
    for (int i = 0; i < NAMES_KINDS; i++)
        Py_CLEAR(changes->names[i]);
}
