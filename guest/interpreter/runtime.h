/* Python objects that the C side holds for the life of the process, so that no cell can take them away. */
#pragma once

#include "guest/interpreter/pyref.h"

typedef struct RuntimeObjects {
    PyObject *main_dict;   /* the namespace of cells: that of the module __main__ */
    PyObject *context;     /* contextvars.Context of the main thread */
    PyObject *modules;     /* sys.modules */
    PyObject *linecache;   /* linecache.cache */
    PyObject *displayhook; /* sys.displayhook as cells find it */
    PyObject *python_displayhook;
    PyObject *last_resort; /* what describes an error when nothing else can */

    /* limpet_runtime */
    PyObject *prepare;
    PyObject *save;
    PyObject *load;
    PyObject *compile_cell;
    PyObject *run_async;
    PyObject *describe_error;
    PyObject *keep_error;
    PyObject *holders;
    PyObject *describe;
    PyObject *fingerprints;
    PyObject *listing;
    PyObject *labels;
    PyObject *display_result;
    PyObject *show_figures;
    PyObject *end_script;
    PyObject *close_script;
    PyObject *end_session;
} RuntimeObjects;

extern RuntimeObjects runtime;

/* Once, when Python runs and sys.path is set. -1 with an exception. */
int runtime_init(void);

/* Calls a function that needs nothing that cells can change, unseen by functions that trace or profile the
 * thread. Tries again where a handler of a signal raised. Leaves no exception set. */
PyObject *runtime_call(PyObject *function, size_t count, PyObject *const *arguments);
