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
static PyObject *streams[2], *buffers[2];

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

static PyObject *text_write(PyObject *self, PyObject *str)
{
    Utf8 text _cleanup_(utf8_deinit) = UTF8_NULL;

    if (!PyUnicode_Check(str))
        return PyErr_Format(PyExc_TypeError, "write() argument must be str, not %.100s",
                            Py_TYPE(str)->tp_name);
    if (utf8_view(str, &text) < 0 || write_for_thread(state_of(self), text.data, text.size) < 0)
        return NULL;
    return PyLong_FromSsize_t(PyUnicode_GET_LENGTH(str));
}

static PyObject *binary_write(PyObject *self, PyObject *object)
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

static PyObject *stream_close(PyObject *self, PyObject *unused)
{
    return stream_flush(self, unused);
}

static PyObject *get_buffer(PyObject *self, void *unused)
{
    return Py_NewRef(buffers[state_of(self)->index]);
}

static PyObject *text_detach(PyObject *self, PyObject *unused)
{
    return get_buffer(self, NULL);
}

/* The encoding is fixed; asking for another is no reason to fail. */
static PyObject *text_reconfigure(PyObject *self, PyObject *args, PyObject *kwargs)
{
    return stream_flush(self, NULL);
}

static PyObject *stream_repr(PyObject *self)
{
    return PyUnicode_FromFormat("<%s %s>", Py_TYPE(self)->tp_name,
                                state_of(self)->index ? "stderr" : "stdout");
}

static PyObject *get_text(PyObject *self, void *text)
{
    return PyUnicode_FromString(text);
}

static PyObject *get_name(PyObject *self, void *unused)
{
    return PyUnicode_FromString(state_of(self)->index ? "<stderr>" : "<stdout>");
}

static PyObject *get_closed(PyObject *self, void *unused)
{
    return Py_NewRef(Py_False);
}

static PyObject *get_none(PyObject *self, void *unused)
{
    return Py_NewRef(Py_None);
}

#define COMMON_METHODS                                                                                       \
    {"flush", stream_flush, METH_NOARGS, NULL}, {"close", stream_close, METH_NOARGS, NULL},                  \
        {"fileno", stream_fileno, METH_NOARGS, NULL}, {"isatty", stream_no, METH_NOARGS, NULL},              \
        {"readable", stream_no, METH_NOARGS, NULL}, {"seekable", stream_no, METH_NOARGS, NULL},              \
    {                                                                                                        \
        "writable", stream_yes, METH_NOARGS, NULL                                                            \
    }

#define COMMON_ATTRIBUTES                                                                                    \
    {"closed", get_closed, NULL, NULL, NULL},                                                                \
    {                                                                                                        \
        "name", get_name, NULL, NULL, NULL                                                                   \
    }

static PyMethodDef text_methods[] = {
    COMMON_METHODS,
    {"write", text_write, METH_O, NULL},
    {"detach", text_detach, METH_NOARGS, NULL},
    {"reconfigure", (PyCFunction)(void (*)(void))text_reconfigure, METH_VARARGS | METH_KEYWORDS, NULL},
    {0},
};

static PyMethodDef binary_methods[] = {
    COMMON_METHODS,
    {"write", binary_write, METH_O, NULL},
    {0},
};

static PyGetSetDef text_attributes[] = {
    COMMON_ATTRIBUTES,
    {"buffer", get_buffer, NULL, NULL, NULL},
    {"encoding", get_text, NULL, NULL, (char[]){"utf-8"}},
    {"errors", get_text, NULL, NULL, (char[]){"backslashreplace"}},
    {"mode", get_text, NULL, NULL, (char[]){"w"}},
    {"line_buffering", get_closed, NULL, NULL, NULL},
    {"write_through", get_closed, NULL, NULL, NULL},
    {"newlines", get_none, NULL, NULL, NULL},
    {0},
};

static PyGetSetDef binary_attributes[] = {
    COMMON_ATTRIBUTES,
    {"mode", get_text, NULL, NULL, (char[]){"wb"}},
    {0},
};

static PyType_Slot text_slots[] = {
    {Py_tp_repr, stream_repr},
    {Py_tp_methods, text_methods},
    {Py_tp_getset, text_attributes},
    {0, NULL},
};

static PyType_Slot binary_slots[] = {
    {Py_tp_repr, stream_repr},
    {Py_tp_methods, binary_methods},
    {Py_tp_getset, binary_attributes},
    {0, NULL},
};

/* A type over one of Python's own stream types, which supplies what a stream that is only written has to
 * refuse (read, seek, iteration), context management, and a dictionary for attributes. */
static PyObject *make_type(PyObject *module, const char *name, const char *base_name, PyType_Slot *slots)
{
    _pyref_ PyObject *io = PyImport_ImportModule("_io");
    _pyref_ PyObject *base = io ? PyObject_GetAttrString(io, base_name) : NULL;

    if (!base)
        return NULL;

    Py_ssize_t size = ((PyTypeObject *)base)->tp_basicsize;

    if (state_offset && state_offset != size)
        return PyErr_Format(PyExc_SystemError, "the bases of streams differ in size");
    state_offset = size;
    PyType_Spec spec = {
        .name = name,
        .basicsize = (int)(size + (Py_ssize_t)sizeof(StreamState)),
        .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
        .slots = slots,
    };
    return PyType_FromModuleAndSpec(module, &spec, base);
}

static int make_objects(PyObject *type, PyObject *objects[2])
{
    for (size_t i = 0; i < 2; i++) {
        objects[i] = PyObject_CallNoArgs(type);
        if (!objects[i])
            return -1;
        *state_of(objects[i]) = (StreamState){.index = i};
    }
    return 0;
}

int stream_add_types(PyObject *module)
{
    _pyref_ PyObject *text = make_type(module, "_limpet.Stream", "_TextIOBase", text_slots);
    _pyref_ PyObject *binary = make_type(module, "_limpet.BinaryStream", "_BufferedIOBase", binary_slots);

    if (!text || !binary || make_objects(binary, buffers) < 0 || make_objects(text, streams) < 0)
        return -1;
    if (PyModule_AddType(module, (PyTypeObject *)text) < 0 ||
        PyModule_AddType(module, (PyTypeObject *)binary) < 0)
        return -1;
    return 0;
}
