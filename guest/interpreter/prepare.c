#include "guest/interpreter/prepare.h"

#include <errno.h>
#include <string.h>

#include "guest/interpreter/cell.h"
#include "guest/interpreter/checkpoint/rehearsal.h"
#include "guest/interpreter/error.h"
#include "guest/interpreter/namespace_names.h"
#include "guest/interpreter/quietly.h"
#include "guest/interpreter/reply.h"
#include "guest/interpreter/run.h"
#include "guest/interpreter/runtime.h"

static PyObject *decode_text(const msgpack_object *object)
{
    if (object->type != MSGPACK_OBJECT_STR || memchr(object->via.str.ptr, '\0', object->via.str.size)) {
        PyErr_SetString(PyExc_ValueError, "not a text, or with a NUL");
        return NULL;
    }
    return PyUnicode_DecodeUTF8(object->via.str.ptr, (Py_ssize_t)object->via.str.size, NULL);
}

static bool is_name(const msgpack_object *object)
{
    const msgpack_object_str *name = &object->via.str;

    return object->type == MSGPACK_OBJECT_STR && name->size > 0 && !memchr(name->ptr, '=', name->size);
}

static PyObject *decode_env(const msgpack_object_map *env)
{
    _pyref_ PyObject *dict = PyDict_New();

    for (uint32_t i = 0; dict && i < env->size; i++) {
        _pyref_ PyObject *name = is_name(&env->ptr[i].key) ? decode_text(&env->ptr[i].key) : NULL;
        _pyref_ PyObject *value = name ? decode_text(&env->ptr[i].val) : NULL;
        if (!value || PyDict_SetItem(dict, name, value) < 0)
            return NULL;
    }
    return take(dict);
}

static PyObject *decode_imports(const msgpack_object_array *imports)
{
    _pyref_ PyObject *list = PyList_New(0);

    for (uint32_t i = 0; list && i < imports->size; i++) {
        _pyref_ PyObject *name = decode_text(&imports->ptr[i]);
        if (!name || PyList_Append(list, name) < 0)
            return NULL;
    }
    return take(list);
}

/* Returns what could not be done, as a list of one. */
static PyObject *describe_failure(void)
{
    _pyref_ PyObject *error = error_take();
    _pyref_ PyObject *note =
        PyUnicode_FromFormat("%U: %U", PyTuple_GET_ITEM(error, 0), PyTuple_GET_ITEM(error, 1));

    PyErr_Clear();
    return note ? Py_BuildValue("[O]", note) : PyList_New(0);
}

static PyObject *prepare_quietly(PyObject *env, PyObject *added, PyObject *imports, PyObject *language,
                                 PyObject *cwd)
{
    if (env != Py_None)
        clearenv();
    quietly_begin();
    PyObject *failed =
        PyObject_CallFunctionObjArgs(runtime.prepare, env, added, imports, language, cwd, NULL);
    if (!failed || !PyList_CheckExact(failed)) {
        Py_XDECREF(failed);
        failed = describe_failure();
    }
    quietly_end();
    return failed;
}

static PyObject *text_or_none(Text text)
{
    return text.data ? PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.size, "surrogateescape")
                     : Py_NewRef(Py_None);
}

/* A function of prepare.py. */
static void call(const char *name)
{
    _pyref_ PyObject *module = PyImport_ImportModule("limpet_runtime.prepare");

    Py_XDECREF(module ? PyObject_CallMethod(module, name, NULL) : NULL);
    PyErr_Clear();
}

static PyObject *set_up(Text code)
{
    call("begin_setup");
    PyObject *error = cell_set_up(code);
    names_forget(); /* to the first cell they were always there */
    call("end_setup");
    return error;
}

int prepare(uint64_t id, const MsgPrepare *asked)
{
    const msgpack_object_array *imports = asked->imports.array;
    _pyref_ PyObject *variables = asked->env.map ? decode_env(asked->env.map) : Py_NewRef(Py_None);
    _pyref_ PyObject *added = asked->added.map ? decode_env(asked->added.map) : Py_NewRef(Py_None);
    _pyref_ PyObject *names = imports ? decode_imports(imports) : Py_NewRef(Py_None);
    _pyref_ PyObject *language = text_or_none(asked->language);
    _pyref_ PyObject *cwd = text_or_none(asked->cwd);

    bool first = asked->env.map || imports || asked->setup.data || asked->language.data || asked->cwd.data;

    if ((run.number > 0 && first) || !variables || !added || !names || !language || !cwd)
        return -EPROTO;
    _pyref_ PyObject *failed = prepare_quietly(variables, added, names, language, cwd);
    _pyref_ PyObject *error = asked->setup.data ? set_up(asked->setup) : NULL;
    if (imports)
        rehearsal_run();
    return failed ? reply_prepared(id, failed, error) : -ENOMEM;
}
