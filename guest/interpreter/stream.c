#include "guest/interpreter/stream.h"

#include <errno.h>
#include <stdio.h>

#include "guest/interpreter/run.h"
#include "guest/interpreter/output.h"
#include "guest/interpreter/values.h"

/* State of a stream beyond the part of its base, whose size only the running Python knows. */
typedef struct StreamState {
    size_t index; /* of its sink; 0, which is standard output, in objects a cell makes itself */
} StreamState;

static Py_ssize_t state_offset;
static PyObject *streams[2];

static StreamState *state_of(PyObject *self)
{
    return (StreamState *)((char *)self + state_offset);
}

PyObject *stream_object(int fd)
{
    return streams[fd - 1];
}

/* At once as much as a pipe holds, so that the looks for signals between come soon. */
#define WRITE_SIZE ((size_t)64 << 10)

/* Looks for signals after each flush: a reader that takes a little at a time lets no write() end with EINTR.
 */
static int flush_sink(Sink *sink)
{
    int r;

    do {
        PyThreadState *saved = PyEval_SaveThread();
        r = sink_flush(sink);
        PyEval_RestoreThread(saved);
        if (PyErr_CheckSignals() < 0)
            return -1;
    } while (r == -EINTR);
    return 0;
}

/* *done grows by what is gone. -1 with the exception of a signal's handler. */
static int write_part(Sink *sink, const char *bytes, size_t size, size_t *done)
{
    PyThreadState *saved = PyEval_SaveThread();
    ssize_t n = sink_write(sink, bytes + *done, MIN(size - *done, WRITE_SIZE));

    PyEval_RestoreThread(saved);
    *done += n > 0 ? (size_t)n : 0;
    return PyErr_CheckSignals();
}

static int write_for_thread(const StreamState *state, const char *bytes, size_t size)
{
    Sink *sink = &sinks[state->index];
    size_t done = 0;

    if (!run_admits())
        return 0;
    while (done < size) {
        if (done == 0 && sink_append(sink, bytes, size))
            return sink_is_due(sink, bytes, size) ? flush_sink(sink) : 0;
        if (write_part(sink, bytes, size, &done) < 0)
            return -1;
    }
    return 0;
}

int stream_flush_all(void)
{
    return flush_sink(&sinks[0]) < 0 || flush_sink(&sinks[1]) < 0 ? -1 : 0;
}

static PyObject *stream_write(PyObject *self, PyObject *object)
{
    Py_buffer view;

    if (PyUnicode_Check(object))
        return PyErr_Format(PyExc_TypeError, "a bytes-like object is required, not 'str'");
    if (PyObject_GetBuffer(object, &view, PyBUF_SIMPLE) < 0)
        return NULL;

    int r = write_for_thread(state_of(self), view.buf, (size_t)view.len);
    Py_ssize_t size = view.len;

    PyBuffer_Release(&view);
    return r < 0 ? NULL : PyLong_FromSsize_t(size);
}

static PyObject *stream_flush(PyObject *self, PyObject *unused)
{
    return flush_sink(&sinks[state_of(self)->index]) < 0 ? NULL : Py_NewRef(Py_None);
}

static PyObject *stream_fileno(PyObject *self, PyObject *unused)
{
    return PyLong_FromSize_t(state_of(self)->index + 1);
}

static PyObject *stream_no(PyObject *self, PyObject *unused)
{
    return Py_NewRef(Py_False);
}

static PyObject *stream_yes(PyObject *self, PyObject *unused)
{
    return Py_NewRef(Py_True);
}

static PyObject *stream_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<%s %s>", Py_TYPE(self)->tp_name,
                                state_of(self)->index ? "stderr" : "stdout");
}

static PyObject *get_mode(PyObject *self, void *unused)
{
    return PyUnicode_FromString("wb");
}

static PyObject *get_name(PyObject *self, void *unused)
{
    return PyUnicode_FromString(state_of(self)->index ? "<stderr>" : "<stdout>");
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    return Py_NewRef(Py_False);
}

static PyMethodDef methods[] = {
    {"write", stream_write, METH_O, NULL},
    {"flush", stream_flush, METH_NOARGS, NULL},
    {"close", stream_flush, METH_NOARGS, NULL},
    {"fileno", stream_fileno, METH_NOARGS, NULL},
    {"isatty", stream_no, METH_NOARGS, NULL},
    {"readable", stream_no, METH_NOARGS, NULL},
    {"seekable", stream_no, METH_NOARGS, NULL},
    {"writable", stream_yes, METH_NOARGS, NULL},
    {0},
};

static PyGetSetDef attributes[] = {
    {"closed", get_closed, NULL, NULL, NULL},
    {"name", get_name, NULL, NULL, NULL},
    {"mode", get_mode, NULL, NULL, NULL},
    {0},
};

static PyType_Slot type_slots[] = {
    {Py_tp_repr, stream_repr},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {0, NULL},
};

/* Makes the type over Python's own, which supplies what a stream that is only written has to refuse (read,
 * seek, iteration), context management, and a dictionary for attributes. */
static PyObject *make_type(PyObject *module)
{
    _pyref_ PyObject *io = PyImport_ImportModule("_io");
    _pyref_ PyObject *base = io ? PyObject_GetAttrString(io, "_BufferedIOBase") : NULL;

    if (!base)
        return NULL;
    state_offset = ((PyTypeObject *)base)->tp_basicsize;

    PyType_Spec spec = {
        .name = "_limpet.Stream",
        .basicsize = (int)(state_offset + (Py_ssize_t)sizeof(StreamState)),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = type_slots,
    };
    return PyType_FromModuleAndSpec(module, &spec, base);
}

int stream_add(PyObject *module)
{
    static const char *const names[] = {"stdout", "stderr"};
    _pyref_ PyObject *type = make_type(module);

    if (!type || PyModule_AddType(module, (PyTypeObject *)type) < 0)
        return -1;
    for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
        streams[i] = PyObject_CallNoArgs(type);
        if (!streams[i])
            return -1;
        *state_of(streams[i]) = (StreamState){.index = i};
        if (PyModule_AddObjectRef(module, names[i], streams[i]) < 0)
            return -1;
    }
    return 0;
}
