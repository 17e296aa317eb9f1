#include "guest/interpreter/namespace/watch.h"

#include "guest/interpreter/namespace/unwatched.h"
#include "guest/interpreter/runtime.h"

WatchedNames watched;

/* A loop at top level binds the same few names millions of times, so that a name noted already must be found
 * without touching more than a line of memory: by the address of its str, of which two may share a place.
 * Each is held, so that its address stays its own; entries of earlier rounds are void. */
#define PLACES 64u

typedef struct Recent {
    PyObject *name;
    uint64_t round;
} Recent;

static Recent recent[PLACES][2];
static uint64_t this_round = 1;

/* Since watch_forget(). */
#define EVENTS_MANY 1000u
static unsigned events;
static int watcher;

/* Names there may be before those are looked for that can be dropped. */
#define NAMES_MIN 4096

static Py_ssize_t names_max = NAMES_MIN;

static Recent *place_of(PyObject *name)
{
    uintptr_t address = (uintptr_t)name;

    return recent[(address >> 4 ^ address >> 10) % PLACES];
}

static bool is_recent(PyObject *name)
{
    const Recent *place = place_of(name);

    return (place[0].name == name && place[0].round == this_round) ||
           (place[1].name == name && place[1].round == this_round);
}

static void make_recent(PyObject *name)
{
    Recent *place = place_of(name);
    PyObject *old = place[1].name;

    place[1] = place[0];
    place[0] = (Recent){Py_NewRef(name), this_round};
    Py_XDECREF(old);
}

/* Drops names that were new and are gone again. What is left is no more than there were before and are now.
 */
static void compact(void)
{
    PyObject *name, *was_bound;
    _pyref_ PyObject *kept = PyDict_New();
    Py_ssize_t at = 0;

    while (kept && PyDict_Next(watched.names, &at, &name, &was_bound)) {
        if ((was_bound == Py_True || PyDict_Contains(runtime.main_dict, name) == 1) &&
            PyDict_SetItem(kept, name, was_bound) < 0)
            return;
    }
    if (!kept)
        return;
    names_max = MAX(NAMES_MIN, 2 * PyDict_GET_SIZE(kept));
    this_round++;
    Py_SETREF(watched.names, take(kept));
}

static void note(PyObject *name, bool was_bound)
{
    if (!PyUnicode_CheckExact(name)) {
        watched.odd_keys = true;
        return;
    }
    if (!watched.names)
        watched.names = PyDict_New();
    else if (PyDict_GET_SIZE(watched.names) >= names_max && !watched.odd_keys)
        compact();
    if (watched.names && PyDict_SetDefault(watched.names, name, was_bound ? Py_True : Py_False))
        make_recent(name);
    else
        watched.incomplete = true;
}

static void note_all(PyObject *dict, bool was_bound)
{
    PyObject *name, *value;
    Py_ssize_t at = 0;

    while (PyDict_Next(dict, &at, &name, &value))
        note(name, was_bound);
}

static void note_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key)
{
    /* An exception that is set already is to stay. */
    PyObject *exception = PyErr_GetRaisedException();

    if (event == PyDict_EVENT_CLEARED)
        note_all(dict, true);
    else if (event == PyDict_EVENT_CLONED)
        note_all(key, false);
    else if (key)
        note(key, event != PyDict_EVENT_ADDED);
    PyErr_SetRaisedException(exception);
}

/* A cell that binds names so often is in a loop, which is to be as fast as elsewhere. */
static void look_away(PyObject *dict)
{
    PyObject *exception = PyErr_GetRaisedException();

    if (watched.names && !watched.odd_keys && unwatched_begin(watched.names) == 0)
        PyDict_Unwatch(watcher, dict);
    PyErr_SetRaisedException(exception);
}

/* Called before the change, and not at all where a name is bound to the object it is bound to already. */
static int on_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    if (!is_recent(key))
        note_event(event, dict, key);
    if (++events == EVENTS_MANY)
        look_away(dict);
    return 0;
}

int watch_init(void)
{
    watcher = PyDict_AddWatcher(on_event);
    return watcher < 0 ? -1 : PyDict_Watch(watcher, runtime.main_dict);
}

void watch_complete(void)
{
    if (events < EVENTS_MANY)
        return;
    _pyref_ PyObject *known = Py_XNewRef(watched.names); /* another dict may replace it meanwhile */
    if (known)
        unwatched_end(known, note);
    PyDict_Watch(watcher, runtime.main_dict);
}

void watch_forget(void)
{
    events = 0;
    Py_CLEAR(watched.names);
    watched.incomplete = false;
    this_round++;
}
