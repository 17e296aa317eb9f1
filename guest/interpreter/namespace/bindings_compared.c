#include "guest/interpreter/namespace/bindings.h"
#include "guest/interpreter/namespace/variable.h"
#include "guest/interpreter/runtime.h"

/* A name as it was when last looked at. `value` and `type` are addresses to compare with: what was there may
 * be gone. */
typedef struct Seen {
    PyObject *name;
    PyObject *value;
    const void *type;
    uint64_t glance;
    Kind kind;
} Seen;

/* In the order of the namespace. */
static struct {
    Seen *entries;
    size_t count, room;
    uint64_t version; /* of the namespace, which changes with each binding */
} seen;

/* A walk through the namespace. Entries before `kept` are of this walk, those from `at` on of the last. */
typedef struct Walk {
    BindingFn report;
    void *context;
    size_t kept, at;
    PyObject *gone; /* dict of the names that were not in their place, or NULL */
} Walk;

static uint64_t namespace_version(void)
{
    return ((PyDictObject *)runtime.main_dict)->ma_version_tag;
}

static void report(const Walk *walk, PyObject *name, bool before, PyObject *value)
{
    if (variable_is_listed(name))
        walk->report(walk->context, name, before, value);
}

/* A loop that binds a number again and again leaves it at one of two addresses, so that numbers are looked
 * at themselves. */
static uint64_t glance(PyObject *value, Kind kind)
{
    bool is_number = kind == KIND_INT || kind == KIND_FLOAT;

    return is_number ? number_glance(value, kind) : variable_glance(value, kind);
}

static void remember(Seen *entry, PyObject *value)
{
    entry->value = value;
    entry->type = Py_TYPE(value);
    entry->kind = kind_of(Py_TYPE(value));
    entry->glance = glance(value, entry->kind);
}

static bool looks_the_same(const Seen *entry, PyObject *value)
{
    return entry->value == value && entry->type == Py_TYPE(value) &&
           (entry->kind < KIND_INT || entry->glance == glance(value, entry->kind));
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
        report(walk, entry->name, true, value);
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
    report(walk, name, before, value);
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
        bool in_place = walk->at < seen.count && seen.entries[walk->at].name == name;
        if (!in_place && !PyUnicode_CheckExact(name))
            continue;
        while (walk->at < seen.count && seen.entries[walk->at].name != name)
            drop(walk);
        if (walk->at < seen.count)
            keep(walk, value);
        else
            add(walk, name, value);
    }
    while (walk->at < seen.count)
        drop(walk);
    seen.count = walk->kept;
}

static void report_gone(const Walk *walk)
{
    PyObject *name, *none;
    Py_ssize_t at = 0;

    while (walk->gone && PyDict_Next(walk->gone, &at, &name, &none))
        report(walk, name, true, NULL);
}

/* Nothing was bound, so that the values are still there. */
static void walk_values(const Walk *walk)
{
    for (size_t i = 0; i < seen.count; i++) {
        Seen *entry = &seen.entries[i];
        if (entry->kind >= KIND_MUTABLE && !looks_the_same(entry, entry->value)) {
            report(walk, entry->name, true, entry->value);
            remember(entry, entry->value);
        }
    }
}

void bindings_collect(BindingFn fn, void *context)
{
    Walk walk = {.report = fn, .context = context};
    /* Looking at frames makes objects, which may start a collection, and a finalizer of the cells' with it.
     */
    int collector = PyGC_Disable();

    if (seen.version == namespace_version()) {
        walk_values(&walk);
    } else {
        walk_namespace(&walk);
        report_gone(&walk);
        Py_CLEAR(walk.gone);
    }
    seen.version = namespace_version();
    if (collector)
        PyGC_Enable();
}

static void ignore(void *context, PyObject *name, bool before, PyObject *value)
{
}

int bindings_init(void)
{
    bindings_collect(ignore, NULL);
    return 0;
}
