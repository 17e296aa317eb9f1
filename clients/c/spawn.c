#include "clients/c/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>

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
