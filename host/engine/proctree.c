#include "host/engine/proctree.h"

#include <errno.h>

#include "proto/base/proc.h"

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
