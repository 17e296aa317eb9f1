#include "host/engine/processes.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/proc.h"

/* ---- below a process ---- */

typedef struct Listing {
    pid_t *pids;
    size_t count;
} Listing;

static int add(void *userdata, pid_t pid)
{
    Listing *listing = userdata;

    if (listing->count == PROCTREE_MAX)
        return -ENOBUFS;
    listing->pids[listing->count++] = pid;
    return 0;
}

size_t proctree_list(pid_t first, pid_t ret[PROCTREE_MAX])
{
    Listing listing = {ret, 1};

    ret[0] = first;
    for (size_t i = 0; i < listing.count; i++)
        proc_each_child(ret[i], add, &listing);
    return listing.count;
}

int proctree_memory(pid_t first, uint64_t *ret_bytes)
{
    pid_t pids[PROCTREE_MAX];
    size_t count = proctree_list(first, pids);
    uint64_t bytes = 0;

    for (size_t i = 0; i < count; i++) {
        ProcMemory memory;
        int r = proc_memory(&memory, pids[i]);

        if (r < 0 && i == 0)
            return r;
        if (r == 0)
            bytes += memory.resident;
    }
    *ret_bytes = bytes;
    return 0;
}

/* ---- of an earlier controller ---- */

#define LINE_SIZE (4 * PATH_MAX)

/* The command line of a process of this user, every argument ended by '\0'; its size, 0 when there is none.
 */
static size_t read_arguments(pid_t pid, char line[LINE_SIZE + 1])
{
    char path[64];
    struct stat st;
    ssize_t n;

    snprintf(path, sizeof(path), "/proc/%d", (int)pid);
    if (stat(path, &st) < 0 || st.st_uid != geteuid())
        return 0;
    n = proc_read(pid, "cmdline", line, LINE_SIZE + 1);
    return (size_t)MAX(n, 0);
}

/* Returns the argument behind `option`, or NULL. The program's own name is no option. */
static const char *value_of(const char *line, size_t size, const char *option)
{
    const char *end = line + size, *at = line + strlen(line) + 1;

    for (; at < end; at += strlen(at) + 1)
        if (strcmp(at, option) == 0)
            return at + strlen(at) + 1 < end ? at + strlen(at) + 1 : NULL;
    return NULL;
}

static bool has_value(pid_t pid, const char *option, const char *value)
{
    char line[LINE_SIZE + 1];
    size_t size = read_arguments(pid, line);
    const char *own = value_of(line, size, option);

    return own && strcmp(own, value) == 0;
}

bool process_is(pid_t pid, const char *option, const char *value)
{
    ProcStat stat;

    return has_value(pid, option, value) &&
           !(proc_stat(&stat, pid) == 0 && stat.parent > 0 && has_value(stat.parent, option, value));
}

typedef struct ProcessSearch {
    const char *option, *prefix;
    void (*found)(void *userdata, pid_t pid, const char *value);
    void *userdata;
} ProcessSearch;

static int look_at(void *userdata, pid_t pid)
{
    const ProcessSearch *search = userdata;
    char line[LINE_SIZE + 1];
    size_t size = read_arguments(pid, line);
    const char *value = value_of(line, size, search->option);

    if (value && strncmp(value, search->prefix, strlen(search->prefix)) == 0 &&
        process_is(pid, search->option, value))
        search->found(search->userdata, pid, value);
    return 0;
}

void process_find(const char *option, const char *prefix,
                  void (*found)(void *userdata, pid_t pid, const char *value), void *userdata)
{
    proc_each(look_at, &(ProcessSearch){option, prefix, found, userdata});
}
