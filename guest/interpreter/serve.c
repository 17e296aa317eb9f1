#include "guest/interpreter/serve.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "guest/interpreter/link.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/call.h"
#include "guest/interpreter/checkpoint/checkpoint.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/namespace_names.h"
#include "guest/interpreter/pyref.h"

/* Around Python code of ours that runs between two cells, and what it calls: output of that has no cell to
 * belong to, and goes nowhere. With the GIL, on the main thread. */
static void mute_output(void)
{
    guard_begin_runtime();
    descriptors_mute();
}

static void unmute_output(void)
{
    if (getpid() != run.process)
        _exit(EXIT_FAILURE);
    fflush(stdout);
    fflush(stderr);
    guard_begin_cell();
}

static PyObject *runs; /* lives as long as the process */

void rest_by(PyObject *function)
{
    Py_XSETREF(runs, Py_NewRef(function));
}

static void rest(void)
{
    if (!runs || !inbox_is_empty())
        return;
    run.rests = true;
    _pyref_ PyObject *done = PyObject_CallFunction(runs, "i", descriptors_channel());
    run.rests = false;
    if (getpid() != run.process) /* a task has forked */
        _exit(done ? EXIT_SUCCESS : EXIT_FAILURE);
    PyErr_Clear();
}

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

static PyObject *prepare_muted(PyObject *env, PyObject *added, PyObject *imports, PyObject *language,
                               PyObject *cwd)
{
    if (env != Py_None)
        clearenv();
    mute_output();
    PyObject *failed =
        PyObject_CallFunctionObjArgs(runtime.prepare, env, added, imports, language, cwd, NULL);
    if (!failed || !PyList_CheckExact(failed)) {
        Py_XDECREF(failed);
        failed = describe_failure();
    }
    unmute_output();
    return failed;
}

static PyObject *text_or_none(Text text)
{
    return text.data ? PyUnicode_DecodeUTF8(text.data, (Py_ssize_t)text.size, "surrogateescape")
                     : Py_NewRef(Py_None);
}

/* A function of prepare.py; or what could not be done, as a list of one. */
static PyObject *call(const char *name)
{
    _pyref_ PyObject *module = PyImport_ImportModule("limpet_runtime.prepare");
    PyObject *notes = module ? PyObject_CallMethod(module, name, NULL) : NULL;

    return notes ? notes : describe_failure();
}

/* Adds to `failed` what cannot be had from its memory alone. */
static PyObject *set_up(Text code, PyObject *failed)
{
    _pyref_ PyObject *begun = call("begin_setup");
    PyObject *error = cell_set_up(code);
    names_forget(); /* to the first cell they were always there */
    _pyref_ PyObject *notes = call("end_setup");

    if (failed && notes)
        PyList_SetSlice(failed, PY_SSIZE_T_MAX, PY_SSIZE_T_MAX, notes);
    PyErr_Clear();
    return error;
}

/* Answers `prepare` with the message id `id`; any of it may be absent. Before its first cell an interpreter
 * gets its environment, imports what cells are likely to, goes where they run, and takes up their language;
 * before any cell it gets more variables. With the GIL. A negative errno when the supervisor is gone, asks
 * for what no environment can hold, or asks after the first cell for what is done before it. */
static int prepare(uint64_t id, const MsgPrepare *asked)
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
    _pyref_ PyObject *failed = prepare_muted(variables, added, names, language, cwd);
    _pyref_ PyObject *error = asked->setup.data ? set_up(asked->setup, failed) : NULL;
    if (imports)
        prefault();
    return failed ? reply_prepared(id, failed, error) : -ENOMEM;
}

/* Returns whether the function has returned what it is to: why it could not be done, or None, and a list of
 * str. */
static bool is_answer(PyObject *answer)
{
    if (!answer || !PyTuple_CheckExact(answer) || PyTuple_GET_SIZE(answer) != 2 ||
        !PyList_CheckExact(PyTuple_GET_ITEM(answer, 1)))
        return false;
    return PyTuple_GET_ITEM(answer, 0) == Py_None || PyUnicode_Check(PyTuple_GET_ITEM(answer, 0));
}

/* The answer where the function has none: it raised. */
static PyObject *failed(void)
{
    _pyref_ PyObject *error = error_take();

    return Py_BuildValue(
        "(N[])", PyUnicode_FromFormat("%U: %U", PyTuple_GET_ITEM(error, 0), PyTuple_GET_ITEM(error, 1)));
}

/* The channel does not tell of a message that waits in the inbox already. */
static PyObject *save(PyObject *path, const MsgSaveCell *asked)
{
    if (asked->adds && !inbox_is_empty())
        return Py_BuildValue("(s[])", "the session is in use again");
    return PyObject_CallFunction(runtime.save, "OOi", path, asked->whole ? Py_True : Py_False,
                                 asked->adds ? descriptors_channel() : -1);
}

static PyObject *move_muted(MessageKind kind, PyObject *path, const MsgSaveCell *asked)
{
    mute_output();
    PyObject *answer = kind == MSG_SAVE ? save(path, asked) : PyObject_CallOneArg(runtime.load, path);
    if (!is_answer(answer)) {
        Py_XDECREF(answer);
        answer = failed();
        PyErr_Clear();
    }
    unmute_output();
    return answer;
}

/* Answers `save` or `load` with the message id `id`; limpet_saving does the work. With the GIL. A negative
 * errno when the supervisor is gone. */
static int variables_move(MessageKind kind, uint64_t id, const MsgSaveCell *asked)
{
    _pyref_ PyObject *path =
        PyUnicode_DecodeUTF8(asked->path.data, (Py_ssize_t)asked->path.size, "surrogateescape");
    _pyref_ PyObject *answer = path ? move_muted(kind, path, asked) : NULL;

    if (!answer)
        return -ENOMEM;
    PyObject *error = PyTuple_GET_ITEM(answer, 0);
    return reply_moved(kind, id, error == Py_None ? NULL : error, PyTuple_GET_ITEM(answer, 1));
}

static int handle_execute(const Message *message, int fds[CHANNEL_FDS])
{
    MsgCell request;
    Problem problem = PROBLEM_NULL;
    Buf reply _cleanup_(buf_deinit) = REPLY_NULL;
    int r = body_decode(&request, MsgCell, &message->body, &problem);

    if (r < 0)
        return r;
    r = cell_run(&(CellRequest){message->id, request.execution_count, request.asks, request.script,
                                request.last, request.code},
                 &reply);
    return r < 0 ? r : reply_send(&reply);
}

/* The channel of the copy comes with it. */
static int handle_checkpoint(const Message *message, int fds[CHANNEL_FDS])
{
    MsgFreeze request;
    Problem problem = PROBLEM_NULL;
    int r = body_decode(&request, MsgFreeze, &message->body, &problem);

    return r < 0 ? r : checkpoint_take(message->id, take_fd(&fds[0]), request.automatic);
}

static int handle_namespace(const Message *message, int fds[CHANNEL_FDS])
{
    Problem problem = PROBLEM_NULL;
    MsgNothing nothing;
    int r = body_decode(&nothing, MsgNothing, &message->body, &problem);

    return r < 0 ? r : reply_namespace(message->id);
}

static int handle_prepare(const Message *message, int fds[CHANNEL_FDS])
{
    MsgPrepare request;
    Problem problem = PROBLEM_NULL;
    int r = body_decode(&request, MsgPrepare, &message->body, &problem);

    return r < 0 ? r : prepare(message->id, &request);
}

static int handle_save(const Message *message, int fds[CHANNEL_FDS])
{
    MsgSaveCell request;
    Problem problem = PROBLEM_NULL;
    int r = body_decode(&request, MsgSaveCell, &message->body, &problem);

    return r < 0 ? r : variables_move(message->kind, message->id, &request);
}

/* Its question has been given up. */
static int handle_answer(const Message *message, int fds[CHANNEL_FDS])
{
    return 0;
}

/* Each takes the descriptors it uses. A negative errno ends the interpreter. */
static const struct {
    MessageKind kind;
    int (*handle)(const Message *message, int fds[CHANNEL_FDS]);
} handlers[] = {
    {MSG_EXECUTE, handle_execute}, {MSG_CHECKPOINT, handle_checkpoint}, {MSG_NAMESPACE, handle_namespace},
    {MSG_ANSWER, handle_answer},   {MSG_PREPARE, handle_prepare},       {MSG_SAVE, handle_save},
    {MSG_LOAD, handle_save},
};

static int serve_frame(const ChannelFrame *frame, int fds[CHANNEL_FDS])
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    int r = message_decode(&message, frame->data, frame->size, &problem);

    if (r < 0)
        return r;
    /* New standard output and standard error may come with any message but that which brings a channel. */
    if (message.kind != MSG_CHECKPOINT)
        descriptors_replace((int[]){take_fd(&fds[0]), take_fd(&fds[1])});
    for (size_t i = 0; i < ARRAY_SIZE(handlers); i++) {
        if (handlers[i].kind == message.kind)
            return handlers[i].handle(&message, fds);
    }
    return -EPROTO;
}

int serve(void)
{
    ChannelFrame frame;
    int fds[CHANNEL_FDS], r;

    do {
        guard_end_runtime();
        rest();
        PyThreadState *saved = PyEval_SaveThread();
        r = inbox_next(&frame, fds);
        PyEval_RestoreThread(saved);
        if (r < 0)
            return r;
        r = serve_frame(&frame, fds);
        for (size_t i = 0; i < CHANNEL_FDS; i++)
            close_fd(&fds[i]);
    } while (r == 0);
    return r;
}
