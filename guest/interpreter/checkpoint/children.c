#include "guest/interpreter/checkpoint/children.h"

#include <signal.h>
#include <unistd.h>

#include "guest/interpreter/pyref.h"
#include "guest/interpreter/runtime.h"

/* More than any process has as its number. What is sent to one beyond it reaches nobody. */
#define NUMBER_MAX (4 << 20)

static PyObject *of_module(const char *module_name, const char *name)
{
    PyObject *module = PyDict_GetItemString(runtime.modules, module_name);

    return module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), name) : NULL;
}

/* The attributes as they are stored, past anything a class may do about it. A new reference, or NULL. */
static PyObject *stored(PyObject *object)
{
    PyObject *dict = object && object != Py_None ? PyObject_GenericGetDict(object, NULL) : NULL;

    PyErr_Clear();
    return dict;
}

/* Returns a new reference to the object that a weak reference refers to, or NULL. */
static PyObject *referent(PyObject *reference)
{
    PyObject *object = NULL;

    if (!reference || !PyWeakref_CheckRefExact(reference))
        return NULL;
#if PY_VERSION_HEX >= 0x030D0000
    PyWeakref_GetRef(reference, &object);
#else
    object = PyWeakref_GetObject(reference);
    object = object == Py_None ? NULL : Py_NewRef(object);
#endif
    return object;
}

static void set_number(PyObject *dict, const char *name, long number)
{
    _pyref_ PyObject *value = PyLong_FromLong(number);

    if (value)
        PyDict_SetItemString(dict, name, value);
    PyErr_Clear();
}

static bool is_number(PyObject *dict, const char *name, long *ret)
{
    PyObject *value = PyDict_GetItemString(dict, name);

    *ret = value && PyLong_Check(value) ? PyLong_AsLong(value) : 0;
    return *ret > 0;
}

/* Takes an object of subprocess, or one that multiprocessing has for a process that was started. */
static void end_program(PyObject *program)
{
    _pyref_ PyObject *dict = stored(program);
    long number;

    if (!dict || PyDict_GetItemString(dict, "returncode") != Py_None || !is_number(dict, "pid", &number))
        return;
    set_number(dict, "returncode", -SIGKILL);
    set_number(dict, "pid", NUMBER_MAX + number);
}

/* A process that was not started yet is started by the copy, and one that has ended is waited for by it. */
static void end_process(PyObject *process)
{
    _pyref_ PyObject *dict = stored(process);
    long number;

    if (dict && is_number(dict, "_parent_pid", &number))
        set_number(dict, "_parent_pid", getpid());
    if (dict)
        end_program(PyDict_GetItemString(dict, "_popen"));
}

/* Takes a WeakSet. */
static void end_processes(PyObject *set)
{
    _pyref_ PyObject *dict = stored(set);
    PyObject *data = dict ? PyDict_GetItemString(dict, "data") : NULL;
    _pyref_ PyObject *all = data && PyAnySet_CheckExact(data) ? PySequence_List(data) : NULL;

    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all); i++) {
        _pyref_ PyObject *process = referent(PyList_GET_ITEM(all, i));

        end_process(process);
    }
    PyErr_Clear();
}

static void set_text(PyObject *object, const char *name, const char *text)
{
    _pyref_ PyObject *dict = stored(object), *value = dict ? PyUnicode_FromString(text) : NULL;

    if (value && PyDict_GetItemString(dict, name))
        PyDict_SetItemString(dict, name, value);
    PyErr_Clear();
}

/* A worker that was killed may have held the lock of the pool's queue: work would wait for it for ever. */
static void end_pool(PyObject *pool)
{
    _pyref_ PyObject *dict = stored(pool);

    if (!dict)
        return;
    set_text(pool, "_state", "TERMINATE");
    set_text(PyDict_GetItemString(dict, "_worker_handler"), "_state", "TERMINATE");
    _pyref_ PyObject *done = runtime_call(runtime.end_results, 1, &pool);
}

/* Pools of processes have finalizers, which refer to them weakly. */
static void end_pools(PyObject *finalizers)
{
    PyObject *type = of_module("multiprocessing.pool", "Pool"), *key, *finalizer;
    Py_ssize_t at = 0;

    while (type && finalizers && PyDict_Check(finalizers) && PyDict_Next(finalizers, &at, &key, &finalizer)) {
        _pyref_ PyObject *dict = stored(finalizer);
        _pyref_ PyObject *pool = dict ? referent(PyDict_GetItemString(dict, "_weakref")) : NULL;

        if (pool && (PyObject *)Py_TYPE(pool) == type)
            end_pool(pool);
    }
}

/* Whoever asks for it next makes another. What was there is kept: its finalizers are about what is not there.
 */
static void forget(PyObject *dict, const char *name)
{
    PyObject *value = dict ? PyDict_GetItemString(dict, name) : NULL;

    if (!value || value == Py_None)
        return;
    Py_INCREF(value);
    PyDict_SetItemString(dict, name, Py_None);
    PyErr_Clear();
}

static void forget_server(PyObject *server)
{
    _pyref_ PyObject *dict = stored(server);

    forget(dict, "_forkserver_pid");
}

/* Waits for no process that has the number of the one before. */
static void forget_tracker(const char *module_name)
{
    _pyref_ PyObject *dict = stored(of_module(module_name, "_resource_tracker"));

    forget(dict, "_fd");
    forget(dict, "_pid");
}

/* The executor that joblib has for all calls. */
static void forget_executor(const char *module_name)
{
    PyObject *module = PyDict_GetItemString(runtime.modules, module_name);

    forget(module && PyModule_Check(module) ? PyModule_GetDict(module) : NULL, "_executor");
}

static void end_programs(PyObject *references)
{
    _pyref_ PyObject *all = references && PyDict_Check(references) ? PyDict_Values(references) : NULL;

    for (Py_ssize_t i = 0; all && i < PyList_GET_SIZE(all); i++) {
        _pyref_ PyObject *program = referent(PyList_GET_ITEM(all, i));

        end_program(program);
    }
    PyErr_Clear();
}

void children_end(void)
{
    end_programs(runtime.programs);
    end_processes(of_module("multiprocessing.process", "_dangling"));
    end_pools(of_module("multiprocessing.util", "_finalizer_registry"));
    forget_server(of_module("multiprocessing.forkserver", "_forkserver"));
    forget_tracker("multiprocessing.resource_tracker");
    forget_tracker("joblib.externals.loky.backend.resource_tracker");
    forget_tracker("loky.backend.resource_tracker");
    forget_executor("joblib.externals.loky.reusable_executor");
    forget_executor("loky.reusable_executor");
}
