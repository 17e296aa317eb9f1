#include "guest/interpreter/runtime.h"

#include "guest/interpreter/pyref.h"

RuntimeObjects runtime;

static const struct {
    const char *module, *name;
    PyObject **ret;
} objects[] = {
    {"sys", "modules", &runtime.modules},
    {"linecache", "cache", &runtime.linecache},
    {"_limpet", "displayhook", &runtime.displayhook},
    {"sys", "__displayhook__", &runtime.python_displayhook},
    {"limpet_runtime.prepare", "prepare", &runtime.prepare},
    {"limpet_runtime.saving", "save", &runtime.save},
    {"limpet_runtime.saving", "load", &runtime.load},
    {"limpet_runtime.cells", "compile_cell", &runtime.compile_cell},
    {"limpet_runtime.aio", "run", &runtime.run_async},
    {"limpet_runtime.errors", "describe", &runtime.describe_error},
    {"limpet_runtime.errors", "keep", &runtime.keep_error},
    {"limpet_runtime.hooks", "programs", &runtime.programs},
    {"limpet_runtime.hooks", "end_results", &runtime.end_results},
    {"limpet_runtime.memory", "holders", &runtime.holders},
    {"limpet_runtime.namespace", "describe", &runtime.describe},
    {"limpet_runtime.namespace", "fingerprints", &runtime.fingerprints},
    {"limpet_runtime.namespace", "listing", &runtime.listing},
    {"limpet_runtime.namespace", "labels", &runtime.labels},
    {"limpet_runtime.display", "display_result", &runtime.display_result},
    {"limpet_runtime.figures", "show", &runtime.show_figures},
    {"limpet_runtime.script", "end", &runtime.end_script},
    {"limpet_runtime.script", "close", &runtime.close_script},
    {"limpet_runtime.script", "end_session", &runtime.end_session},
};

static PyObject *import_object(const char *module_name, const char *name)
{
    _pyref_ PyObject *module = PyImport_ImportModule(module_name);

    return module ? PyObject_GetAttrString(module, name) : NULL;
}

int runtime_init(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(objects); i++) {
        *objects[i].ret = import_object(objects[i].module, objects[i].name);
        if (!*objects[i].ret)
            return -1;
    }
    runtime.main_dict = Py_XNewRef(PyModule_GetDict(PyImport_AddModule("__main__")));
    runtime.last_resort =
        Py_BuildValue("(sss)", "MemoryError", "there was no memory to describe the error", "");
    runtime.context = PyContext_CopyCurrent();
    if (!runtime.context || PyContext_Enter(runtime.context) < 0)
        return -1;
    return runtime.main_dict && runtime.last_resort ? 0 : -1;
}

PyObject *runtime_call(PyObject *function, size_t count, PyObject *const *arguments)
{
    PyThreadState *state = PyThreadState_Get();
    PyObject *result = NULL;

    PyThreadState_EnterTracing(state);
    for (int attempt = 0; !result && attempt < 4; attempt++) {
        PyErr_Clear();
        result = PyErr_CheckSignals() < 0 ? NULL : PyObject_Vectorcall(function, arguments, count, NULL);
    }
    PyThreadState_LeaveTracing(state);
    if (!result)
        PyErr_Clear();
    return result;
}

/* ---- the cell that is running ---- */

Run run;

static uint64_t this_thread(void)
{
    return PyThreadState_GetID(PyThreadState_Get());
}

void run_note_child(void)
{
    run.spawned = run.had_children = true;
}

static void after_fork_child(void)
{
    run.forked = true;
}

int run_init(void)
{
    run.main_thread = this_thread();
    run.process = getpid();
    return -pthread_atfork(run_note_child, NULL, after_fork_child);
}

void run_adopt(void)
{
    run.process = getpid();
    run.forked = run.spawned = run.had_children = false;
}

bool run_admits(void)
{
    return run.forked || run.active || run.rests || (run.number > 0 && this_thread() != run.main_thread);
}

bool run_is_active(void)
{
    return run.active;
}
