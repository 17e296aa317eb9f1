#include "guest/interpreter/checkpoint/checkpoint.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "guest/interpreter/link.h"
#include "guest/interpreter/runtime.h"
#include "guest/interpreter/call.h"
#include "guest/interpreter/checkpoint/frozen_main.h"
#include "guest/interpreter/checkpoint/openfiles.h"
#include "guest/interpreter/checkpoint/fork.h"
#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/compile.h"
#include "guest/interpreter/guard.h"
#include "guest/interpreter/memory.h"
#include "guest/interpreter/output.h"
#include "guest/interpreter/pyref.h"
#include "proto/base/clock.h"
#include "proto/base/proc.h"
#include "proto/limits.h"
#include "proto/wire.h"

#define QUIET_MS 1

static bool is_quiet(void)
{
    struct pollfd channel = {.fd = descriptors_channel(), .events = POLLIN};
    PyThreadState *saved = PyEval_SaveThread();
    int n = poll(&channel, 1, QUIET_MS);

    PyEval_RestoreThread(saved);
    return n == 0;
}

static void run_empty_cell(void)
{
    _pyref_ PyObject *source = PyUnicode_FromString("x = 1\nx + 1");
    _pyref_ PyObject *filename = PyUnicode_FromString("<empty>");
    _pyref_ PyObject *namespace = PyDict_New();
    Compiled compiled _cleanup_(compiled_deinit) = {0};

    if (!source || !filename || !namespace || compile_cell(source, filename, &compiled) < 0)
        return;
    _pyref_ PyObject *done = PyEval_EvalCode(compiled.head, namespace, namespace);
    _pyref_ PyObject *value = done ? PyEval_EvalCode(compiled.tail, namespace, namespace) : NULL;
    if (value)
        Py_XDECREF(result_repr(value));
}

/* Touches what else each cell writes to: the counts of references to these, the deeper stack, a lock. */
static void touch(void)
{
    static const uint8_t nil[] = {0xc0};

    Py_XDECREF(PyTuple_Pack(4, runtime.main_dict, runtime.linecache, stream_object(STDOUT_FILENO),
                            stream_object(STDERR_FILENO)));
    wire_check(nil, sizeof(nil));
    fflush(stdout);
}

void prefault(void)
{
    guard_begin_cell();
    run_empty_cell();
    touch();
    guard_begin_runtime();
    PyErr_Clear();
}

/* When nothing is asked of this process for a moment. */
static void prefault_if_quiet(void)
{
    if (is_quiet())
        prefault();
}

/* Only letters, digits and the like, whatever a process calls itself. */
static void read_name(pid_t pid, char *ret, size_t size)
{
    if (proc_read(pid, "comm", ret, size) < 0)
        *ret = '\0';
    ret[strcspn(ret, "\n")] = '\0';
    for (char *c = ret; *c; c++) {
        if (!isascii(*c) || !isprint(*c))
            *c = '?';
    }
}

static int note_child(void *notes, pid_t pid)
{
    char name[64];

    read_name(pid, name, sizeof(name));
    notes_add(notes, "child process %d (%s) is gone", (int)pid, name);
    return 0;
}

/* Notes the children that run, or that nobody has waited for: a copy of the interpreter is not their
 * parent. */
static void children_note(Notes *notes)
{
    proc_each_child(0, note_child, notes);
}

static int find_child(void *unused, pid_t pid)
{
    return -EEXIST;
}

/* Other processes of cells may take the room that a copy that is ended for memory would leave, and the
 * interpreter would be next: nothing would be left to go back to. */
static bool is_first_to_end(bool automatic)
{
    return automatic && !(run.had_children && proc_each_child(0, find_child, NULL) == -EEXIST);
}

/* For threads that are in the kernel, or wait for a processor. */
#define REST_LIMIT NSEC_PER_SEC

/* For a child that is well, on a machine that is busy. */
#define WELL_MS 1000

#define ATTEMPTS 5

/* Nobody is told what the child lacks. */
static Notes unread;

static int look_at_library(struct dl_phdr_info *info, size_t size, void *unused)
{
    return 1;
}

/* A thread of Python's that rests in the child for ever may have a lock of the C library. Then this, which
 * takes them all, does not return. */
static void take_locks(void)
{
    mallinfo2();
    dl_iterate_phdr(look_at_library, NULL);
}

static bool is_of_library(pthread_t thread)
{
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());

    for (; state; state = PyThreadState_Next(state)) {
        if (pthread_equal((pthread_t)state->thread_id, thread))
            return false;
    }
    return true;
}

/* Does the work that handlers of a fork would have done. */
static void begin(OpenFiles *files, int tell)
{
    int r;

    openfiles_restore(files, &unread);
    sinks_begin_child();
    take_locks();
    r = threads_make(is_of_library);
    if (write(tell, &r, sizeof(r)) < 0 || r < 0)
        _exit(EXIT_FAILURE);
    threads_go_on();
    run.forked = true;
    oom_score_child();
}

/* 0, or a negative errno: it did not begin, and is no more. */
static int await(pid_t pid, int heard)
{
    struct pollfd file = {.fd = heard, .events = POLLIN};
    int r = -EAGAIN;

    if (poll(&file, 1, WELL_MS) > 0 && read(heard, &r, sizeof(r)) == sizeof(r) && r == 0)
        return 0;
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

/* `ends` are none of the files that the child has of its own. */
static pid_t fork_once(int fd, int ends[2])
{
    OpenFiles files = {0};
    int r = openfiles_record(&files, fd, &unread);
    pid_t pid = r;

    if (r == 0)
        pid = pipe2(ends, O_CLOEXEC) < 0 ? -1 : _Fork();
    if (r == 0 && pid < 0)
        pid = -errno;
    if (pid == 0)
        begin(&files, ends[1]);
    openfiles_deinit(&files);
    return pid;
}

static pid_t attempt(int fd, char *why, size_t size)
{
    int ends[2] = {-1, -1};

    sinks_hold();
    pid_t pid = threads_rest(REST_LIMIT, why, size);
    if (pid == 0) {
        pid = fork_once(fd, ends);
        if (pid != 0)
            threads_go_on();
    }
    if (pid != 0)
        sinks_let_go();
    if (pid > 0) {
        int r = await(pid, ends[0]);

        pid = r < 0 ? r : pid;
    }
    close_fd(&ends[0]);
    close_fd(&ends[1]);
    return pid;
}

static pid_t fork_with_threads(int fd, char *why, size_t size)
{
    sigset_t all, before;
    pid_t pid = -EAGAIN;

    descriptors_spare_free();
    run_note_child();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < ATTEMPTS && pid == -EAGAIN; i++)
        pid = attempt(fd, why, size);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    descriptors_spare_keep();
    return pid;
}

PyObject *child_fork(PyObject *module, PyObject *fd)
{
    char why[LIMIT_NOTE + 1] = "";
    int common = PyObject_AsFileDescriptor(fd);
    pid_t pid;

    if (common < 0)
        return NULL;
    PyOS_BeforeFork();
    if (threads_are_none())
        pid = (pid = fork()) < 0 ? -errno : pid;
    else
        pid = fork_with_threads(common, why, sizeof(why));
    if (pid == 0)
        PyOS_AfterFork_Child();
    else
        PyOS_AfterFork_Parent();
    if (pid >= 0)
        return PyLong_FromLong(pid);
    if (why[0])
        return PyErr_Format(PyExc_OSError, "%s", why);
    errno = -pid;
    return PyErr_SetFromErrno(PyExc_OSError);
}

/* The newest checkpoint. A copy has this as it was when the copy was made. */
static CheckpointInfo copied;

/* Why there is none. */
static char refusal[LIMIT_NOTE + 1];

void checkpoint_init(void)
{
    copied.supervisor = getppid();
    threads_init();
}

static void note_alarm(void)
{
    struct itimerval timer;

    if (getitimer(ITIMER_REAL, &timer) == 0 && (timer.it_value.tv_sec || timer.it_value.tv_usec))
        notes_add(&copied.notes, "the alarm that signal.alarm() or setitimer() set does not come");
}

/* Records everything that only this process can tell about itself, but for its open files. */
static void record(void)
{
    notes_clear(&copied.notes);
    openfiles_deinit(&copied.files);
    note_alarm();
    if (run.had_children)
        children_note(&copied.notes);
}

static void set_oom_score(void)
{
    oom_score_checkpoint(copied.ends_first);
}

/* The copy has all signals blocked, and Python in it has not been told. */
static pid_t fork_alone(void)
{
    Run before = run;

    pid_t pid = fork_to_supervisor(false, set_oom_score);
    run = before; /* it is no child of the cell */
    return pid;
}

/* For a process of one thread: handlers of libraries and cells for a fork run. */
static pid_t copy_alone(int channel)
{
    pid_t pid = openfiles_record(&copied.files, channel, &copied.notes);

    return pid < 0 ? pid : fork_alone();
}

/* In the copy the threads rest, and the sinks are held. */
static pid_t copy_threads(int channel)
{
    sinks_hold();
    pid_t pid = threads_rest(REST_LIMIT, refusal, sizeof(refusal));
    bool rest = pid == 0;

    if (pid == 0)
        pid = openfiles_record(&copied.files, channel, &copied.notes);
    if (pid == 0 && (pid = fork_to_supervisor(true, set_oom_score)) == 0)
        return 0;
    if (rest)
        threads_go_on();
    sinks_let_go();
    return pid;
}

/* Makes a copy: its process id, 0 in the copy, or a negative errno. Python is told of a fork only where there
 * is no other thread: it would give up those there are, of which a copy has all. */
static pid_t make_copy(int channel)
{
    sigset_t all;

    copied.with_threads = !threads_are_none();
    if (!copied.with_threads)
        PyOS_BeforeFork();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &copied.mask);
    pid_t pid = copied.with_threads ? copy_threads(channel) : copy_alone(channel);
    if (pid == 0)
        return 0;
    pthread_sigmask(SIG_SETMASK, &copied.mask, NULL);
    if (!copied.with_threads)
        PyOS_AfterFork_Parent();
    return pid;
}

/* Records, and makes a copy. */
static pid_t copy(int channel)
{
    descriptors_spare_free();
    record();
    inbox_reserve();
    pid_t pid = make_copy(channel);

    if (pid != 0)
        descriptors_spare_keep();
    return pid;
}

int checkpoint_take(uint64_t id, int channel, bool automatic)
{
    refusal[0] = '\0';
    copied.ends_first = is_first_to_end(automatic);
    pid_t pid = channel < 0 ? -EMFILE : copy(channel);

    if (pid == 0) {
        Restore restore;

        frozen_serve(&copied, id, channel, &restore);
        return resume(&copied, &restore);
    }
    close_fd(&channel);
    int r = send_checkpointed(id, MIN(pid, 0), refusal);
    if (pid > 0)
        prefault_if_quiet();
    return r;
}
