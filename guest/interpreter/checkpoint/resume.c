#include "guest/interpreter/checkpoint/frozen_main.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>

#include "guest/interpreter/link.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/checkpoint/children.h"
#include "guest/interpreter/checkpoint/fork.h"
#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/memory.h"
#include "guest/interpreter/output.h"

/* The global generators of random numbers across a fork, where Python seeds that of `random` anew. */
typedef struct Generators {
    PyObject *type, *generator, *state, *gauss_next; /* of `random`; NULL where it is not imported */
} Generators;

static PyObject *of_module(const char *module_name, const char *name)
{
    PyObject *module = PyDict_GetItemString(runtime.modules, module_name);

    return module && PyModule_Check(module) ? PyDict_GetItemString(PyModule_GetDict(module), name) : NULL;
}

/* In a fork, before Python learns of it. Calls methods of the type in C, so that no Python code runs. */
static void generators_keep(Generators *ret)
{
    PyObject *type = of_module("_random", "Random"), *generator = of_module("random", "_inst");

    *ret = (Generators){0};
    if (!type || !generator || !PyType_Check(type) || !PyObject_TypeCheck(generator, (PyTypeObject *)type))
        return;
    ret->type = Py_NewRef(type);
    ret->generator = Py_NewRef(generator);
    ret->state = PyObject_CallMethod(type, "getstate", "O", generator);
    ret->gauss_next = PyObject_GetAttrString(generator, "gauss_next");
    PyErr_Clear();
}

static void forget(PyObject *result)
{
    Py_XDECREF(result);
    PyErr_Clear();
}

/* After it has: they go on where they were, or are seeded anew, those of NumPy too. */
static void generators_restore(const Generators *generators)
{
    if (generators->state)
        forget(PyObject_CallMethod(generators->type, "setstate", "OO", generators->generator,
                                   generators->state));
    if (generators->gauss_next)
        PyObject_SetAttrString(generators->generator, "gauss_next", generators->gauss_next);
    PyErr_Clear();
}

/* OpenSSL takes a fork for one by the number of the process, which others have in other sandboxes. */
static void openssl_seed(void)
{
    PyObject *add = of_module("_ssl", "RAND_add");
    char bytes[32];

    if (add && PyCFunction_Check(add) && getrandom(bytes, sizeof(bytes), 0) == sizeof(bytes))
        forget(PyObject_CallFunction(add, "y#d", bytes, (Py_ssize_t)sizeof(bytes), (double)sizeof(bytes)));
}

static void generators_seed(const Generators *generators)
{
    PyObject *numpy_seed = of_module("numpy.random.mtrand", "seed");

    if (generators->type) {
        forget(PyObject_CallMethod(generators->type, "seed", "O", generators->generator));
        PyObject_SetAttrString(generators->generator, "gauss_next", Py_None);
        PyErr_Clear();
    }
    if (numpy_seed)
        forget(PyObject_CallNoArgs(numpy_seed));
    openssl_seed();
}

static void generators_deinit(Generators *generators)
{
    Py_CLEAR(generators->type);
    Py_CLEAR(generators->generator);
    Py_CLEAR(generators->state);
    Py_CLEAR(generators->gauss_next);
}

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

/* asyncio's record of the loop that runs in a thread, up to Python 3.13. In another process it is void. */
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

/* Renews how Python calls its threads beside their identity, as the kernel does, and the process that loops
 * of asyncio run in. In a copy, whose threads have been made again. With the GIL; runs no code of the cells.
 */
static void nativeids_renew(void)
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

/* Without threads Python learns that it was forked, twice in fact, and runs what os.register_at_fork() was
 * given. */
static void revive_alone(bool branched)
{
    Generators generators _cleanup_(generators_deinit);
    int collecting = PyGC_Disable();

    generators_keep(&generators);
    if (collecting)
        PyGC_Enable();
    PyOS_AfterFork_Child();
    if (branched)
        generators_seed(&generators);
    else
        generators_restore(&generators);
}

/* With them it goes on. */
static void revive_with_threads(bool branched)
{
    Generators generators _cleanup_(generators_deinit);

    nativeids_renew();
    generators_keep(&generators);
    if (branched)
        generators_seed(&generators);
}

static int decode(const Restore *restore, MsgRestore *ret)
{
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Problem problem = PROBLEM_NULL;
    int r = message_decode(&message, restore->bytes, restore->size, &problem);

    if (r < 0)
        return r;
    return body_decode(ret, MsgRestore, &message.body, &problem);
}

/* Until the threads go on nothing may allocate. */
static int take_place(CheckpointInfo *copied, const Restore *restore)
{
    setsid();
    prctl(PR_SET_DUMPABLE, 1);
    inbox_clear();
    descriptors_attach(restore->fds);
    if (copied->with_threads)
        sinks_enter(restore->fds[RESTORE_RINGS]);
    else if (restore->fds[RESTORE_RINGS] >= 0)
        sinks_share(restore->fds[RESTORE_RINGS]);
    openfiles_restore(&copied->files, &copied->notes);
    descriptors_spare_keep();
    oom_score_live();
    int r = sharedmemory_enter(&copied->shared, &copied->notes);
    if (r == 0)
        r = fork_adopted(copied->supervisor);
    if (r < 0)
        return r;
    run_adopt();
    if (copied->with_threads)
        threads_go_on();
    return 0;
}

int resume(CheckpointInfo *copied, const Restore *restore)
{
    _pyref_ PyObject *memory = NULL;
    MsgRestore said;
    int r = take_place(copied, restore);

    if (r == 0)
        r = decode(restore, &said);
    if (r < 0)
        return r;
    pthread_sigmask(SIG_SETMASK, &copied->mask, NULL);
    children_end();
    if (copied->with_threads)
        revive_with_threads(said.branched);
    else
        revive_alone(said.branched);
    guard_begin_runtime();
    if (said.memory)
        memory = PyObject_CallOneArg(runtime.holders, runtime.main_dict);
    PyErr_Clear();
    return reply_ready(restore->id, &copied->notes, memory);
}
