/* limpet-interpreter: the process that runs the cells of one session. The supervisor starts it with /dev/null
 * and two pipes as 0, 1 and 2, their channel as 3 and the rings of its output as 4, already unprivileged and
 * in the session's directory. Its argument is the memory of the sandbox in bytes; without one, or with 0, it
 * is unlimited. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "guest/interpreter/asks.h"
#include "guest/interpreter/call.h"
#include "guest/interpreter/checkpoint/checkpoint.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/memory.h"
#include "guest/interpreter/namespace_names.h"
#include "guest/interpreter/output.h"
#include "guest/interpreter/pyref.h"
#include "guest/interpreter/link.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/serve.h"
#include "proto/limits.h"

/* ---- the built-in module `_limpet`: what limpet_runtime may ask of the C side ---- */

/* send_display(data, metadata, display_id, is_result, update) → bool: False in a forked child, which has no
 * way to send one. */
static PyObject *send_display(PyObject *module, PyObject *args)
{
    Display display = {0};
    int is_result, update;

    if (!PyArg_ParseTuple(args, "O!O!Opp", &PyDict_Type, &display.data, &PyDict_Type, &display.metadata,
                          &display.id, &is_result, &update))
        return NULL;
    display.is_result = is_result;
    display.update = update;
    return reply_display(&display) < 0 ? NULL : PyBool_FromLong(!run.forked);
}

/* repr(value) → str, for a value whose repr may raise. */
static PyObject *safe_repr(PyObject *module, PyObject *value)
{
    return result_repr(value);
}

/* tell_results(function): it is called with the number of each call that has a value, and that. */
static PyObject *tell_results(PyObject *module, PyObject *function)
{
    result_tell(function);
    Py_RETURN_NONE;
}

/* format_results(function), see call.h. */
static PyObject *format_results(PyObject *module, PyObject *function)
{
    result_format(function);
    Py_RETURN_NONE;
}

/* tell_cells(before, after), see call.h. */
static PyObject *tell_cells(PyObject *module, PyObject *args)
{
    PyObject *before, *after;

    if (!PyArg_ParseTuple(args, "OO", &before, &after))
        return NULL;
    cells_tell(before, after);
    Py_RETURN_NONE;
}

/* set_language(function), see call.h. */
static PyObject *set_language(PyObject *module, PyObject *function)
{
    language_set(function);
    Py_RETURN_NONE;
}

/* cell() → int: the number of the cell that runs, or ran last. */
static PyObject *cell_number(PyObject *module, PyObject *unused)
{
    return PyLong_FromUnsignedLongLong(run.number);
}

/* memory() → int: the most that the process may hold, bytes; 0: unlimited. */
static PyObject *memory_most(PyObject *module, PyObject *unused)
{
    return PyLong_FromUnsignedLongLong(memory_limit_most());
}

/* rest_by(function), see serve.h. */
static PyObject *set_rest(PyObject *module, PyObject *function)
{
    rest_by(function);
    Py_RETURN_NONE;
}

/* forked() → int: the process where it is a child of the interpreter's, in the interpreter and its copies 0.
 */
static PyObject *forked(PyObject *module, PyObject *unused)
{
    return PyLong_FromLong(run.forked ? getpid() : 0);
}

/* own_attributes(object) → dict: its own, without asking it; empty where it has none. */
static PyObject *own_attributes(PyObject *module, PyObject *object)
{
    /* Types keep theirs in a way of their own. */
    PyObject *dict = PyType_Check(object) ? NULL : PyObject_GenericGetDict(object, NULL);

    if (dict && PyDict_Check(dict))
        return dict;
    Py_XDECREF(dict);
    PyErr_Clear();
    return PyDict_New();
}

/* character_size(text) → int: bytes of each character in memory. */
static PyObject *character_size(PyObject *module, PyObject *text)
{
    return PyLong_FromLong(PyUnicode_Check(text) ? (long)PyUnicode_KIND(text) : 0);
}

static PyMethodDef methods[] = {
    {"send_display", send_display, METH_VARARGS, NULL},
    {"safe_repr", safe_repr, METH_O, NULL},
    {"format_results", format_results, METH_O, NULL},
    {"tell_cells", tell_cells, METH_VARARGS, NULL},
    {"tell_results", tell_results, METH_O, NULL},
    {"displayhook", result_displayhook, METH_O, NULL},
    {"set_language", set_language, METH_O, NULL},
    {"rest_by", set_rest, METH_O, NULL},
    {"cell", cell_number, METH_NOARGS, NULL},
    {"memory", memory_most, METH_NOARGS, NULL},
    {"is_answered", ask_is_answered, METH_NOARGS, NULL},
    {"ask", ask_ask, METH_VARARGS, NULL},
    {"fork", child_fork, METH_O, NULL},
    {"forked", forked, METH_NOARGS, NULL},
    {"own_attributes", own_attributes, METH_O, NULL},
    {"character_size", character_size, METH_O, NULL},
    {0},
};

static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, stream_add},
#if PY_VERSION_HEX >= 0x030C0000
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, NULL},
};

static PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_limpet",
    .m_methods = methods,
    .m_slots = slots,
};

static PyObject *make_module(void)
{
    return PyModuleDef_Init(&definition);
}

/* ---- starting Python ---- */

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
    const char *slash = dladdr(find_sources, &self) ? strrchr(self.dli_fname, '/') : NULL;

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

/* From nothing to an interpreter that can run cells; the calling thread holds the GIL then. -EPROTO with a
 * Problem. */
static int start_python(Problem *problem)
{
    int r = pre_initialise(problem);

    if (r < 0)
        return r;
    frozen_register();
    if (PyImport_AppendInittab("_limpet", make_module) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = initialise(problem);
    if (r < 0)
        return r;
    r = set_path(problem);
    if (r < 0)
        return r;
    return load_runtime(problem);
}

/* ---- the whole program ---- */

static int fail(const char *reason)
{
    fprintf(stderr, "limpet-interpreter: %s\n", reason);
    return EXIT_FAILURE;
}

static int run_interpreter(int argc, char **argv)
{
    uint64_t memory = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    Problem problem = PROBLEM_NULL;

    memory_limit_init(memory);
    oom_score_init(memory);
    checkpoint_init();
    if (descriptors_init() < 0)
        return fail("it is started by limpet-guest, which gives it descriptors 0 to 3");
    if (sinks_init(descriptors_stream(1), descriptors_stream(2), RING_FD) < 0)
        return fail("out of memory");
    if (start_python(&problem) < 0)
        return fail(problem.text);
    sinks_mark_before_crashes();
    if (reply_ready(0, &(Notes){.n = 0}, NULL) == 0)
        serve();
    /* Nobody is left to answer. Threads of cells may never end, so nothing waits for them. */
    _exit(EXIT_SUCCESS);
}

#if LIMPET_EMBEDS_PYTHON

/* A program of its own, linked to libpython: where Python's own is not installed, and for sanitizers, which
 * have to be the first in their process. */
int main(int argc, char **argv)
{
    return run_interpreter(argc, argv);
}

#else

typedef int Main(int argc, char **argv, char **environment);
typedef int Start(Main *main, int argc, char **argv, void (*init)(void), void (*fini)(void),
                  void (*end)(void), void *stack);

__attribute__((visibility("default"))) Start __libc_start_main;

/* Takes this library out of the environment: programs that cells start are not to begin like this. */
static void forget_library(void)
{
    const char *value = getenv("LD_PRELOAD");
    const char *rest = value ? strchr(value, ':') : NULL;

    if (rest)
        setenv("LD_PRELOAD", rest + 1, 1);
    else
        unsetenv("LD_PRELOAD");
}

static int begin(int argc, char **argv, char **environment)
{
    forget_library();
    prctl(PR_SET_NAME, "limpet-interpreter");
    return run_interpreter(argc, argv);
}

/* The dynamic linker finds this before the C library's and calls it as Python's program begins: what it is
 * given to run is not Python's main(), but ours. */
int __libc_start_main(Main *unused, int argc, char **argv, void (*init)(void), void (*fini)(void),
                      void (*end)(void), void *stack)
{
    Start *real;

    *(void **)&real = dlsym(RTLD_NEXT, "__libc_start_main");
    return real(begin, argc, argv, init, fini, end, stack);
}

#endif
