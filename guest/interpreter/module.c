#include "guest/interpreter/module.h"

#include "guest/interpreter/run.h"
#include "guest/interpreter/memory.h"
#include "guest/interpreter/asks.h"
#include "guest/interpreter/call.h"
#include "guest/interpreter/checkpoint/checkpoint.h"
#include "guest/interpreter/reply.h"
#include "guest/interpreter/serve.h"
#include "guest/interpreter/stream.h"

/* send_display(data, metadata, display_id, is_result, update) → bool: False in a forked child, which has no
 * way to send one. */
static PyObject *send_display(PyObject *module, PyObject *args)
{
    Display display = {0};
    int is_result, update;

    if (!PyArg_ParseTuple(args, "O!O!Opp", &PyDict_Type, &display.data, &PyDict_Type, &display.metadata,
                          &display.id, &is_result, &update))
        return NULL;
    display.is_result = is_result;
    display.update = update;
    return reply_display(&display) < 0 ? NULL : PyBool_FromLong(!run.forked);
}

/* repr(value) → str, for a value whose repr may raise. */
static PyObject *safe_repr(PyObject *module, PyObject *value)
{
    return result_repr(value);
}

/* tell_results(function): it is called with the number of each call that has a value, and that. */
static PyObject *tell_results(PyObject *module, PyObject *function)
{
    result_tell(function);
    Py_RETURN_NONE;
}

/* tell_cells(before, after), see call.h. */
static PyObject *tell_cells(PyObject *module, PyObject *args)
{
    PyObject *before, *after;

    if (!PyArg_ParseTuple(args, "OO", &before, &after))
        return NULL;
    cells_tell(before, after);
    Py_RETURN_NONE;
}

/* set_language(function), see call.h. */
static PyObject *set_language(PyObject *module, PyObject *function)
{
    language_set(function);
    Py_RETURN_NONE;
}

/* cell() → int: the number of the cell that runs, or ran last. */
static PyObject *cell_number(PyObject *module, PyObject *unused)
{
    return PyLong_FromUnsignedLongLong(run.number);
}

/* memory() → int: the most that the process may hold, bytes; 0: unlimited. */
static PyObject *memory(PyObject *module, PyObject *unused)
{
    return PyLong_FromUnsignedLongLong(memory_limit_most());
}

/* rest_by(function), see serve.h. */
static PyObject *set_rest(PyObject *module, PyObject *function)
{
    rest_by(function);
    Py_RETURN_NONE;
}

/* forked() → int: the process where it is a child of the interpreter's, in the interpreter and its copies 0.
 */
static PyObject *forked(PyObject *module, PyObject *unused)
{
    return PyLong_FromLong(run.forked ? getpid() : 0);
}

/* own_attributes(object) → dict: its own, without asking it; empty where it has none. */
static PyObject *own_attributes(PyObject *module, PyObject *object)
{
    /* Types keep theirs in a way of their own. */
    PyObject *dict = PyType_Check(object) ? NULL : PyObject_GenericGetDict(object, NULL);

    if (dict && PyDict_Check(dict))
        return dict;
    Py_XDECREF(dict);
    PyErr_Clear();
    return PyDict_New();
}

/* character_size(text) → int: bytes of each character in memory. */
static PyObject *character_size(PyObject *module, PyObject *text)
{
    return PyLong_FromLong(PyUnicode_Check(text) ? (long)PyUnicode_KIND(text) : 0);
}

static PyMethodDef methods[] = {
    {"send_display", send_display, METH_VARARGS, NULL},
    {"safe_repr", safe_repr, METH_O, NULL},
    {"tell_cells", tell_cells, METH_VARARGS, NULL},
    {"tell_results", tell_results, METH_O, NULL},
    {"displayhook", result_displayhook, METH_O, NULL},
    {"set_language", set_language, METH_O, NULL},
    {"rest_by", set_rest, METH_O, NULL},
    {"cell", cell_number, METH_NOARGS, NULL},
    {"memory", memory, METH_NOARGS, NULL},
    {"is_answered", ask_is_answered, METH_NOARGS, NULL},
    {"ask", ask_ask, METH_VARARGS, NULL},
    {"fork", child_fork, METH_O, NULL},
    {"forked", forked, METH_NOARGS, NULL},
    {"own_attributes", own_attributes, METH_O, NULL},
    {"character_size", character_size, METH_O, NULL},
    {0},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, stream_add},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_limpet",
    .m_methods = methods,
    .m_slots = slots,
};

static PyObject *initialise(void)
{
    return PyModuleDef_Init(&definition);
}

int module_register(void)
{
    return PyImport_AppendInittab("_limpet", initialise);
}
