#include "guest/interpreter/namespace_names.h"

#include <string.h>

#include "guest/interpreter/runtime.h"
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

enum { ADDED, CHANGED, DELETED, KINDS };

/* A walk through the namespace. Entries before `kept` are of this walk, those from `at` on of the last. */
typedef struct Walk {
    PyObject *noted[KINDS]; /* lists of (name, value), and of names that are gone, or NULL */
    size_t count, more;
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

static void note(Walk *walk, int kind, PyObject *name, PyObject *value)
{
    if (!is_listed(name))
        return;
    if (walk->count == LIMIT_CHANGED) {
        walk->more++;
        return;
    }
    walk->count++;
    _pyref_ PyObject *item = value ? PyTuple_Pack(2, name, value) : Py_NewRef(name);
    append(&walk->noted[kind], item);
}

/* Types that Python may know a shape of. */
static bool has_shape(const PyTypeObject *type)
{
    const char *dot = strrchr(type->tp_name, '.'), *name = dot ? dot + 1 : type->tp_name;

    return strcmp(name, "ndarray") == 0 || strcmp(name, "DataFrame") == 0 || strcmp(name, "Series") == 0;
}

/* A number in which a change in place shows. A loop that binds a number again and again leaves it at one of
 * two addresses, so that numbers are looked at themselves. The namespace itself, as a value, never shows any.
 */
static uint64_t fingerprint(PyObject *value)
{
    const PyTypeObject *type = Py_TYPE(value);
    uint64_t bits = 0;

    if (type == &PyLong_Type)
        return PyLong_AsUnsignedLongLongMask(value);
    if (type == &PyList_Type || type == &PyTuple_Type || type == &PyBytes_Type || type == &PyByteArray_Type)
        return (uint64_t)Py_SIZE(value);
    if (type == &PyUnicode_Type)
        return (uint64_t)PyUnicode_GET_LENGTH(value);
    if (type == &PyDict_Type && value != runtime.main_dict)
        return (uint64_t)PyDict_GET_SIZE(value);
    if (type == &PySet_Type || type == &PyFrozenSet_Type)
        return (uint64_t)PySet_GET_SIZE(value);
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
        note(walk, CHANGED, entry->name, value);
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
    note(walk, before ? CHANGED : ADDED, name, value);
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

static void note_gone(Walk *walk)
{
    PyObject *name, *none;
    Py_ssize_t at = 0;

    while (walk->gone && PyDict_Next(walk->gone, &at, &name, &none))
        note(walk, DELETED, name, NULL);
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
            note(walk, CHANGED, entry->name, value);
        entry->fingerprint = now;
        entry->is_new = false;
    }
}

static void describe(Walk *walk, NameChanges *ret)
{
    PyObject *arguments[KINDS];

    for (int i = 0; i < KINDS; i++)
        arguments[i] = walk->noted[i] ? walk->noted[i] : Py_None;

    _pyref_ PyObject *described = runtime_call(runtime.describe_changes, KINDS, arguments);

    if (described && PyArg_ParseTuple(described, "O!O!O!", &PyList_Type, &ret->added, &PyList_Type,
                                      &ret->changed, &PyList_Type, &ret->deleted)) {
        Py_INCREF(ret->added);
        Py_INCREF(ret->changed);
        Py_INCREF(ret->deleted);
        ret->count = walk->count;
        ret->more = walk->more;
    }
}

/* Describes to `ret`, unless that is NULL. */
static void look(NameChanges *ret)
{
    Walk walk = {0};
    /* Objects are made, which may start a collection, and a finalizer of the cells' with it. */
    int collector = PyGC_Disable();

    walk_namespace(&walk);
    note_gone(&walk);
    compare_shapes(&walk);
    if (ret && walk.count > 0)
        describe(&walk, ret);
    PyErr_Clear();
    if (collector)
        PyGC_Enable();
    Py_XDECREF(walk.gone);
    Py_XDECREF(walk.shaped);
    for (int i = 0; i < KINDS; i++)
        Py_XDECREF(walk.noted[i]);
}

void names_collect(NameChanges *ret)
{
    *ret = (NameChanges){0};
    look(ret);
}

void names_forget(void)
{
    look(NULL);
}

void name_changes_deinit(NameChanges *changes)
{
    Py_CLEAR(changes->added);
    Py_CLEAR(changes->changed);
    Py_CLEAR(changes->deleted);
}
