#include "host/engine/cgroup_move.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "host/engine/capture.h"
#include "host/engine/cgroup.h"

#define MEMBERS_LIMIT (256u << 10)

static atomic_flag moving = ATOMIC_FLAG_INIT;

static bool is_member(const char *members)
{
    long own = getpid();

    for (char *end; *members; members = end) {
        long pid = strtol(members, &end, 10);

        if (end == members)
            break;
        if (pid == own)
            return true;
    }
    return false;
}

/* From the group it is in into that group. What the file says decides, not the path. */
static void move_nowhere(void)
{
    Cgroup group _cleanup_(cgroup_deinit) = {0};
    char *members _cleanup_(freep) = NULL, path[PATH_MAX];
    int fd _cleanup_(closep) = -1;

    if (cgroup_init(&group, getpid(), "memory") < 0)
        return;
    snprintf(path, sizeof(path), "%s/cgroup.procs", group.directory);
    if (capture_file(path, MEMBERS_LIMIT, &members) < 0 || !is_member(members))
        return;
    fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd >= 0 && write(fd, "0", 1) < 0)
        return;
}

static void *run(void *userdata)
{
    move_nowhere();
    atomic_flag_clear(&moving);
    return NULL;
}

void cgroup_move_expected(void)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;

    if (atomic_flag_test_and_set(&moving))
        return;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&thread, &detached, run, NULL) != 0)
        atomic_flag_clear(&moving);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
}
