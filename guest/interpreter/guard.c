#include "guest/interpreter/guard.h"

#include <signal.h>

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/link.h"
#include "guest/interpreter/pyref.h"

/* The namespace of the module `builtins`. Names that a cell has added stay. */
static struct {
    PyObject *dict, *copy;
    PyObject *chosen; /* dict of those that cells have replaced */
    uint64_t version; /* of the dictionary: another one after each change */
} builtins;

#if PY_VERSION_HEX >= 0x030C0000

static uint64_t changes;

static int on_event(PyDict_WatchEvent event, PyObject *dict, PyObject *key, PyObject *value)
{
    changes++;
    return 0;
}

static int watch(void)
{
    int id = PyDict_AddWatcher(on_event);

    return id < 0 ? -1 : PyDict_Watch(id, builtins.dict);
}

static uint64_t version_now(void)
{
    return changes;
}

#else

static int watch(void)
{
    return 0;
}

static uint64_t version_now(void)
{
    return ((PyDictObject *)builtins.dict)->ma_version_tag;
}

#endif

/* Once, when it is as cells are to find it. -1 with an exception. */
static int builtins_init(void)
{
    _pyref_ PyObject *module = PyImport_ImportModule("builtins");

    builtins.dict = module ? Py_NewRef(PyModule_GetDict(module)) : NULL;
    builtins.copy = builtins.dict ? PyDict_Copy(builtins.dict) : NULL;
    builtins.chosen = PyDict_New();
    if (!builtins.copy || !builtins.chosen || watch() < 0)
        return -1;
    builtins.version = version_now();
    return 0;
}

/* Remembers what cells have put in place of a builtin, unless it cannot be called as that can. */
static void builtins_choose(void)
{
    PyObject *name, *original;
    Py_ssize_t at = 0;

    PyDict_Clear(builtins.chosen);
    while (PyDict_Next(builtins.copy, &at, &name, &original)) {
        PyObject *value = PyDict_GetItemWithError(builtins.dict, name);

        if (value && value != original && (PyCallable_Check(value) || !PyCallable_Check(original)))
            PyDict_SetItem(builtins.chosen, name, value);
    }
}

/* Costs next to nothing where nobody has touched it. */
static void builtins_restore(void)
{
    if (builtins.version == version_now())
        return;
    builtins_choose();
    PyDict_Update(builtins.dict, builtins.copy);
    builtins.version = version_now();
}

/* An entry of a module's namespace that is put back: where it is another one, or cannot do what it is for. */
typedef struct Guarded {
    PyObject *dict, *key, *value;
    const char *method; /* of a stream; NULL: it is no other one */
} Guarded;

enum { KEPT_STDOUT, KEPT_STDERR };

static const struct {
    const char *name, *method;
} kept_in_sys[] = {
    [KEPT_STDOUT] = {"stdout", "write"},
    [KEPT_STDERR] = {"stderr", "write"},
    {"stdin", "readline"},
    {"__stdin__", "readline"},
    {"__stdout__", "write"},
    {"__stderr__", "write"},
    {"modules", NULL},
};
static const char *const kept_in_main[] = {"__name__", "__builtins__"};

static struct {
    Guarded kept[ARRAY_SIZE(kept_in_sys) + ARRAY_SIZE(kept_in_main)];
    size_t kept_count;
    PyThreadState *untraced; /* whose functions for tracing wait */
    PyObject *main_name, *main_module;
    PyObject *modules;                        /* copy of sys.modules */
    PyObject *linecache, *linecache_copy;     /* namespaces */
    PyObject *set_handler, *sigint, *handler; /* signal.signal(SIGINT, default_int_handler) */
    sigset_t mask;
    int recursion_limit;
} guard;

static int keep(PyObject *dict, const char *name, const char *method)
{
    PyObject *value = PyDict_GetItemString(dict, name);
    PyObject *key = PyUnicode_InternFromString(name);

    if (!value || !key)
        return -1;
    guard.kept[guard.kept_count++] = (Guarded){dict, key, Py_NewRef(value), method};
    return 0;
}

static PyObject *module_dict(const char *name)
{
    _pyref_ PyObject *module = PyImport_ImportModule(name);

    return module ? Py_NewRef(PyModule_GetDict(module)) : NULL;
}

static int keep_entries(void)
{
    PyObject *sys = module_dict("sys");

    if (!sys)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(kept_in_sys); i++) {
        if (keep(sys, kept_in_sys[i].name, kept_in_sys[i].method) < 0)
            return -1;
    }
    for (size_t i = 0; i < ARRAY_SIZE(kept_in_main); i++) {
        if (keep(runtime.main_dict, kept_in_main[i], NULL) < 0)
            return -1;
    }
    return 0;
}

static int keep_linecache(void)
{
    guard.linecache = module_dict("linecache");
    guard.linecache_copy = guard.linecache ? PyDict_Copy(guard.linecache) : NULL;
    return guard.linecache_copy ? 0 : -1;
}

static int keep_modules(void)
{
    guard.main_name = PyUnicode_InternFromString("__main__");
    guard.main_module = PyImport_ImportModule("__main__");
    guard.modules = PyDict_Copy(runtime.modules);
    return guard.main_name && guard.main_module && guard.modules ? 0 : -1;
}

static int keep_signals(void)
{
    _pyref_ PyObject *module = PyImport_ImportModule("_signal");

    if (!module)
        return -1;
    guard.set_handler = PyObject_GetAttrString(module, "signal");
    guard.handler = PyObject_GetAttrString(module, "default_int_handler");
    guard.sigint = PyLong_FromLong(SIGINT);
    pthread_sigmask(SIG_SETMASK, NULL, &guard.mask);
    return guard.set_handler && guard.handler && guard.sigint ? 0 : -1;
}

int guard_init(void)
{
    if (keep_entries() < 0 || keep_modules() < 0 || keep_signals() < 0 || builtins_init() < 0 ||
        keep_linecache() < 0)
        return -1;
    guard.recursion_limit = Py_GetRecursionLimit();
    return 0;
}

/* Returns whether a stream has the method, and is not closed. */
static bool is_stream(PyObject *object, const char *method)
{
    _pyref_ PyObject *found = PyObject_GetAttrString(object, method);
    _pyref_ PyObject *closed = found ? PyObject_GetAttrString(object, "closed") : NULL;

    PyErr_Clear();
    return found && PyCallable_Check(found) && closed != Py_True;
}

static void restore_entries(void)
{
    for (size_t i = 0; i < guard.kept_count; i++) {
        const Guarded *k = &guard.kept[i];
        _pyref_ PyObject *value = Py_XNewRef(PyDict_GetItemWithError(k->dict, k->key));

        if (value != k->value && !(value && k->method && is_stream(value, k->method)))
            PyDict_SetItem(k->dict, k->key, k->value);
    }
}

/* A session whose sys.modules was emptied would import second copies of modules that the first ones do not
 * know. */
static void restore_modules(void)
{
    if (PyDict_GetItemWithError(runtime.modules, guard.main_name) == guard.main_module)
        return;
    PyDict_Merge(runtime.modules, guard.modules, 0);
    PyDict_SetItem(runtime.modules, guard.main_name, guard.main_module);
}

static void restore_thread(void)
{
    if (!guard.untraced)
        PyThreadState_EnterTracing(guard.untraced = PyThreadState_Get());
    if (Py_GetRecursionLimit() < guard.recursion_limit)
        Py_SetRecursionLimit(guard.recursion_limit);
}

/* Setting a handler first runs those of pending signals, which may raise: a few attempts, since a handler may
 * also send a signal again. */
static void restore_signals(void)
{
    if (PyThreadState_Get()->async_exc)
        PyThreadState_SetAsyncExc(PyThread_get_thread_ident(), NULL);
    pthread_sigmask(SIG_SETMASK, &guard.mask, NULL);
    for (int attempt = 0; attempt < 4; attempt++) {
        _pyref_ PyObject *old =
            PyObject_CallFunctionObjArgs(guard.set_handler, guard.sigint, guard.handler, NULL);
        if (old)
            break;
        PyErr_Clear();
    }
    while (PyErr_CheckSignals() < 0)
        PyErr_Clear();
}

void guard_begin_cell(void)
{
    descriptors_restore();
    restore_thread();
    restore_entries();
    restore_modules();
    builtins_restore();
    restore_signals();
    PyErr_Clear();
}

void guard_begin_runtime(void)
{
    restore_thread();
    restore_modules();
    builtins_restore();
    PyDict_Update(guard.linecache, guard.linecache_copy);
    PyErr_Clear();
}

void guard_end_runtime(void)
{
    if (guard.untraced == PyThreadState_Get()) {
        guard.untraced = NULL;
        PyThreadState_LeaveTracing(PyThreadState_Get());
    }
    if (PyDict_GET_SIZE(builtins.chosen) > 0)
        PyDict_Update(builtins.dict, builtins.chosen);
    PyErr_Clear();
}

static void flush_if_replaced(const Guarded *stream)
{
    _pyref_ PyObject *current = Py_XNewRef(PyDict_GetItemWithError(stream->dict, stream->key));

    if (!current || current == stream->value)
        return;
    _pyref_ PyObject *done = PyObject_CallMethod(current, "flush", NULL);
    if (!done)
        PyErr_Clear();
}

void guard_flush_replaced(void)
{
    flush_if_replaced(&guard.kept[KEPT_STDOUT]);
    flush_if_replaced(&guard.kept[KEPT_STDERR]);
}
