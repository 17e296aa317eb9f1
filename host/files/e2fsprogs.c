#include "host/files/e2fsprogs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

static const char *const directories[] = {"/usr/sbin", "/sbin", "/usr/local/sbin"};

#define PROGRAM_SIZE 64

static bool find_program(char ret[static PROGRAM_SIZE], const char *name)
{
    for (size_t i = 0; i < ARRAY_SIZE(directories); i++) {
        snprintf(ret, PROGRAM_SIZE, "%s/%s", directories[i], name);
        if (access(ret, X_OK) == 0)
            return true;
    }
    return false;
}

/* The first line of what it said, in which it names itself. */
static int say_failed(int said, const char *failed, Problem *problem)
{
    char text[256];
    ssize_t n = pread(said, text, sizeof(text) - 1, 0);

    text[MAX(n, 0)] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return problem_set(problem, ERR_INTERNAL, "%s: %s", failed, *text ? text : "no message");
}

static int wait_for(pid_t pid, int well)
{
    int status;

    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -errno;
    return WIFEXITED(status) && (WEXITSTATUS(status) & ~well) == 0 ? 0 : -ECHILD;
}

/* Signals are as in a process of its own: the thread that starts it may take none. */
static int spawn_quietly(const char *program, const char *const argv[], int said, pid_t *ret_pid)
{
    static const char *const environment[] = {"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "MKE2FS_CONFIG=/dev/null",
                                              "E2FSCK_CONFIG=/dev/null", NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    int r;

    sigemptyset(&none);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, said, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, said, STDERR_FILENO);
    r = posix_spawn(ret_pid, program, &actions, &attributes, (char *const *)argv, (char *const *)environment);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return -r;
}

int e2fsprogs_run(const char *const argv[], int well, const char *failed, Problem *problem)
{
    char program[PROGRAM_SIZE];
    pid_t pid = -1;

    if (!find_program(program, argv[0]))
        return problem_set(problem, ERR_INTERNAL, "%s is not installed; install the package e2fsprogs",
                           argv[0]);
    _cleanup_(closep) int said = memfd_create(argv[0], MFD_CLOEXEC);
    int r = said < 0 ? -errno : spawn_quietly(program, argv, said, &pid);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot run %s: %s", program, strerror(-r));
    return wait_for(pid, well) < 0 ? say_failed(said, failed, problem) : 0;
}

const char *e2fsprogs_path(char ret[static E2FSPROGS_PATH_SIZE], int file)
{
    snprintf(ret, E2FSPROGS_PATH_SIZE, "/proc/%d/fd/%d", (int)getpid(), file);
    return ret;
}
