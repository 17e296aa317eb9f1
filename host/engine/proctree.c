#include "host/engine/proctree.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "host/engine/capture.h"

#define FILE_LIMIT (64u << 10)

/* Appends the children of one thread. */
static size_t add_children(const char *path, pid_t *ret, size_t count)
{
    char *text _cleanup_(freep) = NULL;

    if (capture_file(path, FILE_LIMIT, &text) < 0)
        return count;
    for (char *at = text, *end; count < PROCTREE_MAX; at = end) {
        long pid = strtol(at, &end, 10);

        if (end == at)
            break;
        ret[count++] = (pid_t)pid;
    }
    return count;
}

static size_t add_children_of(pid_t pid, pid_t *ret, size_t count)
{
    char path[300];
    struct dirent *thread;
    DIR *threads;

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    threads = opendir(path);
    if (!threads)
        return count;
    while ((thread = readdir(threads))) {
        if (thread->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "/proc/%d/task/%s/children", (int)pid, thread->d_name);
        count = add_children(path, ret, count);
    }
    closedir(threads);
    return count;
}

size_t proctree_list(pid_t first, pid_t ret[PROCTREE_MAX])
{
    size_t count = 1;

    ret[0] = first;
    for (size_t i = 0; i < count; i++)
        count = add_children_of(ret[i], ret, count);
    return count;
}

int proctree_memory(pid_t first, uint64_t *ret_bytes)
{
    pid_t pids[PROCTREE_MAX];
    size_t count = proctree_list(first, pids);
    uint64_t pages = 0, resident;

    for (size_t i = 0; i < count; i++) {
        char *text _cleanup_(freep) = NULL;
        char path[64];
        int r;

        snprintf(path, sizeof(path), "/proc/%d/statm", (int)pids[i]);
        r = capture_file(path, 256, &text);
        if (r < 0 && i == 0)
            return r;
        if (r == 0 && sscanf(text, "%*u %" SCNu64, &resident) == 1)
            pages += resident;
    }
    *ret_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}
