#include "guest/interpreter/checkpoint/child.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include "guest/interpreter/checkpoint/openfiles.h"
#include "guest/interpreter/checkpoint/threads.h"
#include "guest/interpreter/descriptors.h"
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

/* What the handlers of a fork would have done. */
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
    flusher_stop();
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
