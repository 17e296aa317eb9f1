#include "guest/interpreter/call.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/memory.h"
#include "guest/interpreter/asks.h"
#include "guest/interpreter/compile.h"
#include "guest/interpreter/link.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/pyref.h"
#include "guest/interpreter/output.h"

/* ---- errors ---- */

static bool is_description(PyObject *object)
{
    return object && PyTuple_CheckExact(object) && PyTuple_GET_SIZE(object) == 3 &&
           PyUnicode_Check(PyTuple_GET_ITEM(object, 0)) && PyUnicode_Check(PyTuple_GET_ITEM(object, 1)) &&
           PyUnicode_Check(PyTuple_GET_ITEM(object, 2));
}

/* Without Python code but the exception's own __str__, when the runtime was interrupted or broken. */
static PyObject *describe_briefly(PyObject *exception)
{
    const char *name = strrchr(Py_TYPE(exception)->tp_name, '.');
    _pyref_ PyObject *message = NULL;

    name = name ? name + 1 : Py_TYPE(exception)->tp_name;
    message = PyObject_Str(exception);
    if (!message) {
        PyErr_Clear();
        message = PyUnicode_FromString("<exception str() failed>");
    }
    if (!message)
        return NULL;
    _pyref_ PyObject *text = PyUnicode_FromFormat("%s: %U\n", name, message);
    return text ? Py_BuildValue("(sOO)", name, message, text) : NULL;
}

static PyObject *describe(PyObject *exception)
{
    PyObject *description;

    if (!exception)
        return Py_NewRef(runtime.last_resort);
    guard_begin_runtime();
    description = PyObject_CallOneArg(runtime.describe_error, exception);
    if (!is_description(description)) {
        PyErr_Clear();
        Py_XDECREF(description);
        description = describe_briefly(exception);
    }
    PyErr_Clear();
    return description ? description : Py_NewRef(runtime.last_resort);
}

PyObject *error_take(void)
{
    _pyref_ PyObject *exception = py_take_exception();

    return describe(exception);
}

/* The same for an exception that a cell ends with: it becomes sys.last_exc, and sys.excepthook is told. */
static PyObject *error_report(void)
{
    _pyref_ PyObject *exception = py_take_exception();
    PyObject *description = describe(exception);
    _pyref_ PyObject *done = exception ? PyObject_CallOneArg(runtime.keep_error, exception) : NULL;

    PyErr_Clear();
    return description;
}

/* ---- languages ---- */

static PyObject *language; /* runs cells; NULL: Python does */

void language_set(PyObject *function)
{
    Py_XSETREF(language, Py_NewRef(function));
}

static PyObject *look_up(PyObject *dict, PyObject **name, const char *text)
{
    if (!*name && !(*name = PyUnicode_InternFromString(text)))
        return NULL;
    return PyDict_GetItemWithError(dict, *name);
}

/* pyplot's managers of figures by number, or NULL where they are not where they are known to be. */
static PyObject *managers(void)
{
    static PyObject *helpers_name, *type_name, *figures_name;
    PyObject *helpers = look_up(runtime.modules, &helpers_name, "matplotlib._pylab_helpers");
    PyObject *type =
        helpers && PyModule_Check(helpers) ? look_up(PyModule_GetDict(helpers), &type_name, "Gcf") : NULL;

    if (!type || !PyType_Check(type) || !((PyTypeObject *)type)->tp_dict)
        return NULL;
    return look_up(((PyTypeObject *)type)->tp_dict, &figures_name, "figs");
}

/* Returns whether there may be figures: false where pyplot is not imported or has none open, told without
 * running any code. */
static bool figures_are_open(void)
{
    static PyObject *pyplot;
    bool open = false;

    if (look_up(runtime.modules, &pyplot, "matplotlib.pyplot")) {
        PyObject *figures = managers();
        open = !figures || !PyDict_Check(figures) || PyDict_GET_SIZE(figures) > 0;
    }
    PyErr_Clear();
    return open;
}

/* The source of cells, where Python's tracebacks and inspect look for it: linecache. Only the newest are
 * kept. */
#define SOURCES_MAX   1000u
#define SOURCES_BYTES (32u << 20)

static struct {
    PyObject *names[SOURCES_MAX]; /* a ring */
    size_t sizes[SOURCES_MAX];
    size_t first, count, bytes;
} sources;

static void drop_oldest(void)
{
    PyObject *name = sources.names[sources.first];

    if (PyDict_DelItem(runtime.linecache, name) < 0)
        PyErr_Clear();
    Py_DECREF(name);
    sources.bytes -= sources.sizes[sources.first];
    sources.first = (sources.first + 1) % SOURCES_MAX;
    sources.count--;
}

static void note(PyObject *filename, size_t size)
{
    while (sources.count > 0 && (sources.count == SOURCES_MAX || sources.bytes + size > SOURCES_BYTES))
        drop_oldest();

    size_t at = (sources.first + sources.count++) % SOURCES_MAX;

    sources.names[at] = Py_NewRef(filename);
    sources.sizes[at] = size;
    sources.bytes += size;
}

/* Lines as Python counts them: str.splitlines() would also break at form feeds and the like. Each has its
 * end, as linecache gives the last one of a file one. */
static PyObject *split_lines(PyObject *source)
{
    Py_ssize_t size = PyUnicode_GET_LENGTH(source), at = 0;
    PyObject *lines = PyList_New(0);

    while (lines && at < size) {
        Py_ssize_t newline = PyUnicode_FindChar(source, '\n', at, size, 1);
        Py_ssize_t end = newline < 0 ? size : newline + 1;
        _pyref_ PyObject *rest = PyUnicode_Substring(source, at, end);
        _pyref_ PyObject *line = newline < 0 && rest ? PyUnicode_FromFormat("%U\n", rest) : Py_XNewRef(rest);
        if (!line || PyList_Append(lines, line) < 0)
            Py_CLEAR(lines);
        at = end;
    }
    return lines;
}

/* -1 with an exception. */
static int source_register(PyObject *filename, PyObject *source)
{
    _pyref_ PyObject *lines = split_lines(source);
    Py_ssize_t size = PyUnicode_GET_LENGTH(source);

    if (!lines)
        return -1;
    /* Without a modification time linecache.checkcache() leaves the entry alone. */
    _pyref_ PyObject *entry = Py_BuildValue("(nOOO)", size, Py_None, lines, filename);
    if (!entry || PyDict_SetItem(runtime.linecache, filename, entry) < 0)
        return -1;
    note(filename, (size_t)size);
    return 0;
}

static PyObject *told; /* wants to have each value; NULL where nobody does */

void result_tell(PyObject *function)
{
    Py_XSETREF(told, Py_XNewRef(function));
}

static PyObject *formatter; /* gives a value its text; NULL: repr() does */

void result_format(PyObject *function)
{
    Py_XSETREF(formatter, function == Py_None ? NULL : Py_NewRef(function));
}

static PyObject *before_cell, *after_cell; /* NULL where nobody wants to know */

void cells_tell(PyObject *before, PyObject *after)
{
    Py_XSETREF(before_cell, Py_XNewRef(before));
    Py_XSETREF(after_cell, Py_XNewRef(after));
}

static void call_around(PyObject *function)
{
    if (!function)
        return;
    guard_begin_runtime();
    _pyref_ PyObject *done = PyObject_CallNoArgs(function);
    PyErr_Clear();
}

static PyObject *describe_failure(PyObject *value, PyObject *exception)
{
    const char *type = Py_TYPE(value)->tp_name, *name = Py_TYPE(exception)->tp_name;
    _pyref_ PyObject *message = PyObject_Str(exception);

    if (message)
        return PyUnicode_FromFormat("<%.200s object; repr() raised %.200s: %U>", type, name, message);
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyErr_Clear();
    return PyUnicode_FromFormat("<%.200s object; repr() raised %.200s>", type, name);
}

PyObject *result_repr(PyObject *value)
{
    PyObject *text = PyObject_Repr(value);

    if (text || !PyErr_ExceptionMatches(PyExc_Exception))
        return text;
    _pyref_ PyObject *exception = py_take_exception();
    return describe_failure(value, exception);
}

/* As in IPython: not where the cells have made `_` a name of their own. The name alone keeps the value: of
 * `last` only the address is known. */
static int keep_last(PyObject *value)
{
    static PyObject *name;
    static const void *last;
    PyObject *current;

    if (!name && !(name = PyUnicode_InternFromString("_")))
        return -1;
    current = PyDict_GetItemWithError(runtime.main_dict, name);
    if (current && current != last)
        return 0;
    last = value;
    return PyDict_SetItem(runtime.main_dict, name, value);
}

/* Types that have no form but text, told without a look at their methods. */
static bool is_plain(PyObject *value)
{
    return PyLong_CheckExact(value) || PyUnicode_CheckExact(value) || PyFloat_CheckExact(value) ||
           PyBool_Check(value) || PyList_CheckExact(value) || PyDict_CheckExact(value) ||
           PyTuple_CheckExact(value) || PyBytes_CheckExact(value) || PyAnySet_CheckExact(value);
}

static int display(PyObject *value, PyObject *text)
{
    guard_begin_runtime();
    _pyref_ PyObject *done = PyObject_CallFunctionObjArgs(runtime.display_result, value, text, NULL);
    return done ? 0 : -1;
}

static int tell(PyObject *value, uint64_t execution_count)
{
    if (!told)
        return 0;
    guard_begin_runtime();
    _pyref_ PyObject *done = PyObject_CallFunction(told, "KO", (unsigned long long)execution_count, value);
    return done ? 0 : -1;
}

static PyObject *format(PyObject *value)
{
    _pyref_ PyObject *text = formatter ? PyObject_CallOneArg(formatter, value) : result_repr(value);

    return text && !PyUnicode_Check(text) ? result_repr(value) : take(text);
}

static PyObject *show(PyObject *value, uint64_t execution_count)
{
    if (keep_last(value) < 0 || tell(value, execution_count) < 0)
        return NULL;

    _pyref_ PyObject *text = format(value);

    if (!text || (!is_plain(value) && display(value, text) < 0))
        return NULL;
    return take(text);
}

/* The value that another hook has been given. */
static struct {
    bool shows;
    uint64_t execution_count;
    PyObject *text;
} showing;

PyObject *result_displayhook(PyObject *module, PyObject *value)
{
    if (!showing.shows)
        return PyObject_CallOneArg(runtime.python_displayhook, value);
    if (value == Py_None)
        Py_RETURN_NONE;

    PyObject *text = show(value, showing.execution_count);

    if (!text)
        return NULL;
    Py_XSETREF(showing.text, text);
    Py_RETURN_NONE;
}

static bool is_usual(PyObject *hook)
{
    return !hook || hook == runtime.displayhook || hook == runtime.python_displayhook ||
           !PyCallable_Check(hook);
}

/* Tells of a hook that fails, as Python tells of a sys.excepthook that does. */
static void tell_failure(void)
{
    _pyref_ PyObject *error = error_take();

    PySys_FormatStderr("Error in sys.displayhook:\n%U", PyTuple_GET_ITEM(error, 2));
    PyErr_Clear();
}

/* A hook that fails does not keep the value from being shown. */
static PyObject *show_by(PyObject *hook, PyObject *value, uint64_t execution_count)
{
    showing.shows = true;
    showing.execution_count = execution_count;
    _pyref_ PyObject *done = PyObject_CallOneArg(hook, value);
    _pyref_ PyObject *text = take(showing.text);
    showing.shows = false;
    if (done)
        return take(text);
    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    tell_failure();
    return text ? take(text) : show(value, execution_count);
}

/* Hands the value to sys.displayhook. The hook that Python is started with here keeps it as `_`, sends its
 * richer forms as a display and makes its text the result, which is returned. NULL where there is none, as
 * for None, or with an exception. */
static PyObject *result_show(PyObject *value, uint64_t execution_count)
{
    _pyref_ PyObject *hook = Py_XNewRef(PySys_GetObject("displayhook"));

    if (value == Py_None)
        return NULL;
    return is_usual(hook) ? show(value, execution_count) : show_by(hook, value, execution_count);
}

static double seconds(struct timeval t)
{
    return (double)t.tv_sec + (double)t.tv_usec * 1e-6;
}

/* CPU seconds so far, of this process and the children it waited for; *ret_peak gets its peak memory. */
static double usage_now(uint64_t *ret_peak)
{
    struct rusage own, children = {0};

    getrusage(RUSAGE_SELF, &own);
    if (run.had_children)
        getrusage(RUSAGE_CHILDREN, &children);
    *ret_peak = (uint64_t)own.ru_maxrss * 1024;
    return seconds(own.ru_utime) + seconds(own.ru_stime) + seconds(children.ru_utime) +
           seconds(children.ru_stime);
}

/* The source as Python's own reader gives it to the parser: no byte order mark, line ends as \n. */
static PyObject *decode_source(Text code)
{
    static const char mark[] = "\xef\xbb\xbf";

    if (code.size >= 3 && memcmp(code.data, mark, 3) == 0)
        code = (Text){code.data + 3, code.size - 3};

    PyObject *source = PyUnicode_DecodeUTF8(code.data, (Py_ssize_t)code.size, "replace");

    if (!source || !memchr(code.data, '\r', code.size))
        return source;
    _pyref_ PyObject *windows = source;
    _pyref_ PyObject *mac = PyObject_CallMethod(windows, "replace", "ss", "\r\n", "\n");
    return mac ? PyObject_CallMethod(mac, "replace", "ss", "\r", "\n") : NULL;
}

static bool awaits(PyObject *code)
{
    return code && ((PyCodeObject *)code)->co_flags & CO_COROUTINE;
}

static PyObject *or_none(PyObject *object)
{
    return object ? object : Py_None;
}

/* Cells run inside one context, so that they share context variables. The task of a cell with `await` enters
 * it by itself, for which it is left meanwhile. */
static PyObject *run_async(const Compiled *compiled)
{
    if (PyContext_Exit(runtime.context) < 0)
        return NULL;
    PyObject *value =
        PyObject_CallFunctionObjArgs(runtime.run_async, or_none(compiled->head), or_none(compiled->tail),
                                     runtime.main_dict, runtime.context, NULL);
    if (PyContext_Enter(runtime.context) < 0)
        Py_CLEAR(value);
    return value;
}

/* The value of the last expression, None without one, NULL with an exception. */
static PyObject *run_compiled(const Compiled *compiled)
{
    if (awaits(compiled->head) || awaits(compiled->tail))
        return run_async(compiled);
    if (compiled->head) {
        _pyref_ PyObject *value = PyEval_EvalCode(compiled->head, runtime.main_dict, runtime.main_dict);
        if (!value)
            return NULL;
    }
    if (!compiled->tail)
        return Py_NewRef(Py_None);
    return PyEval_EvalCode(compiled->tail, runtime.main_dict, runtime.main_dict);
}

/* A warning is shown once for each place, and places of cells have no more than a number of a line. */
static void forget_warnings(void)
{
    static PyObject *name;

    if (!name)
        name = PyUnicode_InternFromString("__warningregistry__");
    if (name && PyDict_GetItemWithError(runtime.main_dict, name))
        PyDict_DelItem(runtime.main_dict, name);
    PyErr_Clear();
}

static PyObject *run_python(const CellRequest *cell, PyObject *source)
{
    _pyref_ PyObject *filename =
        PyUnicode_FromFormat("<cell %llu>", (unsigned long long)cell->execution_count);
    Compiled compiled _cleanup_(compiled_deinit) = {0};

    call_around(before_cell);
    forget_warnings();
    if (!filename || source_register(filename, source) < 0 || compile_cell(source, filename, &compiled) < 0)
        return NULL;
    memory_limit_begin_cell();
    guard_end_runtime();
    PyObject *value = run_compiled(&compiled);
    memory_limit_end_cell();
    return value;
}

static PyObject *run_cell(const CellRequest *cell)
{
    _pyref_ PyObject *source = decode_source(cell->code);

    if (!source)
        return NULL;
    if (!language)
        return run_python(cell, source);
    return PyObject_CallFunction(language, "OK", source, (unsigned long long)cell->execution_count);
}

/* A fork that came back here instead of ending: it must not answer in its parent's name. */
static _Noreturn void end_child(bool raised)
{
    int status = raised ? 1 : 0;

    if (raised && PyErr_ExceptionMatches(PyExc_SystemExit)) {
        _pyref_ PyObject *exception = py_take_exception();
        _pyref_ PyObject *code = PyObject_GetAttrString(exception, "code");
        if (code && (code == Py_None || PyLong_Check(code)))
            status = code == Py_None ? 0 : (int)PyLong_AsLong(code);
    } else if (raised) {
        _pyref_ PyObject *error = error_take();
        const char *text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(error, 2));
        if (text)
            sink_append(&sinks[1], text, strlen(text));
    }
    fflush(stdout); /* what C has printed */
    sinks_flush();
    _exit(status);
}

/* Python ends a call that there is no memory for by a SystemError that says nothing of it. */
static void name_lack_of_memory(void)
{
    if (!PyErr_ExceptionMatches(PyExc_SystemError) || !memory_limit_is_scarce())
        return;

    _pyref_ PyObject *exception = py_take_exception();
    _pyref_ PyObject *traceback = PyException_GetTraceback(exception);
    _pyref_ PyObject *text = PyObject_Str(exception);
    bool says_nothing =
        text && PyUnicode_CompareWithASCIIString(text, "error return without exception set") == 0;

    PyErr_Clear();
    if (says_nothing) {
        PyErr_Format(PyExc_MemoryError, "there is none for another call; calls may be %d deep",
                     Py_GetRecursionLimit());
        Py_XSETREF(exception, py_take_exception());
        PyException_SetTraceback(exception, traceback ? traceback : Py_None);
    }
    PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
}

static void report(const CellRequest *cell, PyObject *value, CellOutcome *ret)
{
    if (value)
        ret->result = result_show(value, cell->execution_count);
    if (!PyErr_Occurred())
        return;
    name_lack_of_memory();
    ret->lacked_memory = PyErr_ExceptionMatches(PyExc_MemoryError);
    ret->error = error_report();
}

/* Figures are shown also where the cell failed after drawing them. */
static void report_figures(CellOutcome *ret)
{
    if (!figures_are_open())
        return;
    guard_begin_runtime();
    _pyref_ PyObject *done = PyObject_CallNoArgs(runtime.show_figures);
    if (!done && !ret->error)
        ret->error = error_take();
    PyErr_Clear();
}

/* As a program ends: runs what is registered for the end. */
static void end(PyObject *function, CellOutcome *ret)
{
    guard_begin_runtime();
    _pyref_ PyObject *done = PyObject_CallNoArgs(function);
    if (getpid() != run.process)
        end_child(!done);
    if (!done && !ret->error)
        ret->error = error_take();
    PyErr_Clear();
}

/* Lets go of the variables, so that files are closed and finalizers run. The reply has been made of them. */
static void close_script(void)
{
    guard_begin_runtime();
    _pyref_ PyObject *done = PyObject_CallOneArg(runtime.close_script, runtime.main_dict);
    if (getpid() != run.process)
        end_child(!done);
    PyErr_Clear();
}

static void begin_run(const CellRequest *cell)
{
    run.id = cell->id;
    run.number++;
    run.asks = cell->asks;
    run.active = true;
    run.spawned = false;
}

/* Ends the run first: a thread must not add to what is handed over, nor read the channel. */
static void end_run(void)
{
    guard_flush_replaced();
    run.active = false;
    if (run.asks)
        waiters_end();
    fflush(stdout);
    PyThreadState *saved = PyEval_SaveThread();
    sinks_hand_over();
    PyEval_RestoreThread(saved);
}

/* Tells which names hold most memory, where there is little left. */
static void report_memory(CellOutcome *ret)
{
    if (!ret->lacked_memory && !memory_limit_is_nearly_taken(ret->peak_memory))
        return;
    guard_begin_runtime();
    ret->memory = PyObject_CallOneArg(runtime.holders, runtime.main_dict);
    PyErr_Clear();
}

int cell_run(const CellRequest *cell, Buf *reply)
{
    CellOutcome outcome _cleanup_(outcome_deinit) = {0};
    uint64_t peak;
    double cpu = usage_now(&peak);

    guard_begin_cell();
    begin_run(cell);
    PyObject *value = run_cell(cell);
    if (getpid() != run.process)
        end_child(!value);
    report(cell, value, &outcome);
    Py_XDECREF(value);
    call_around(after_cell);
    if (cell->script)
        end(runtime.end_script, &outcome);
    if (cell->last)
        end(runtime.end_session, &outcome);
    report_figures(&outcome);
    if (outcome.error)
        Py_CLEAR(outcome.result);
    outcome.cpu = usage_now(&outcome.peak_memory) - cpu;
    report_memory(&outcome);

    int r = reply_executed(reply, cell->id, &outcome);
    if (cell->script)
        close_script();
    end_run();
    return r;
}

PyObject *cell_set_up(Text code)
{
    CellOutcome outcome = {0};

    guard_begin_cell();
    descriptors_mute();
    _pyref_ PyObject *value = run_cell(&(CellRequest){.code = code});
    if (getpid() != run.process)
        end_child(!value);
    if (!value)
        outcome.error = error_take();
    report_figures(&outcome);
    guard_flush_replaced();
    fflush(stdout);
    guard_begin_cell();
    return outcome.error;
}
