#include "guest/interpreter/oom_score.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/interpreter/memory.h"
#include "proto/base/base.h"

#define FILE_NAME "/proc/self/oom_score_adj"
#define MOST      1000
#define LIVE      100 /* above checkpoints that somebody asked for */

static struct {
    uint64_t memory;
    int base; /* the sandbox's at the start: the kernel refuses less */
} scores;

static void oom_score_set(int score)
{
    _cleanup_(closep) int fd = open(FILE_NAME, O_WRONLY | O_CLOEXEC);
    char text[16];
    int n = snprintf(text, sizeof(text), "%d", MIN(score, MOST));

    if (fd >= 0 && write(fd, text, (size_t)n) < 0)
        return; /* somebody who may not say so goes without */
}

/* The score of this process as it is. */
static int oom_score_of(void)
{
    _cleanup_(closep) int fd = open(FILE_NAME, O_RDONLY | O_CLOEXEC);
    char text[16];
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    text[MAX(n, 0)] = '\0';
    return atoi(text);
}

void oom_score_init(uint64_t memory)
{
    scores.memory = memory;
    scores.base = oom_score_of();
    pthread_atfork(NULL, NULL, oom_score_child);
    oom_score_live();
}

void oom_score_live(void)
{
    oom_score_set(scores.base + LIVE);
}

/* The kernel takes the process with the highest sum of its resident memory and its score's part of all: what
 * this one lacks of the most that the other is granted, and it comes first until the other has more. */
static int score_before_live(void)
{
    uint64_t held = 0;

    if (scores.memory == 0 || memory_limit_most() == 0 || memory_limit_held(&held) < 0)
        return MOST;

    uint64_t lacks = memory_limit_most() - MIN(held, memory_limit_most());
    return scores.base + LIVE + (int)(MIN(lacks, scores.memory) * MOST / scores.memory);
}

void oom_score_checkpoint(bool ends_first)
{
    oom_score_set(ends_first ? score_before_live() : scores.base);
}

void oom_score_child(void)
{
    oom_score_set(MOST);
}

/* A program that a cell starts goes first when memory runs out. Python starts them with vfork(), which runs
 * no handlers of fork(), and then exec, or with posix_spawn(). These are found before the C library's. */
#pragma GCC visibility push(default)

int execve(const char *path, char *const arguments[], char *const environment[])
{
    int score = oom_score_of();

    oom_score_child();
    int r = (int)syscall(SYS_execve, path, arguments, environment);
    int error = errno;
    oom_score_set(score); /* failed: still the program that it was */
    errno = error;
    return r;
}

int execv(const char *path, char *const arguments[])
{
    return execve(path, arguments, environ);
}

typedef int Spawn(pid_t *ret, const char *program, const posix_spawn_file_actions_t *actions,
                  const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[]);

/* The child has its score from this process, as it has the rest. */
static int spawn(const char *name, pid_t *ret, const char *program, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    Spawn *real;
    int score = oom_score_of();

    *(void **)&real = dlsym(RTLD_NEXT, name);
    oom_score_child();
    int r = real(ret, program, actions, attributes, arguments, environment);
    oom_score_set(score);
    return r;
}

int posix_spawn(pid_t *ret, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return spawn("posix_spawn", ret, path, actions, attributes, arguments, environment);
}

int posix_spawnp(pid_t *ret, const char *file, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return spawn("posix_spawnp", ret, file, actions, attributes, arguments, environment);
}
