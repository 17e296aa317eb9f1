#include "guest/interpreter/asks/ask.h"

#include <errno.h>

#include "guest/interpreter/asks/waiters.h"
#include "guest/interpreter/pyvalue.h"
#include "guest/interpreter/reply.h"
#include "guest/interpreter/run.h"
#include "guest/interpreter/stream.h"

#define INSTEAD "put it into a file under /session and pass the path"

/* The payload is a message of its own. */
#define ASK_BUDGET ((ValueBudget){.nodes = LIMIT_NODES, .keys = LIMIT_KEYS, .depth = LIMIT_DEPTH})

static bool refuse(const char *why)
{
    PyErr_SetString(PyExc_RuntimeError, why);
    return false;
}

/* Returns whether the calling thread may ask; false with an exception, or because nobody answers. */
static bool may_ask(void)
{
    if (!run.active && !run.forked)
        return refuse("no cell runs now: nobody answers between two calls");
    if (!run.asks)
        return false;
    if (run.forked)
        return refuse("a forked process cannot ask: only the session's own process can, so call input() and "
                      "host functions there");
    return true;
}

PyObject *ask_is_answered(PyObject *module, PyObject *unused)
{
    bool answered = may_ask();

    return PyErr_Occurred() ? NULL : PyBool_FromLong(answered);
}

static int fail_value(const char *why, const ValueBudget *budget)
{
    if (budget->refused)
        PyErr_Format(
            PyExc_TypeError,
            "a host function takes plain data (None, bool, int, float, str, bytes, list, tuple, dict "
            "with str keys), not %.200s: for NumPy and pandas pass .tolist() or .item(), or " INSTEAD,
            budget->refused->tp_name);
    else
        PyErr_Format(PyExc_ValueError, "this cannot be passed to a host function: %s; " INSTEAD, why);
    return -1;
}

static int encode(PyObject *payload, Buf *out)
{
    ValueBudget budget = ASK_BUDGET;
    Writer w;

    writer_init(&w, out);
    const char *why = write_value(&w, payload, &budget);
    int r = writer_finish(&w);
    if (why)
        return fail_value(why, &budget);
    if (r == -ENOBUFS)
        return fail_value("it is over 1 MiB", &budget);
    if (r < 0)
        PyErr_NoMemory();
    return r < 0 ? -1 : 0;
}

/* (error, value), or NULL with an exception. */
static PyObject *ask_and_wait(Question *question)
{
    Waiter waiter;
    PyObject *answer = NULL;

    if (waiter_enter(&waiter) == 0) {
        question->ask = waiter.ask;
        if (reply_ask(question) == 0 && waiter_wait(&waiter) == 0)
            answer = take(waiter.answer);
    }
    waiter_leave(&waiter);
    return answer;
}

PyObject *ask_ask(PyObject *module, PyObject *args)
{
    Buf payload _cleanup_(buf_deinit) = {.limit = LIMIT_ASK};
    Question question = {.payload = &payload};
    PyObject *value;

    if (!PyArg_ParseTuple(args, "sUO", &question.kind, &question.name, &value) ||
        (value != Py_None && encode(value, &payload) < 0) || stream_flush_all() < 0)
        return NULL;
    if (may_ask())
        return ask_and_wait(&question);
    return PyErr_Occurred() ? NULL
                            : PyErr_Format(PyExc_RuntimeError, "nobody answers questions of this call");
}
