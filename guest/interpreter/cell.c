#include "guest/interpreter/cell.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "guest/interpreter/allowance.h"
#include "guest/interpreter/asks/waiters.h"
#include "guest/interpreter/compile.h"
#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/error.h"
#include "guest/interpreter/figures.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/language.h"
#include "guest/interpreter/result.h"
#include "guest/interpreter/run.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/sink.h"
#include "guest/interpreter/source.h"

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

    forget_warnings();
    if (!filename || source_register(filename, source) < 0 || compile_cell(source, filename, &compiled) < 0)
        return NULL;
    allowance_begin_cell();
    PyObject *value = run_compiled(&compiled);
    allowance_end_cell();
    return value;
}

static PyObject *run_cell(const CellRequest *cell)
{
    _pyref_ PyObject *source = decode_source(cell->code);

    if (!source)
        return NULL;
    if (!language_function())
        return run_python(cell, source);
    return PyObject_CallFunction(language_function(), "OK", source,
                                 (unsigned long long)cell->execution_count);
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

static void report(const CellRequest *cell, PyObject *value, CellOutcome *ret)
{
    if (value)
        ret->result = result_show(value, cell->execution_count);
    if (!PyErr_Occurred())
        return;
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

/* Ends the run first: a thread must not add to what is handed over, nor read the channel. */
static void end_run(void)
{
    guard_flush_replaced();
    run_end();
    waiters_end();
    fflush(stdout);
    PyThreadState *saved = PyEval_SaveThread();
    sinks_hand_over();
    PyEval_RestoreThread(saved);
}

/* What holds most of it, where there is little left. */
static void report_memory(CellOutcome *ret)
{
    if (!ret->lacked_memory && !allowance_is_nearly_taken(ret->peak_memory))
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
    run_begin(cell->id, cell->asks);
    PyObject *value = run_cell(cell);
    if (getpid() != run.process)
        end_child(!value);
    report(cell, value, &outcome);
    Py_XDECREF(value);
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
