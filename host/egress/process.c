#include "host/egress/process.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "host/egress/serve.h"
#include "host/privilege/rpc.h"
#include "proto/base/log.h"

#define SOCKET_FD (STDERR_FILENO + 1)

/* Between vfork() and exec: only system calls. */
static _Noreturn __attribute__((noinline)) void become(char *const argv[], int socket)
{
    sigset_t none;

    if (dup2(socket, SOCKET_FD) < 0 || fcntl(SOCKET_FD, F_SETFD, 0) < 0)
        _exit(127);
    close_range(SOCKET_FD + 1, ~0u, 0);
    setpriority(PRIO_PROCESS, 0, 0);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    execv("/proc/self/exe", argv);
    _exit(127);
}

static pid_t begin(char *const argv[], int socket)
{
    pid_t pid = vfork();

    if (pid == 0)
        become(argv, socket);
    return pid;
}

int egress_start(const Account *account, const char *log_level, pid_t *ret_pid, int *ret_socket)
{
    char parent[16], uid[16] = "-", gid[16] = "-";
    char *const argv[] = {(char *)EGRESS_PROGRAM, parent, uid, gid, (char *)log_level, NULL};
    int ends[2], r = rpc_pair(ends);
    pid_t pid;

    if (r < 0)
        return r;
    snprintf(parent, sizeof(parent), "%d", (int)getpid());
    if (account) {
        snprintf(uid, sizeof(uid), "%u", account->uid);
        snprintf(gid, sizeof(gid), "%u", account->gid);
    }
    pid = begin(argv, ends[1]);
    r = pid < 0 ? -errno : 0;
    close(ends[1]);
    if (r < 0) {
        close(ends[0]);
        return r;
    }
    *ret_pid = pid;
    *ret_socket = ends[0];
    return 0;
}

/* ---- in it ---- */

/* What resolving names and checking certificates reads. */
#define READABLE                                                                                             \
    "/etc", "/usr", "/lib", "/lib64", "/run/systemd/resolve", "/run/resolvconf", "/dev/null", "/dev/urandom"

static int give_up_rights(char **argv, Problem *problem)
{
    pid_t parent = (pid_t)strtol(argv[1], NULL, 10);
    Remnant rights = {.readable = {READABLE}, .dials = true};

    rights.keeps_account = strcmp(argv[2], "-") == 0;
    if (!rights.keeps_account)
        rights.account = (Account){(uid_t)strtoul(argv[2], NULL, 10), (gid_t)strtoul(argv[3], NULL, 10)};
    return rights_drop(&rights, parent, problem);
}

/* Many connections of many sandboxes. */
static void raise_limit(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        setrlimit(RLIMIT_NOFILE, &limit);
    }
}

int egress_main(int argc, char **argv)
{
    Problem problem = PROBLEM_NULL;
    int level = argc == 5 ? log_level_from_name(argv[4]) : -EINVAL, r = MIN(level, 0);

    prctl(PR_SET_NAME, EGRESS_PROGRAM);
    log_setup(EGRESS_PROGRAM, level < 0 ? LOG_INFO : (LogLevel)level);
    signal(SIGPIPE, SIG_IGN);
    raise_limit();
    if (r == 0)
        r = give_up_rights(argv, &problem);
    if (r == 0)
        r = fcntl(SOCKET_FD, F_SETFD, FD_CLOEXEC) < 0 || fcntl(SOCKET_FD, F_SETFL, O_NONBLOCK) < 0
                ? -errno
                : egress_serve_controller(SOCKET_FD, &problem);
    if (r < 0)
        log_error("egress process ended", "reason=%s", *problem.text ? problem.text : strerror(-r));
    return r < 0;
}
