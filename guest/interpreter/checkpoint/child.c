#include "guest/interpreter/checkpoint/child.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/flusher.h"
#include "guest/interpreter/run.h"
#include "guest/interpreter/sink.h"
#include "guest/interpreter/volunteer.h"
#include "proto/base/clock.h"
#include "proto/limits.h"

#define REST_LIMIT NSEC_PER_SEC

/* For a child that is well, on a machine that is busy. */
#define WELL_MS 1000

#define ATTEMPTS 5

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

/* What the handlers of a fork would have done. */
static void begin(int tell)
{
    int r;

    sinks_begin_child();
    take_locks();
    r = threads_make(is_of_library);
    if (write(tell, &r, sizeof(r)) < 0 || r < 0)
        _exit(EXIT_FAILURE);
    threads_go_on();
    run.forked = true;
    volunteer_child();
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

static pid_t fork_once(int tell)
{
    pid_t pid = _Fork();

    if (pid == 0)
        begin(tell);
    return pid < 0 ? -errno : pid;
}

static pid_t attempt(char *why, size_t size)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    sinks_hold();
    pid_t pid = threads_rest(REST_LIMIT, why, size);
    if (pid == 0) {
        pid = fork_once(ends[1]);
        if (pid != 0)
            threads_go_on();
    }
    if (pid != 0)
        sinks_let_go();
    if (pid > 0) {
        int r = await(pid, ends[0]);

        pid = r < 0 ? r : pid;
    }
    close(ends[0]);
    close(ends[1]);
    return pid;
}

static pid_t fork_with_threads(char *why, size_t size)
{
    sigset_t all, before;
    pid_t pid = -EAGAIN;

    run_note_child();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (int i = 0; i < ATTEMPTS && pid == -EAGAIN; i++)
        pid = attempt(why, size);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return pid;
}

PyObject *child_fork(PyObject *module, PyObject *unused)
{
    char why[LIMIT_NOTE + 1] = "";
    pid_t pid;

    PyOS_BeforeFork();
    flusher_stop();
    if (threads_are_none())
        pid = (pid = fork()) < 0 ? -errno : pid;
    else
        pid = fork_with_threads(why, sizeof(why));
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
