/* State that all parts of the interpreter share. */
#pragma once

#include "guest/interpreter/pyref.h"

/* Python objects that the C side holds for the life of the process, so that no cell can take them away. */
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
    PyObject *programs; /* weak references to what subprocess has started */
    PyObject *end_results;
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

/* The cell that is running, for everything that speaks in its name: streams, displays, what starts processes.
 * Guarded by the GIL. */
typedef struct Run {
    uint64_t id;          /* of the `execute` it answers */
    uint64_t number;      /* counts the cells of this process; 0 before the first */
    bool asks;            /* its questions are answered */
    bool active;          /* it runs */
    bool rests;           /* the main thread runs tasks of cells between two of them */
    bool forked;          /* this is a child of the interpreter that goes on in Python */
    bool spawned;         /* a child process was started */
    bool had_children;    /* one ever was */
    pid_t process;        /* the interpreter, which a forked child is not */
    uint64_t main_thread; /* its thread state's id */
} Run;

extern Run run;

/* Once, on the main thread. */
int run_init(void);

/* In a copy of the interpreter that is to go on as one. */
void run_adopt(void);

/* A child process is about to be started. */
void run_note_child(void);

/* Returns whether the calling thread may write. Any may while a cell runs, and between two cells all but the
 * main one, unless that runs tasks of cells and not the runtime's work; before the first cell none. */
bool run_admits(void);

/* Returns whether a cell runs, so that displays and questions are its own. */
bool run_is_active(void);
