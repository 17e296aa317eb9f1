#include "guest/interpreter/output.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "guest/interpreter/runtime.h"
#include "guest/interpreter/values.h"
#include "proto/base/base.h"

Sink sinks[2];

/* Rings of a process that shares none: never touched in an interpreter. */
static Rings own;
static Rings *shared;

static uint64_t position(const _Atomic uint64_t *which)
{
    return atomic_load_explicit(which, memory_order_acquire);
}

static size_t unmarked(const Sink *sink)
{
    return (size_t)(position(&sink->ring->head) - MAX(position(&sink->ring->tail), position(&sink->marked)));
}

static void ring_put(Ring *ring, uint64_t head, const uint8_t *bytes, size_t n)
{
    size_t at = (size_t)((head - position(&ring->start)) % RING_SPACE);
    size_t first = MIN(n, RING_SPACE - at);

    memcpy(ring->space + at, bytes, first);
    memcpy(ring->space, bytes + first, n - first);
    atomic_store_explicit(&ring->head, head + n, memory_order_release);
}

bool sink_append(Sink *sink, const void *bytes, size_t n)
{
    Ring *ring = sink->ring;
    bool fits;

    pthread_mutex_lock(&sink->lock);
    uint64_t head = position(&ring->head), tail = position(&ring->tail);

    fits = n <= RING_SPACE - (head - tail);
    if (fits && head == tail) /* so that little output stays on few pages */
        atomic_store_explicit(&ring->start, head, memory_order_release);
    if (fits)
        ring_put(ring, head, bytes, n);
    pthread_mutex_unlock(&sink->lock);
    return fits;
}

/* Returns whether it is to be flushed before more comes; `bytes` were appended last. */
static bool sink_is_due(const Sink *sink, const void *bytes, size_t n)
{
    return unmarked(sink) >= RING_SPACE / 2 || (!sink->shared && memchr(bytes, '\n', n));
}

/* Writes once. What nobody reads any more counts as written. Whoever has the descriptor too may have made it
 * one that does not wait. */
static ssize_t write_once(int fd, const void *bytes, size_t n)
{
    ssize_t r;

    while ((r = write(fd, bytes, n)) < 0 && errno == EAGAIN)
        if (poll(&(struct pollfd){.fd = fd, .events = POLLOUT}, 1, -1) < 0)
            return -EINTR;
    if (r < 0 && errno == EINTR)
        return -EINTR;
    return r < 0 ? (ssize_t)n : r;
}

static ssize_t write_mark(const Sink *sink, uint64_t head)
{
    RingMark mark = {.position = head};

    memcpy(mark.nonce, sink->ring->nonce, sizeof(mark.nonce));
    return write_once(sink->fd, &mark, sizeof(mark));
}

/* With the turn; what is not shared. */
static int write_content(Sink *sink)
{
    Ring *ring = sink->ring;

    while (unmarked(sink) > 0) {
        uint64_t tail = position(&ring->tail);
        size_t at = (size_t)((tail - position(&ring->start)) % RING_SPACE);
        ssize_t n = write_once(sink->fd, ring->space + at, MIN(unmarked(sink), RING_SPACE - at));

        if (n < 0)
            return (int)n;
        atomic_store_explicit(&ring->tail, tail + (size_t)n, memory_order_release);
    }
    return 0;
}

static int flush_with_turn(Sink *sink)
{
    uint64_t head = position(&sink->ring->head);

    if (!sink->shared)
        return write_content(sink);
    if (unmarked(sink) == 0)
        return 0;

    ssize_t n = write_mark(sink, head);
    if (n < 0)
        return (int)n;
    atomic_store_explicit(&sink->marked, head, memory_order_release);
    return 0;
}

/* Flushes; what cannot be written because nobody reads any more is dropped. 0, or -EINTR after a signal, with
 * the rest kept for the next flush. */
static int sink_flush(Sink *sink)
{
    if (sem_wait(&sink->turn) < 0)
        return -EINTR;
    int r = flush_with_turn(sink);
    sem_post(&sink->turn);
    return r;
}

/* Writes bytes for which there is no room: flushes, and writes once to the descriptor itself. Returns how
 * many are gone, those that nobody reads any more included, or -EINTR after a signal. */
static ssize_t sink_write(Sink *sink, const void *bytes, size_t n)
{
    ssize_t r;

    if (sem_wait(&sink->turn) < 0)
        return -EINTR;
    r = flush_with_turn(sink);
    r = r < 0 ? r : write_once(sink->fd, bytes, n);
    sem_post(&sink->turn);
    return r;
}

void sinks_flush(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        while (sink_flush(&sinks[i]) == -EINTR)
            ;
    }
}

static void take_turn(Sink *sink)
{
    while (sem_wait(&sink->turn) < 0)
        ;
}

void sinks_hand_over(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        take_turn(&sinks[i]);
        while (!sinks[i].shared && flush_with_turn(&sinks[i]) == -EINTR)
            ;
        sem_post(&sinks[i].turn);
    }
}

/* ---- fatal signals ---- */

static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
static struct sigaction before_fatal[ARRAY_SIZE(fatal)];

/* Writes a mark for what has none. faulthandler, which writes to the descriptor itself, is let in at once,
 * and ends the process. */
static void on_fatal(int number)
{
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        if (sinks[i].shared && unmarked(&sinks[i]) > 0)
            write_mark(&sinks[i], position(&sinks[i].ring->head));
    }
    for (size_t i = 0; i < ARRAY_SIZE(fatal); i++) {
        if (fatal[i] == number)
            sigaction(number, &before_fatal[i], NULL);
    }
    raise(number);
}

void sinks_mark_before_crashes(void)
{
    struct sigaction action = {.sa_handler = on_fatal, .sa_flags = SA_ONSTACK | SA_NODEFER};

    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < ARRAY_SIZE(fatal); i++)
        sigaction(fatal[i], &action, &before_fatal[i]);
}

/* ---- forks ---- */

void sinks_hold(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        take_turn(&sinks[i]);
        while (flush_with_turn(&sinks[i]) == -EINTR)
            ;
        pthread_mutex_lock(&sinks[i].lock);
    }
}

void sinks_let_go(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        pthread_mutex_unlock(&sinks[i].lock);
        sem_post(&sinks[i].turn);
    }
}

/* The rings, empty. */
static void point(Rings *rings, bool are_shared)
{
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        Sink *sink = &sinks[i];

        sink->ring = &rings->ring[i];
        sink->shared = are_shared;
        sink->marked = 0;
        if (!are_shared)
            sink->ring->head = sink->ring->start = sink->ring->tail = 0;
    }
}

/* With locks that nobody has. */
static void use(Rings *rings, bool are_shared)
{
    point(rings, are_shared);
    for (size_t i = 0; i < ARRAY_SIZE(sinks); i++) {
        pthread_mutex_init(&sinks[i].lock, NULL);
        sem_init(&sinks[i].turn, 0, 1);
    }
}

/* Begins a child, whose output is no longer the interpreter's. */
void sinks_begin_child(void)
{
    if (shared)
        munmap(shared, sizeof(*shared));
    shared = NULL;
    use(&own, false);
}

/* Maps the rings, which are taken, at `at` if that is not NULL. NULL for what is none. */
static Rings *map_rings(int rings, Rings *at)
{
    struct stat st;
    bool right = fstat(rings, &st) == 0 && st.st_size == sizeof(Rings);
    int flags = MAP_SHARED | (at ? MAP_FIXED : 0);
    void *map = right ? mmap(at, sizeof(Rings), PROT_READ | PROT_WRITE, flags, rings, 0) : MAP_FAILED;

    if (right)
        close(rings);
    return map == MAP_FAILED ? NULL : map;
}

/* Other threads may have looked where the rings are, and go on later: the place stays. */
void sinks_leave(void)
{
    if (shared && mmap(shared, sizeof(*shared), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        _exit(EXIT_FAILURE);
    point(shared ? shared : &own, false);
}

void sinks_enter(int rings)
{
    Rings *map = map_rings(rings, shared);

    if (map)
        point(shared = map, true);
    sinks_let_go();
}

/* ---- starting ---- */

void sinks_share(int rings)
{
    Rings *map = map_rings(rings, NULL);

    if (map)
        use(shared = map, true);
}

int sinks_init(int out_fd, int err_fd, int rings)
{
    sinks[0].fd = out_fd;
    sinks[1].fd = err_fd;
    use(&own, false);
    sinks_share(rings);
    return -pthread_atfork(sinks_hold, sinks_let_go, sinks_begin_child);
}

/* ---- the streams of Python ---- */

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

static PyMethodDef stream_methods[] = {
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
    {Py_tp_methods, stream_methods},
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
