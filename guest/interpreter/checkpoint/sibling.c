#include "guest/interpreter/checkpoint/sibling.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "guest/interpreter/checkpoint/restartable.h"

/* For glibc's fork() and handlers of pthread_atfork(), which join threads and write to pipes. */
#define STACK_SIZE (256u << 10)

static struct {
    ucontext_t here; /* where the copy goes on, on the stack of who called */
    bool with_threads;
    void (*volunteer)(void);
    volatile bool copied;
    volatile pid_t middle; /* whose end makes an orphan of the copy */
    volatile pid_t pid;    /* of the copy, or a negative errno */
    _Alignas(16) char stack[STACK_SIZE];
} sibling;

/* Runs in the memory of the original, which waits meanwhile, as a process of its own: its end makes an orphan
 * of the copy. The address sanitizer would take the stack for another thread's. */
__attribute__((no_sanitize("address"))) static int middle(void *unused)
{
    sibling.middle = getpid();
    if (sibling.volunteer)
        sibling.volunteer();
    /* Of the memory, which the original has too. */
    prctl(PR_SET_DUMPABLE, 0);

    pid_t pid = sibling.with_threads ? _Fork() : fork();

    if (pid == 0) {
        sibling.copied = true;
        setcontext(&sibling.here);
    }
    sibling.pid = pid < 0 ? -errno : pid;
    _exit(0);
}

/* Without CLONE_THREAD and with no signal at its end, the process in the middle is one that only __WCLONE
 * waits for: no SIGCHLD comes, and neither os.wait() in another thread nor an ignored SIGCHLD can take it
 * from us. */
static pid_t run_middle(void)
{
    char *top = sibling.stack + sizeof(sibling.stack);
    pid_t process = clone(middle, top, CLONE_VM | CLONE_VFORK, NULL);

    if (process < 0)
        return -errno;
    while (waitpid(process, NULL, __WCLONE) < 0 && errno == EINTR)
        ;
    return sibling.pid;
}

pid_t sibling_fork(bool with_threads, void (*volunteer)(void))
{
    int reaper = 0, dumpable = prctl(PR_GET_DUMPABLE);

    sibling.with_threads = with_threads;
    sibling.volunteer = volunteer;
    sibling.copied = false;
    sibling.pid = -EAGAIN;
    getcontext(&sibling.here);
    if (sibling.copied) {
        restartable_register();
        return 0;
    }
    /* A cell may have made this process one that orphans come to. */
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    if (reaper)
        prctl(PR_SET_CHILD_SUBREAPER, 0);

    pid_t pid = run_middle();

    prctl(PR_SET_DUMPABLE, dumpable);
    if (reaper)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    return pid;
}

int sibling_adopted(pid_t supervisor)
{
    /* Which has nothing to do any more but to end. */
    while (getppid() == sibling.middle)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == supervisor ? 0 : -ESRCH;
}

int sibling_open_own(const char *path)
{
    int dumpable = prctl(PR_GET_DUMPABLE);

    prctl(PR_SET_DUMPABLE, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : fd;
    prctl(PR_SET_DUMPABLE, dumpable);
    return r;
}
