#include "guest/interpreter/checkpoint/nativeids.h"

#include <string.h>

#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/runtime.h"

static unsigned long native_id(unsigned long identity)
{
    bool is_this = identity == PyThread_get_thread_ident();

    return (unsigned long)(is_this ? gettid() : threads_number((pthread_t)identity));
}

/* As it is stored, past anything a class may do about it. */
static void renew(PyObject *identity, PyObject *thread)
{
    unsigned long number = PyLong_Check(identity) ? native_id(PyLong_AsUnsignedLong(identity)) : 0;
    _pyref_ PyObject *dict = number ? PyObject_GenericGetDict(thread, NULL) : NULL;
    _pyref_ PyObject *value = dict ? PyLong_FromUnsignedLong(number) : NULL;

    if (value)
        PyDict_SetItemString(dict, "_native_id", value);
    PyErr_Clear();
}

/* What asyncio keeps of the loop that runs in a thread, up to Python 3.13. In another process it would know
 * of none. */
typedef struct RunningLoop {
    PyObject_HEAD PyObject *loop;
    pid_t process;
} RunningLoop;

static void renew_loop(const PyThreadState *state)
{
    PyObject *held = state->dict ? PyDict_GetItemString(state->dict, "__asyncio_running_event_loop__") : NULL;

    if (held && strstr(Py_TYPE(held)->tp_name, "_RunningLoopHolder") &&
        Py_TYPE(held)->tp_basicsize == sizeof(RunningLoop))
        ((RunningLoop *)held)->process = getpid();
}

void nativeids_renew(void)
{
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    PyObject *module = PyDict_GetItemString(runtime.modules, "threading");
    PyObject *active =
        module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), "_active") : NULL;
    PyObject *identity, *thread;
    Py_ssize_t at = 0;

    for (; state; state = PyThreadState_Next(state)) {
        unsigned long number = native_id(state->thread_id);

        if (number)
            state->native_thread_id = number;
        renew_loop(state);
    }
    while (active && PyDict_Check(active) && PyDict_Next(active, &at, &identity, &thread))
        renew(identity, thread);
    PyErr_Clear();
}
