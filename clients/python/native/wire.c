/* Wire: one connection's bytes. The Python that holds it opens the socket, shakes hands and deals with the
 * messages; see limpet/_connection/_pure.py, which is the same in Python and has the contracts of the
 * methods. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "clients/python/native/native.h"
#include "proto/limits.h"
#include "proto/zmtp.h"

#define SPACE_SIZE   ((size_t)64 << 10)
#define READ_SIZE    (LIMIT_CHUNK + ((size_t)4 << 10)) /* a whole output message with what is around it */
#define FRAME_HEADER 9u

typedef struct Wire {
    PyObject_HEAD Native *native;
    PyObject *module; /* keeps `native` */
    PyObject *space;  /* bytearray: what the socket's own methods read into */
    Zmtp zmtp;
    Buf in, out;
    uint64_t reads; /* counts them */
    bool busy;      /* a thread waits with it, without the GIL */
} Wire;

static PyObject *wire_new(PyTypeObject *type, PyObject *arguments, PyObject *named)
{
    PyObject *module = PyType_GetModule(type);
    unsigned long long limit;
    Wire *wire;

    if (!module || !PyArg_ParseTuple(arguments, "K", &limit))
        return NULL;
    wire = (Wire *)PyType_GenericAlloc(type, 0);
    if (!wire)
        return NULL;
    wire->native = native_of(module);
    Py_INCREF(module);
    wire->module = module;
    wire->space = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)SPACE_SIZE);
    if (zmtp_init(&wire->zmtp, ZMTP_DEALER, (size_t)limit, &wire->out) < 0)
        PyErr_NoMemory();
    if (PyErr_Occurred()) {
        Py_DECREF(wire);
        return NULL;
    }
    return (PyObject *)wire;
}

static void wire_free(PyObject *self)
{
    Wire *wire = (Wire *)self;
    PyTypeObject *type = Py_TYPE(self);

    buf_deinit(&wire->in);
    buf_deinit(&wire->out);
    Py_XDECREF(wire->space);
    Py_XDECREF(wire->module);
    PyObject_Free(self);
    Py_DECREF(type);
}

/* A connection belongs to one thread at a time. */
static int check_idle(const Wire *wire)
{
    if (wire->busy)
        PyErr_SetString(PyExc_RuntimeError, "another thread waits with this connection");
    return wire->busy ? -1 : 0;
}

static PyObject *pending(PyObject *self, PyObject *none)
{
    Wire *wire = (Wire *)self;
    PyObject *bytes;

    if (check_idle(wire) < 0)
        return NULL;
    bytes = PyBytes_FromStringAndSize((const char *)buf_head(&wire->out), (Py_ssize_t)wire->out.size);
    if (bytes)
        buf_clear(&wire->out);
    return bytes;
}

static PyObject *space(PyObject *self, PyObject *none)
{
    return PyMemoryView_FromObject(((Wire *)self)->space);
}

static PyObject *received(PyObject *self, PyObject *argument)
{
    Wire *wire = (Wire *)self;
    Py_ssize_t size = PyLong_AsSsize_t(argument);

    if (PyErr_Occurred() || check_idle(wire) < 0)
        return NULL;
    if (size < 0 || size > PyByteArray_Size(wire->space)) {
        PyErr_SetString(PyExc_ValueError, "more than there was space for");
        return NULL;
    }
    if (buf_append(&wire->in, PyByteArray_AsString(wire->space), (size_t)size) < 0)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyObject *refuse_frame(const Wire *wire, ZmtpState state, int error)
{
    PyObject *mismatch = wire->native->protocol_mismatch;

    if (error == -EMSGSIZE)
        return PyErr_Format(mismatch, "the controller's socket: a frame over the limit of %zu bytes",
                            wire->zmtp.max_frame);
    if (error == -EPROTO)
        return PyErr_Format(mismatch, "the controller's socket: %s",
                            state == ZMTP_GREETING ? "not a ZMTP peer" : "not ZMTP as Limpet speaks it");
    return PyErr_NoMemory();
}

static PyObject *decode_frame(const Wire *wire, const ZmtpFrame *frame)
{
    Native *native = wire->native;
    _cleanup_(message_deinit) Message message = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    PyObject *body;

    if (message_decode(&message, frame->data, frame->size, &problem) < 0)
        return problem.code == ERR_INTERNAL
                   ? PyErr_NoMemory()
                   : PyErr_Format(native->protocol_mismatch, "the controller sent what is no message: %s",
                                  problem.text);
    body = decode_map(&native->keys, &message.body);
    return body ? Py_BuildValue("iKN", (int)message.kind, (unsigned long long)message.id, body) : NULL;
}

static PyObject *next_message(Wire *wire)
{
    ZmtpState state = wire->zmtp.state;
    ZmtpFrame frame;
    PyObject *message;
    int r = zmtp_next(&wire->zmtp, &wire->in, &wire->out, &frame);

    if (r < 0)
        return refuse_frame(wire, state, r);
    if (r == 0)
        return NULL;
    message = decode_frame(wire, &frame);
    buf_consume(&wire->in, frame.used);
    return message;
}

/* The next message that has come whole; NULL without an exception when there is none. Making objects may run
 * finalizers, which find the wire busy. */
static PyObject *take_message(Wire *wire)
{
    PyObject *message;

    wire->busy = true;
    message = next_message(wire);
    wire->busy = false;
    return message;
}

static PyObject *or_none(PyObject *object)
{
    if (!object && !PyErr_Occurred())
        Py_RETURN_NONE;
    return object;
}

static PyObject *message(PyObject *self, PyObject *none)
{
    return check_idle((Wire *)self) < 0 ? NULL : or_none(take_message((Wire *)self));
}

/* A signal that came before the wait would not end it: its handler runs now. Whether there is still something
 * to wait for: the handler may have received for the caller. -1 with an exception that it has raised. */
static int check_signals(const Wire *wire)
{
    uint64_t reads = wire->reads;

    return PyErr_CheckSignals() < 0 ? -1 : wire->reads == reads;
}

/* Reads once, without the GIL. 0, or -1 with an exception; a signal's handler has run when nothing was read.
 */
static int fill(Wire *wire, int fd)
{
    int r = check_signals(wire), error;
    uint8_t *place;
    ssize_t n;

    if (r <= 0)
        return r;
    place = buf_reserve(&wire->in, READ_SIZE);
    if (!place) {
        PyErr_NoMemory();
        return -1;
    }
    wire->busy = true;
    Py_BEGIN_ALLOW_THREADS n = recv(fd, place, READ_SIZE, 0);
    error = errno;
    Py_END_ALLOW_THREADS wire->busy = false;
    wire->reads++;
    if (n > 0) {
        buf_commit(&wire->in, (size_t)n);
        return 0;
    }
    if (n < 0 && error == EINTR)
        return PyErr_CheckSignals();
    if (n == 0)
        PyErr_SetString(PyExc_ConnectionResetError, "it closed the connection");
    errno = error;
    if (n < 0)
        PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

static PyObject *receive_from(Wire *wire, int fd)
{
    PyObject *taken = take_message(wire);

    if (taken || PyErr_Occurred())
        return taken;
    return fill(wire, fd) < 0 ? NULL : or_none(take_message(wire));
}

static PyObject *receive(PyObject *self, PyObject *number)
{
    Wire *wire = (Wire *)self;
    int fd = (int)PyLong_AsLong(number);

    return PyErr_Occurred() || check_idle(wire) < 0 ? NULL : receive_from(wire, fd);
}

/* Turns an error in what the caller has given into BadRequest, which says why. */
static void refuse_values(const Native *native)
{
    PyObject *type, *value, *traceback;

    if (!PyErr_ExceptionMatches(PyExc_TypeError) && !PyErr_ExceptionMatches(PyExc_ValueError) &&
        !PyErr_ExceptionMatches(PyExc_OverflowError))
        return;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyErr_Format(native->bad_request, "this cannot be sent: %S", value);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
}

static int append_message(Buf *frame, unsigned kind, unsigned long long number, PyObject *body)
{
    Writer w;

    writer_init(&w, frame);
    write_array(&w, 4);
    write_uint(&w, PROTOCOL_VERSION);
    write_uint(&w, kind);
    write_uint(&w, number);
    if (encode_value(&w, body) < 0)
        return -1;
    if (writer_finish(&w) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    return 0;
}

static void check_size(const Native *native, size_t size)
{
    if (size > LIMIT_CLIENT_FRAME)
        PyErr_Format(native->too_large, "a request of %zu bytes is over the limit of %u", size,
                     LIMIT_CLIENT_FRAME);
}

/* Appends the frame of a message to `out`. 0, or -1 with an exception and nothing appended. */
static int append_frame(const Wire *wire, Buf *out, unsigned kind, unsigned long long number, PyObject *body)
{
    size_t before = out->size, mark;
    int r = zmtp_frame_begin(&wire->zmtp, out, &mark);

    if (r == -ENOTCONN)
        PyErr_SetString(PyExc_RuntimeError, "hands are not shaken yet");
    else if (r < 0)
        PyErr_NoMemory();
    if (r < 0)
        return -1;
    if (append_message(out, kind, number, body) < 0)
        refuse_values(wire->native);
    else
        check_size(wire->native, out->size - before - FRAME_HEADER);
    if (PyErr_Occurred()) {
        out->size = before;
        return -1;
    }
    zmtp_frame_end(out, mark);
    return 0;
}

static PyObject *encode(PyObject *self, PyObject *arguments)
{
    _cleanup_(buf_deinit) Buf frame = BUF_NULL;
    unsigned long long number;
    unsigned kind;
    PyObject *body;

    if (!PyArg_ParseTuple(arguments, "IKO", &kind, &number, &body) ||
        append_frame((Wire *)self, &frame, kind, number, body) < 0)
        return NULL;
    return PyBytes_FromStringAndSize((const char *)buf_head(&frame), (Py_ssize_t)frame.size);
}

/* Sends what goes at once. Without the GIL, as whoever it wakes may be a thread of this process, whose
 * signals are seen then before the wait begins. */
static void flush(Wire *wire, int fd)
{
    ssize_t n;

    wire->busy = true;
    Py_BEGIN_ALLOW_THREADS n = send(fd, buf_head(&wire->out), wire->out.size, MSG_DONTWAIT | MSG_NOSIGNAL);
    Py_END_ALLOW_THREADS wire->busy = false;
    if (n > 0)
        buf_consume(&wire->out, (size_t)n);
}

/* Sends a request and receives. Bytes that cannot be sent at once, for whatever reason, are left for
 * pending(). */
static PyObject *ask(PyObject *self, PyObject *arguments)
{
    Wire *wire = (Wire *)self;
    unsigned long long number;
    unsigned kind;
    PyObject *body;
    int fd;

    if (!PyArg_ParseTuple(arguments, "iIKO", &fd, &kind, &number, &body) || check_idle(wire) < 0 ||
        append_frame(wire, &wire->out, kind, number, body) < 0)
        return NULL;
    flush(wire, fd);
    if (wire->out.size > 0)
        Py_RETURN_NONE;
    return receive_from(wire, fd);
}

static PyObject *ready(PyObject *self, void *unused)
{
    return PyBool_FromLong(((Wire *)self)->zmtp.state == ZMTP_READY);
}

static PyMethodDef wire_methods[] = {
    {"pending", pending, METH_NOARGS, NULL}, {"encode", encode, METH_VARARGS, NULL},
    {"ask", ask, METH_VARARGS, NULL},        {"space", space, METH_NOARGS, NULL},
    {"received", received, METH_O, NULL},    {"message", message, METH_NOARGS, NULL},
    {"receive", receive, METH_O, NULL},      {NULL, NULL, 0, NULL},
};

static PyGetSetDef wire_attributes[] = {
    {"ready", ready, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot wire_slots[] = {
    {Py_tp_new, (void *)wire_new},
    {Py_tp_dealloc, (void *)wire_free},
    {Py_tp_methods, wire_methods},
    {Py_tp_getset, wire_attributes},
    {0, NULL},
};

PyType_Spec wire_spec = {
    .name = "limpet._native.Wire",
    .basicsize = sizeof(Wire),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = wire_slots,
};
