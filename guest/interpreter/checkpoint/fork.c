#include "guest/interpreter/checkpoint/fork.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "guest/interpreter/checkpoint/threads.h"

/* For glibc's fork() and handlers of pthread_atfork(), which join threads and write to pipes. */
#define STACK_SIZE (256u << 10)

static struct {
    ucontext_t here; /* where the copy goes on, on the stack of who called */
    bool with_threads;
    void (*set_oom_score)(void);
    volatile bool copied;
    volatile pid_t intermediate; /* whose end makes an orphan of the copy */
    volatile pid_t pid;          /* of the copy, or a negative errno */
    _Alignas(16) char stack[STACK_SIZE];
} copying;

/* Runs in the memory of the original, which waits meanwhile, as a process of its own: its end makes an orphan
 * of the copy. The address sanitizer would take the stack for another thread's. */
__attribute__((no_sanitize("address"))) static int intermediate(void *unused)
{
    copying.intermediate = getpid();
    if (copying.set_oom_score)
        copying.set_oom_score();
    /* Belongs to the memory, which the original has too. */
    prctl(PR_SET_DUMPABLE, 0);

    pid_t pid = copying.with_threads ? _Fork() : fork();

    if (pid == 0) {
        copying.copied = true;
        setcontext(&copying.here);
    }
    copying.pid = pid < 0 ? -errno : pid;
    _exit(0);
}

/* Without CLONE_THREAD and with no signal at its end, the intermediate process is one that only __WCLONE
 * waits for: no SIGCHLD comes, and neither os.wait() in another thread nor an ignored SIGCHLD can take it
 * from us. */
static pid_t run_intermediate(void)
{
    char *top = copying.stack + sizeof(copying.stack);
    pid_t process = clone(intermediate, top, CLONE_VM | CLONE_VFORK, NULL);

    if (process < 0)
        return -errno;
    while (waitpid(process, NULL, __WCLONE) < 0 && errno == EINTR)
        ;
    return copying.pid;
}

pid_t fork_to_supervisor(bool with_threads, void (*set_oom_score)(void))
{
    int reaper = 0, dumpable = prctl(PR_GET_DUMPABLE);

    copying.with_threads = with_threads;
    copying.set_oom_score = set_oom_score;
    copying.copied = false;
    copying.pid = -EAGAIN;
    getcontext(&copying.here);
    if (copying.copied) {
        restartable_register();
        return 0;
    }
    /* A cell may have made this process one that orphans come to. */
    prctl(PR_GET_CHILD_SUBREAPER, &reaper);
    if (reaper)
        prctl(PR_SET_CHILD_SUBREAPER, 0);

    pid_t pid = run_intermediate();

    prctl(PR_SET_DUMPABLE, dumpable);
    if (reaper)
        prctl(PR_SET_CHILD_SUBREAPER, 1);
    return pid;
}

int fork_adopted(pid_t supervisor)
{
    /* The intermediate process only has to end. */
    while (getppid() == copying.intermediate)
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    return getppid() == supervisor ? 0 : -ESRCH;
}

int open_own(const char *path)
{
    int dumpable = prctl(PR_GET_DUMPABLE);

    prctl(PR_SET_DUMPABLE, 1);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    int r = fd < 0 ? -errno : fd;
    prctl(PR_SET_DUMPABLE, dumpable);
    return r;
}
