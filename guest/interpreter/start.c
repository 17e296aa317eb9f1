#include "guest/interpreter/start.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "guest/interpreter/run.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/memory.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/module.h"
#include "guest/interpreter/namespace_names.h"
#include "guest/interpreter/pyref.h"
#include "guest/interpreter/stream.h"
#include "proto/limits.h"

#ifdef LIMPET_FROZEN

static const struct _frozen modules[] = {
#include LIMPET_FROZEN
    {0},
};

/* Makes limpet_runtime part of the program: Python finds it there before it looks anywhere else.
 * Before Python begins. Does nothing in a build that has no Python to compile it. */
static void frozen_register(void)
{
    PyImport_FrozenModules = modules;
}

#else

static void frozen_register(void)
{
}

#endif

/* An audit hook would be told as well, but also of each id() and sys._getframe(), which it makes two and four
 * times as slow. */
/* The ways in which Python calls a function in C. */
typedef PyObject *(*Plain)(PyObject *module, PyObject *args);
typedef PyObject *(*Fast)(PyObject *module, PyObject *const *args, Py_ssize_t n);
typedef PyObject *(*Named)(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names);

#define HOOKED(X)                                                                                            \
    X(posix, fork)                                                                                           \
    X(posix, forkpty)                                                                                        \
    X(posix, system)                                                                                         \
    X(posix, posix_spawn)                                                                                    \
    X(posix, posix_spawnp)                                                                                   \
    X(posix, execv)                                                                                          \
    X(posix, execve)                                                                                         \
    X(_posixsubprocess, fork_exec)

#define INDEX(module, name) HOOK_##name,
enum { HOOKED(INDEX) HOOKS_COUNT };

typedef void (*Function)(void);

static Function originals[HOOKS_COUNT];

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
        return is_noted() ? ((Plain)originals[HOOK_##name])(module, args) : NULL;                            \
    }                                                                                                        \
    static PyObject *name##_fast(PyObject *module, PyObject *const *args, Py_ssize_t n)                      \
    {                                                                                                        \
        return is_noted() ? ((Fast)originals[HOOK_##name])(module, args, n) : NULL;                          \
    }                                                                                                        \
    static PyObject *name##_named(PyObject *module, PyObject *const *args, Py_ssize_t n, PyObject *names)    \
    {                                                                                                        \
        return is_noted() ? ((Named)originals[HOOK_##name])(module, args, n, names) : NULL;                  \
    }
HOOKED(REPLACEMENTS)

#define ENTRY(module, name) {#module, #name, name##_plain, (Function)name##_fast, (Function)name##_named},
static const struct SpawnHook {
    const char *module, *name;
    PyCFunction plain;
    Function fast, named;
} hooks[] = {HOOKED(ENTRY)};

static Function replacement(const struct SpawnHook *hook, int flags)
{
    switch (flags & (METH_VARARGS | METH_KEYWORDS | METH_NOARGS | METH_O | METH_FASTCALL | METH_METHOD)) {
    case METH_VARARGS:
    case METH_NOARGS:
    case METH_O:
        return (Function)hook->plain;
    case METH_FASTCALL:
        return hook->fast;
    case METH_FASTCALL | METH_KEYWORDS:
        return hook->named;
    default:
        return NULL;
    }
}

/* In the description that all objects of the function share: that of a module imported anew too. */
static int watch(size_t i)
{
    const struct SpawnHook *hook = &hooks[i];
    _pyref_ PyObject *module = PyImport_ImportModule(hook->module);
    _pyref_ PyObject *function = module ? PyObject_GetAttrString(module, hook->name) : NULL;

    if (!function)
        return -1;
    PyMethodDef *method = PyCFunction_Check(function) ? ((PyCFunctionObject *)function)->m_ml : NULL;
    Function ours = method ? replacement(hook, method->ml_flags) : NULL;
    if (!ours) {
        PyErr_Format(PyExc_SystemError, "%s.%s is no function of a known kind", hook->module, hook->name);
        return -1;
    }
    originals[i] = (Function)method->ml_meth;
    method->ml_meth = (PyCFunction)ours;
    return 0;
}

/* Once, when Python is initialised: before a process is started by any of them, that is noted and what was
 * printed comes out. What code sees of them stays as it is. -1 with an exception. */
static int spawn_hooks_install(void)
{
    for (size_t i = 0; i < HOOKS_COUNT; i++) {
        if (watch(i) < 0)
            return -1;
    }
    return 0;
}

static int fail_status(PyStatus status, Problem *problem)
{
    return problem_set(problem, ERR_INTERNAL, "Python does not start: %s%s%s", status.func ? status.func : "",
                       status.func ? ": " : "", status.err_msg ? status.err_msg : "no reason given");
}

/* With the exception that is set. */
static int fail_exception(const char *what, Problem *problem)
{
    PyErr_Print();
    return problem_set(problem, ERR_INTERNAL, "Python starts, but %s does not", what);
}

static int pre_initialise(Problem *problem)
{
    PyPreConfig config;

    PyPreConfig_InitPythonConfig(&config); /* variables of the environment count, as in python3 */
    config.parse_argv = 0;
    config.coerce_c_locale = 0;
    config.utf8_mode = 1; /* a container need not have a locale */
#ifdef __SANITIZE_ADDRESS__
    config.allocator = PYMEM_ALLOCATOR_MALLOC; /* Python's own hides overruns */
#endif
    PyStatus status = Py_PreInitialize(&config);
    if (PyStatus_Exception(status))
        return fail_status(status, problem);
#ifndef __SANITIZE_ADDRESS__
    arena_install();
#endif
    return 0;
}

static PyStatus set_options(PyConfig *config)
{
    config->parse_argv = 0;
    config->configure_c_stdio = 0;
    config->pathconfig_warnings = 0;
    config->write_bytecode = 0;
    config->faulthandler = 1; /* a crash says where in the code it was */
    /* The executable is that of the Python that was linked, not of whichever is first in PATH. */
    return PyConfig_SetBytesString(config, &config->executable, LIMPET_PYTHON_EXECUTABLE);
}

static int initialise(Problem *problem)
{
    PyConfig config;
    PyStatus status;

    PyConfig_InitPythonConfig(&config);
    status = set_options(&config);
    if (!PyStatus_Exception(status))
        status = Py_InitializeFromConfig(&config);
    PyConfig_Clear(&config);
    return PyStatus_Exception(status) ? fail_status(status, problem) : 0;
}

/* The folder with limpet_runtime: beside what this is in, or where `make install` and the build tree have it.
 * A new string, or NULL with a Problem. */
static char *find_sources(Problem *problem)
{
    static const char *const places[] = {"python", "../lib/limpet/python"};
    char probe[LIMIT_PATH];
    Dl_info self;
    const char *slash = dladdr(start_python, &self) ? strrchr(self.dli_fname, '/') : NULL;

    for (size_t i = 0; slash && i < ARRAY_SIZE(places); i++) {
        snprintf(probe, sizeof(probe), "%.*s/%s/limpet_runtime/..", (int)(slash - self.dli_fname),
                 self.dli_fname, places[i]);
        char *found = realpath(probe, NULL);
        if (found)
            return found;
    }
    problem_set(problem, ERR_INTERNAL, "limpet_runtime is neither in %s nor in %s beside the interpreter",
                places[0], places[1]);
    return NULL;
}

static bool is_of_packages(PyObject *entry)
{
    const char *path = PyUnicode_Check(entry) ? PyUnicode_AsUTF8(entry) : NULL;

    PyErr_Clear();
    return path && strstr(path, "-packages");
}

/* In an image it is there; what is read-only stays as it is. */
static void make_directories(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    mkdir(path, 0755);
}

/* Counts the entries at the beginning of the path that the environment names. */
static Py_ssize_t count_named(void)
{
    const char *named = getenv("PYTHONPATH");
    Py_ssize_t n = named && *named ? 1 : 0;

    for (; n > 0 && *named; named++)
        n += *named == ':';
    return n;
}

/* Adds the directory of packages that are installed while the session runs. It comes before those of the
 * image, and after what belongs to Python. Python looks at a directory that is there, and sees when its
 * contents have changed. */
static int add_packages(PyObject *path)
{
    const char *base = getenv("PYTHONUSERBASE");
    char directory[LIMIT_PATH];
    Py_ssize_t at = count_named();

    if (!base)
        return 0;
    snprintf(directory, sizeof(directory), "%s/lib/python%d.%d/site-packages", base, PY_MAJOR_VERSION,
             PY_MINOR_VERSION);
    make_directories(directory);
    while (at < PyList_GET_SIZE(path) && !is_of_packages(PyList_GET_ITEM(path, at)))
        at++;

    _pyref_ PyObject *packages = PyUnicode_DecodeFSDefault(directory);
    int has = packages ? PySequence_Contains(path, packages) : -1; /* as where it was there before Python */

    return has ? MIN(has, 0) : PyList_Insert(path, at, packages);
}

/* Modules of the session come first, ours last: a real IPython wins over our stand-in. */
static int set_path(Problem *problem)
{
    _cleanup_(freep) char *sources = find_sources(problem);
    char session[LIMIT_PATH];
    PyObject *path = PySys_GetObject("path");

    if (!sources)
        return -EPROTO;
    if (!getcwd(session, sizeof(session)))
        return problem_set(problem, ERR_INTERNAL, "the session's directory is not there");

    _pyref_ PyObject *first = PyUnicode_DecodeFSDefault(session);
    _pyref_ PyObject *last = PyUnicode_DecodeFSDefault(sources);

    if (!path || !first || !last || add_packages(path) < 0 || PyList_Insert(path, 0, first) < 0 ||
        PyList_Append(path, last) < 0)
        return fail_exception("sys.path", problem);
    return 0;
}

static int load_runtime(Problem *problem)
{
    if (spawn_hooks_install() < 0 || runtime_init() < 0 || guard_init() < 0)
        return fail_exception("limpet_runtime", problem);
    names_forget();
    return run_init() < 0 ? problem_set(problem, ERR_INTERNAL, "out of memory") : 0;
}

int start_python(Problem *problem)
{
    int r = pre_initialise(problem);

    if (r < 0)
        return r;
    frozen_register();
    if (module_register() < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = initialise(problem);
    if (r < 0)
        return r;
    r = set_path(problem);
    if (r < 0)
        return r;
    return load_runtime(problem);
}
