/* An audit hook would be told as well, but also of each id() and sys._getframe(), which it makes two and four
 * times as slow. */
#include "guest/interpreter/starters.h"

#include "guest/interpreter/run.h"
#include "guest/interpreter/stream.h"

/* The ways in which Python calls a function in C. */
typedef PyObject *(*Plain)(PyObject *module, PyObject *args);
typedef PyObject *(*Fast)(PyObject *module, PyObject *const *args, Py_ssize_t n);
typedef PyObject *(*Named)(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names);

#define STARTERS(X)                                                                                          \
    X(posix, fork)                                                                                           \
    X(posix, forkpty)                                                                                        \
    X(posix, system)                                                                                         \
    X(posix, posix_spawn)                                                                                    \
    X(posix, posix_spawnp)                                                                                   \
    X(posix, execv)                                                                                          \
    X(posix, execve)                                                                                         \
    X(_posixsubprocess, fork_exec)

#define INDEX(module, name) STARTER_##name,
enum { STARTERS(INDEX) STARTERS_COUNT };

typedef void (*Function)(void);

static Function originals[STARTERS_COUNT];

/* False with an exception. */
static bool is_noted(void)
{
    if (!stream_object(1))
        return true;
    run_note_child();
    return stream_flush_all() == 0;
}

#define REPLACEMENTS(unused, name)                                                                           \
    static PyObject *name##_plain(PyObject *module, PyObject *args)                                          \
    {                                                                                                        \
        return is_noted() ? ((Plain)originals[STARTER_##name])(module, args) : NULL;                         \
    }                                                                                                        \
    static PyObject *name##_fast(PyObject *module, PyObject *const *args, Py_ssize_t n)                      \
    {                                                                                                        \
        return is_noted() ? ((Fast)originals[STARTER_##name])(module, args, n) : NULL;                       \
    }                                                                                                        \
    static PyObject *name##_named(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)    \
    {                                                                                                        \
        return is_noted() ? ((Named)originals[STARTER_##name])(module, args, n, names) : NULL;               \
    }
STARTERS(REPLACEMENTS)

#define ENTRY(module, name) {#module, #name, name##_plain, (Function)name##_fast, (Function)name##_named},
static const struct Starter {
    const char *module, *name;
    PyCFunction plain;
    Function fast, named;
} starters[] = {STARTERS(ENTRY)};

static Function replacement(const struct Starter *starter, int flags)
{
    switch (flags & (METH_VARARGS | METH_KEYWORDS | METH_NOARGS | METH_O | METH_FASTCALL | METH_METHOD)) {
    case METH_VARARGS:
    case METH_NOARGS:
    case METH_O:
        return (Function)starter->plain;
    case METH_FASTCALL:
        return starter->fast;
    case METH_FASTCALL | METH_KEYWORDS:
        return starter->named;
    default:
        return NULL;
    }
}

/* In the description that all objects of the function share: that of a module imported anew too. */
static int watch(size_t i)
{
    const struct Starter *starter = &starters[i];
    _pyref_ PyObject *module = PyImport_ImportModule(starter->module);
    _pyref_ PyObject *function = module ? PyObject_GetAttrString(module, starter->name) : NULL;

    if (!function)
        return -1;
    PyMethodDef *method = PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml : NULL;
    Function ours = method ? replacement(starter, method->ml_flags) : NULL;
    if (!ours) {
        PyErr_Format(PyExc_SystemError, "%s.%s is no function of a known kind", starter->module,
                     starter->name);
        return -1;
    }
    originals[i] = (Function)method->ml_meth;
    method->ml_meth = (PyCFunction)ours;
    return 0;
}

int starters_watch(void)
{
    for (size_t i = 0; i < STARTERS_COUNT; i++) {
        if (watch(i) < 0)
            return -1;
    }
    return 0;
}
