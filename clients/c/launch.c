#include "clients/c/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/wait.h>

#include "proto/base/buf.h"
#include "proto/base/clock.h"
#include "proto/wire.h"

/* ---- programs ---- */

extern char **environ;

char **environment_with(char *setting)
{
    size_t n = 0, kept = 0;
    char **result;

    while (environ && environ[n])
        n++;
    result = calloc(n + 2, sizeof(*result));
    if (!result)
        return NULL;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LIMPET_SOCKET=", strlen("LIMPET_SOCKET=")) != 0)
            result[kept++] = environ[i];
    result[kept] = setting;
    return result;
}

static int add_streams(posix_spawn_file_actions_t *actions, const int standard[static 3])
{
    int r = 0;

    for (int i = 0; !r && i < 3; i++)
        r = standard[i] >= 0 ? posix_spawn_file_actions_adddup2(actions, standard[i], i)
                             : posix_spawn_file_actions_addopen(actions, i, "/dev/null", O_RDWR, 0);
    return r ? r : posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
}

static int spawn(pid_t *ret, char *const argv[], char *const env[], const int standard[static 3])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none, all;
    int r;

    sigemptyset(&none);
    sigfillset(&all);
    r = posix_spawn_file_actions_init(&actions);
    if (r)
        return -r;
    r = posix_spawnattr_init(&attributes);
    if (r) {
        posix_spawn_file_actions_destroy(&actions);
        return -r;
    }
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    r = add_streams(&actions, standard);
    if (!r)
        r = posix_spawnp(ret, argv[0], &actions, &attributes, argv, env);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return -r;
}

/* Above the standard streams, whose numbers are free where the caller has closed its own: one would take the
 * place of another. */
int spawn_apart(pid_t *ret, char *const argv[], char *const env[], const int standard[static 3])
{
    int above[3], r = 0;

    for (int i = 0; i < 3; i++) {
        above[i] = standard[i] < 0 ? -1 : fcntl(standard[i], F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        if (above[i] < 0 && standard[i] >= 0)
            r = -errno;
    }
    if (r == 0)
        r = spawn(ret, argv, env, above);
    for (int i = 0; i < 3; i++)
        closep(&above[i]);
    return r;
}

int spawn_reap(pid_t pid)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno; /* the program ignores SIGCHLD */
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- a controller ---- */

#define WORDS_MAX (PROBLEM_TEXT_MAX / 2)

/* $LIMPETD, or limpetd beside the running program, or the bare name, which is then looked for in $PATH. */
static int limpetd_find(char ret[static PATH_MAX])
{
    const char *given = secure_getenv("LIMPETD");
    ssize_t n;
    char *slash;

    if (given && *given)
        return snprintf(ret, PATH_MAX, "%s", given) < PATH_MAX ? 0 : -ENAMETOOLONG;
    n = readlink("/proc/self/exe", ret, PATH_MAX - sizeof("limpetd"));
    ret[MAX(n, 0)] = 0;
    slash = strrchr(ret, '/');
    if (slash)
        strcpy(slash + 1, "limpetd");
    if (!slash || access(ret, X_OK) < 0)
        strcpy(ret, "limpetd");
    return 0;
}

/* Reads what the child says until it ends; a controller it left behind may hold the pipe open for ever. */
static int listen_to(pid_t pid, int words_fd, uint64_t deadline, Buf *words)
{
    _cleanup_(closep) int pidfd = pidfd_open(pid, 0);
    struct pollfd polled[] = {{.fd = words_fd, .events = POLLIN}, {.fd = pidfd, .events = POLLIN}};

    if (pidfd < 0)
        return -errno;
    for (;;) {
        uint64_t now = clock_now();
        int n;

        if (now >= deadline)
            return -ETIMEDOUT;
        n = poll(polled, ARRAY_SIZE(polled),
                 (int)MIN((deadline - now) / NSEC_PER_MSEC + 1, (uint64_t)INT_MAX));
        if (n < 0 && errno != EINTR)
            return -errno;
        if (n > 0 && polled[0].revents) {
            char bytes[512];
            ssize_t size = read(words_fd, bytes, sizeof(bytes));

            if (size > 0)
                buf_append(words, bytes, (size_t)MIN((size_t)size, WORDS_MAX - words->size));
            else if (size == 0 || errno != EINTR)
                polled[0].fd = -1;
        } else if (n > 0 && polled[1].revents) {
            return 0;
        }
    }
}

static int report(const char *program, int status, const Buf *words, Problem *problem)
{
    _cleanup_(buf_deinit) Buf text = BUF_NULL;
    size_t size = words->size;

    if (status == 0)
        return 0;
    while (size > 0 && strchr(" \n", buf_head(words)[size - 1]))
        size--;
    if (size == 0)
        return problem_set(problem, ERR_UNAVAILABLE,
                           "%s --detach failed with status %d and without a message", program, status);
    if (utf8_append_replaced(&text, buf_head(words), size) < 0)
        return -ENOMEM;
    return problem_set(problem, ERR_UNAVAILABLE, "cannot start the controller: %.*s", (int)text.size,
                       (const char *)buf_head(&text));
}

static int run(const char *program, char **env, uint64_t deadline, Problem *problem)
{
    _cleanup_(buf_deinit) Buf words = BUF_NULL;
    _cleanup_(closep) int ours = -1;
    _cleanup_(closep) int theirs = -1;
    char *argv[] = {(char *)program, (char *)"--detach", NULL};
    int ends[2] = {-1, -1}, r;
    int status;
    pid_t pid = -1;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return problem_set(problem, ERR_INTERNAL, "pipe: %s", strerror(errno));
    ours = ends[0];
    theirs = ends[1];
    r = spawn_apart(&pid, argv, env, (int[]){-1, -1, theirs});
    if (r == -ENOENT && !strchr(program, '/'))
        return problem_set(
            problem, ERR_UNAVAILABLE,
            "no controller is running, and limpetd is not installed; install it, or set LIMPETD to "
            "its path");
    if (r < 0)
        return problem_set(problem, ERR_UNAVAILABLE, "%s: %s", program, strerror(-r));
    close_fd(&theirs);
    r = listen_to(pid, ours, deadline, &words);
    if (r < 0)
        kill(pid, SIGKILL);
    status = spawn_reap(pid);
    if (r < 0)
        return problem_set(problem, ERR_UNAVAILABLE, "%s --detach: %s", program, strerror(-r));
    return report(program, status, &words, problem);
}

int launch_controller(const char *socket, uint64_t deadline, Problem *problem)
{
    _cleanup_(freep) char *setting = NULL;
    _cleanup_(freep) char **env = NULL;
    char program[PATH_MAX];

    if (limpetd_find(program) < 0)
        return problem_set(problem, ERR_UNAVAILABLE, "the path in LIMPETD is too long");
    if (asprintf(&setting, "LIMPET_SOCKET=%s", socket) < 0)
        setting = NULL;
    env = setting ? environment_with(setting) : NULL;
    if (!env)
        return -ENOMEM;
    return run(program, env, deadline, problem);
}
