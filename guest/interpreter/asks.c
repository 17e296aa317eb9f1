#include "guest/interpreter/asks.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <time.h>

#include "guest/interpreter/link.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/output.h"
#include "guest/interpreter/values.h"
#include "proto/base/clock.h"
#include "proto/limits.h"
#include "proto/schema.h"

#define LOOK_MS 100

static struct {
    Waiter *first;
    size_t asking;
    uint64_t numbers; /* given to questions so far */
    bool reading;     /* one of the waiters is */
    int wake;         /* event that ends the reading of a thread with its cell; -1 until there is one */
    bool stopping;    /* the main thread waits until nobody reads */
    sem_t stopped;
} waiters = {.wake = -1};

static void wake_all(void)
{
    for (Waiter *waiter = waiters.first; waiter; waiter = waiter->next)
        sem_post(&waiter->woken);
}

static Waiter *find(uint64_t ask)
{
    for (Waiter *waiter = waiters.first; waiter; waiter = waiter->next) {
        if (waiter->state == WAITER_ASKING && waiter->ask == ask)
            return waiter;
    }
    return NULL;
}

/* Takes an answer; drops one that nobody waits for any more. */
static int take_answer(const ChannelFrame *frame)
{
    uint64_t ask;
    PyObject *answer;
    int r = answer_decode(frame, &ask, &answer);

    if (r < 0)
        return r;
    Waiter *waiter = find(ask);
    if (!waiter) {
        Py_DECREF(answer);
        return 0;
    }
    waiter->answer = answer;
    waiter->state = WAITER_ANSWERED;
    waiters.asking--;
    wake_all();
    return 0;
}

/* Only the end of the main thread's own waiting ends a cell. */
static int make_wake(void)
{
    if (waiters.wake >= 0 || PyThreadState_GetID(PyThreadState_Get()) == run.main_thread)
        return 0;
    _cleanup_(closep) int fd = eventfd(0, EFD_CLOEXEC);
    int high = fd < 0 ? -errno : descriptors_duplicate(fd);
    waiters.wake = MAX(high, -1);
    return MIN(high, 0);
}

static int fail(int r)
{
    errno = -r;
    PyErr_SetFromErrno(PyExc_OSError);
    return -1;
}

static int read_with_mask(ChannelFrame *frame, const sigset_t *mask)
{
    waiters.reading = true;
    PyThreadState *saved = PyEval_SaveThread();
    int r = inbox_wait(frame, waiters.wake, mask);
    PyEval_RestoreThread(saved);
    waiters.reading = false;
    if (waiters.stopping)
        sem_post(&waiters.stopped);
    else if (r == -ECANCELED)
        waiters.wake = -1; /* the cell has closed it, or put something else there */
    return r;
}

/* To be looked at after each look for signals: a handler may ask, too, and get what others wait for. */
static bool must_read(const Waiter *waiter)
{
    return waiter->state == WAITER_ASKING && !waiters.reading;
}

/* A signal that comes between the look for signals and the wait ends the wait. */
static int read_interruptibly(const Waiter *waiter, ChannelFrame *frame)
{
    sigset_t all, before;
    int r = -EINTR;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (PyErr_CheckSignals() == 0 && must_read(waiter))
        r = read_with_mask(frame, &before);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return r;
}

/* For all who wait: one message. */
static int read_message(const Waiter *waiter)
{
    ChannelFrame frame;
    int r = make_wake();

    if (r == 0)
        r = read_interruptibly(waiter, &frame);
    if (r == 0)
        r = take_answer(&frame);
    if (PyErr_Occurred())
        return -1;
    return r == 0 || r == -EINTR || r == -ECANCELED ? 0 : fail(r);
}

/* Another thread reads. There is no wait for a semaphore that a signal right before it ends, so that the look
 * for signals comes again soon. */
static void sleep_until_woken(Waiter *waiter)
{
    struct timespec soon;
    PyThreadState *saved = PyEval_SaveThread();

    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += LOOK_MS * NSEC_PER_MSEC;
    soon.tv_sec += soon.tv_nsec / NSEC_PER_SEC;
    soon.tv_nsec %= NSEC_PER_SEC;
    sem_timedwait(&waiter->woken, &soon);
    PyEval_RestoreThread(saved);
}

static int check_end(const Waiter *waiter)
{
    if (waiter->state != WAITER_ENDED)
        return 0;
    PyErr_SetString(PyExc_RuntimeError, "the cell that asked has ended: nobody answers any more");
    return -1;
}

/* Waits for the turn to ask; then gives the question its number. Must be left in any case. All but leaving:
 * 0, or -1 with an exception, such as a KeyboardInterrupt. */
static int waiter_enter(Waiter *waiter)
{
    *waiter = (Waiter){.next = waiters.first};
    sem_init(&waiter->woken, 0, 0);
    waiters.first = waiter;
    while (waiter->state == WAITER_QUEUED && waiters.asking >= LIMIT_ASKS) {
        if (PyErr_CheckSignals() < 0)
            return -1;
        sleep_until_woken(waiter);
    }
    if (check_end(waiter) < 0)
        return -1;
    waiter->state = WAITER_ASKING;
    waiter->ask = ++waiters.numbers;
    waiters.asking++;
    return 0;
}

static int waiter_wait(Waiter *waiter)
{
    while (waiter->state == WAITER_ASKING) {
        if (PyErr_CheckSignals() < 0 || (must_read(waiter) && read_message(waiter) < 0))
            return -1;
        if (waiter->state == WAITER_ASKING && waiters.reading)
            sleep_until_woken(waiter);
    }
    return check_end(waiter);
}

static void waiter_leave(Waiter *waiter)
{
    for (Waiter **link = &waiters.first; *link; link = &(*link)->next) {
        if (*link == waiter) {
            *link = waiter->next;
            break;
        }
    }
    if (waiter->state == WAITER_ASKING)
        waiters.asking--;
    Py_CLEAR(waiter->answer);
    sem_destroy(&waiter->woken);
    wake_all();
}

/* Until the thread that reads has noticed. */
static void stop_reading(void)
{
    waiters.stopping = true;
    sem_init(&waiters.stopped, 0, 0);
    eventfd_write(waiters.wake, 1);
    PyThreadState *saved = PyEval_SaveThread();
    while (sem_wait(&waiters.stopped) < 0)
        ;
    PyEval_RestoreThread(saved);
    waiters.stopping = false;
}

void waiters_end(void)
{
    for (Waiter *waiter = waiters.first; waiter; waiter = waiter->next) {
        waiter->state = WAITER_ENDED;
        sem_post(&waiter->woken);
    }
    waiters.first = NULL;
    waiters.asking = 0;
    if (waiters.reading)
        stop_reading();
    close_fd(&waiters.wake);
}

static PyObject *make_error(const MsgAnswerError *error)
{
    return Py_BuildValue("((s#s#)O)", error->name.data, (Py_ssize_t)error->name.size, error->message.data,
                         (Py_ssize_t)error->message.size, Py_None);
}

static PyObject *make_value(Text payload)
{
    const char *why;
    _pyref_ PyObject *value = object_decode(payload.data, payload.size, &why);

    if (value)
        return Py_BuildValue("(OO)", Py_None, value);
    PyErr_Clear();
    return Py_BuildValue("((ss)O)", "ValueError", why, Py_None);
}

static int decode(const ChannelFrame *frame, Message *message, MsgAnswer *ret)
{
    Problem problem = PROBLEM_NULL;
    int r = message_decode(message, frame->data, frame->size, &problem);

    if (r < 0)
        return r;
    if (message->kind != MSG_ANSWER)
        return -EPROTO;
    r = body_decode(ret, MsgAnswer, &message->body, &problem);
    if (r == 0 && !ret->payload.data)
        ret->payload = (Text){"\xc0", 1}; /* nil */
    return r;
}

int answer_decode(const ChannelFrame *frame, uint64_t *ret_ask, PyObject **ret_answer)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    MsgAnswer answer;
    int r = decode(frame, &message, &answer);

    if (r < 0)
        return r;
    /* A collection may run a finalizer of the cells', which might ask, and read over the frame. */
    int collecting = PyGC_Disable();
    PyObject *made = answer.has_error ? make_error(&answer.error) : make_value(answer.payload);
    if (collecting)
        PyGC_Enable();
    if (!made) {
        PyErr_Clear();
        return -ENOMEM;
    }
    *ret_ask = answer.ask;
    *ret_answer = made;
    return 0;
}

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
