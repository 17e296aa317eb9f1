#include "guest/interpreter/namespace/bindings.h"
#include "guest/interpreter/namespace/variable.h"
#include "guest/interpreter/namespace/watch.h"
#include "guest/interpreter/runtime.h"

/* A name bound to an object that may change in place. As long as Python tells of no other binding, the object
 * is there. */
typedef struct BoundName {
    PyObject *name;
    PyObject *value; /* borrowed */
    uint64_t glance;
    Kind kind;
} BoundName;

static struct {
    BoundName *entries;
    size_t count, room;
    PyObject *places; /* name: index of its entry */
} table;

static void clear(void)
{
    PyDict_Clear(table.places);
    for (size_t i = 0; i < table.count; i++)
        Py_DECREF(table.entries[i].name);
    table.count = 0;
}

static int set_place(PyObject *name, size_t i)
{
    _pyref_ PyObject *index = PyLong_FromSize_t(i);

    return index ? PyDict_SetItem(table.places, name, index) : -1;
}

static bool reserve(void)
{
    size_t room = table.room ? table.room * 2 : 64;

    if (table.count < table.room)
        return true;
    BoundName *entries = realloc(table.entries, room * sizeof(*entries));
    if (!entries)
        return false;
    table.entries = entries;
    table.room = room;
    return true;
}

static BoundName *add(PyObject *name)
{
    if (!reserve() || set_place(name, table.count) < 0)
        return NULL;
    table.entries[table.count].name = Py_NewRef(name);
    return &table.entries[table.count++];
}

/* The last one takes its place. */
static void drop(BoundName *entry)
{
    BoundName *last = &table.entries[--table.count];
    _pyref_ PyObject *name = entry->name;

    *entry = *last;
    if (PyDict_DelItem(table.places, name) < 0 ||
        (entry != last && set_place(entry->name, (size_t)(entry - table.entries)) < 0))
        clear();
}

static BoundName *find(PyObject *name)
{
    PyObject *place = PyDict_GetItemWithError(table.places, name);

    return place ? &table.entries[PyLong_AsSize_t(place)] : NULL;
}

/* `value` is what the name is bound to now, NULL for nothing. */
static void update(PyObject *name, PyObject *value)
{
    Kind kind = value ? kind_of(Py_TYPE(value)) : KIND_OTHER;
    BoundName *entry = find(name);

    if (kind < KIND_MUTABLE) {
        if (entry)
            drop(entry);
        return;
    }
    if (!entry)
        entry = add(name);
    if (entry)
        *entry = (BoundName){entry->name, value, variable_glance(value, kind), kind};
}

/* The plain names of the namespace. */
static PyObject *plain_names(void)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;

    if (!watched.odd_keys)
        return Py_NewRef(runtime.main_dict);

    _pyref_ PyObject *copy = PyDict_New();

    while (copy && PyDict_Next(runtime.main_dict, &at, &name, &value)) {
        if (PyUnicode_CheckExact(name) && PyDict_SetItem(copy, name, value) < 0)
            return NULL;
    }
    return take(copy);
}

static void rebuild(void)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;

    clear();
    while (PyDict_Next(runtime.main_dict, &at, &name, &value)) {
        if (variable_is_listed(name))
            update(name, value);
    }
}

static void collect_bound(BindingFn report, void *context)
{
    _pyref_ PyObject *dict = watched.names ? plain_names() : NULL;
    PyObject *name, *was_bound;
    Py_ssize_t at = 0;

    while (dict && PyDict_Next(watched.names, &at, &name, &was_bound)) {
        PyObject *value = PyDict_GetItemWithError(dict, name);
        bool before = was_bound == Py_True;
        if (!variable_is_listed(name))
            continue;
        if (value || before)
            report(context, name, before, value);
        update(name, value);
    }
    if (watched.incomplete || (watched.names && !dict))
        rebuild();
}

static void collect_changed(BindingFn report, void *context)
{
    for (size_t i = 0; i < table.count; i++) {
        BoundName *entry = &table.entries[i];
        uint64_t glance = variable_glance(entry->value, entry->kind);
        if (glance != entry->glance)
            report(context, entry->name, true, entry->value);
        entry->glance = glance;
    }
}

void bindings_collect(BindingFn report, void *context)
{
    watch_complete();
    collect_bound(report, context);
    watch_forget();
    collect_changed(report, context);
    PyErr_Clear();
}

int bindings_init(void)
{
    table.places = PyDict_New();
    if (!table.places)
        return -1;
    PyObject_GC_UnTrack(table.places); /* gc.get_objects() does not hand it to cells */
    return watch_init();
}
