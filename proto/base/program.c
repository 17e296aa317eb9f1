#include "proto/base/program.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "proto/base/clock.h"

#define EXIT_NOT_EXECUTED 127
#define SYSTEM_PATH       "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

static struct rlimit descriptors; /* before it was raised; 0: it was not */

void raise_descriptor_limit(void)
{
    if (getrlimit(RLIMIT_NOFILE, &descriptors) == 0)
        setrlimit(RLIMIT_NOFILE, &(struct rlimit){descriptors.rlim_max, descriptors.rlim_max});
}

static void reset_descriptor_limit(void)
{
    if (descriptors.rlim_max > 0)
        setrlimit(RLIMIT_NOFILE, &descriptors);
}

static void reset_signals(void)
{
    sigset_t none;

    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The controller may have bound itself to one processor at a raised priority; what it starts must not. */
static void reset_scheduling(void)
{
    struct sched_param parameter = {0};
    cpu_set_t all;

    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
    sched_setscheduler(0, SCHED_OTHER, &parameter);
    setpriority(PRIO_PROCESS, 0, 0);
}

/* In the memory of the controller, which waits until another program is executed: only system calls from here
 * on, and nothing is written that the controller reads. */
static _Noreturn __attribute__((noinline)) void become(const char *const argv[], int stdout_fd)
{
    int null = open("/dev/null", O_RDWR);

    if (null < 0 || dup2(stdout_fd >= 0 ? stdout_fd : null, 1) < 0 || dup2(null, 0) < 0 || dup2(null, 2) < 0)
        _exit(EXIT_NOT_EXECUTED);
    close_range(3, ~0u, 0);
    setsid();
    reset_descriptor_limit();
    reset_scheduling();
    reset_signals();
    execv(argv[0], (char *const *)argv);
    _exit(EXIT_NOT_EXECUTED);
}

/* Not by fork(), which copies the page tables of a process that has many sessions. */
static pid_t begin(const char *const argv[], int stdout_fd)
{
    pid_t pid = vfork();

    if (pid == 0)
        become(argv, stdout_fd);
    return pid;
}

int spawn(const char *const argv[], int stdout_fd, pid_t *ret)
{
    sigset_t all, before;
    pid_t pid;
    int r;

    /* No handler of ours may run in the child. */
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    pid = begin(argv, stdout_fd);
    r = pid < 0 ? -errno : 0;
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (r == 0)
        *ret = pid;
    return r;
}

static bool is_program(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) && access(path, X_OK) == 0;
}

static int find_in(const char *directories, const char *name, char **ret)
{
    for (const char *part = directories; *part;) {
        size_t length = strcspn(part, ":");
        char *path _cleanup_(freep) = NULL;

        if (asprintf(&path, "%.*s/%s", (int)length, part, name) < 0)
            return -ENOMEM;
        if (*part == '/' && is_program(path)) {
            *ret = take(path);
            return 0;
        }
        part += length;
        part += *part == ':';
    }
    return -ENOENT;
}

int spawn_find(const char *name, char **ret)
{
    const char *path = getenv("PATH");
    int r;

    if (strchr(name, '/')) {
        char *absolute _cleanup_(freep) = realpath(name, NULL);

        if (!absolute || !is_program(absolute))
            return -ENOENT;
        *ret = take(absolute);
        return 0;
    }
    r = path ? find_in(path, name, ret) : -ENOENT;
    return r == -ENOENT ? find_in(SYSTEM_PATH, name, ret) : r;
}

/* ---- capturing ---- */

#define READ_SIZE 4096

/* Reads to the end of the pipe or until the deadline. */
static int drain(int fd, uint64_t deadline, Buf *out)
{
    for (;;) {
        uint64_t now = clock_now();
        struct pollfd waited = {.fd = fd, .events = POLLIN};
        ssize_t n;

        if (now >= deadline)
            return -ETIMEDOUT;
        if (poll(&waited, 1, (int)((deadline - now) / NSEC_PER_MSEC) + 1) <= 0)
            continue;
        n = buf_read_fd(out, fd, READ_SIZE);
        if (n == 0 || (n < 0 && n != -EINTR && n != -EAGAIN))
            return (int)n;
    }
}

int capture_program(const char *const argv[], double seconds, Buf *out)
{
    uint64_t deadline = clock_now() + clock_from_seconds(seconds);
    int ends[2], r, status;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    r = spawn(argv, ends[1], &pid);
    close(ends[1]);
    if (r == 0) {
        r = drain(ends[0], deadline, out);
        if (r < 0)
            kill(pid, SIGKILL);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (r == 0)
            r = WIFEXITED(status) ? WEXITSTATUS(status) : -ECHILD;
    }
    close(ends[0]);
    return r;
}

int capture_file(const char *path, size_t limit, char **ret)
{
    int fd _cleanup_(closep) = open(path, O_RDONLY | O_CLOEXEC);
    char *text _cleanup_(freep) = NULL;
    size_t size = 0;
    ssize_t n = 1;

    if (fd < 0)
        return -errno;
    text = malloc(limit + 1);
    if (!text)
        return -ENOMEM;
    while (size < limit && n > 0) {
        n = read(fd, text + size, limit - size);
        if (n < 0 && errno != EINTR)
            return -errno;
        size += n > 0 ? (size_t)n : 0;
        n = n < 0 ? 1 : n;
    }
    text[size] = '\0';
    *ret = take(text);
    return 0;
}
