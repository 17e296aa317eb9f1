#include "guest/interpreter/checkpoint/pages.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t whole(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return (MAX(bytes, 1u) + page - 1) / page * page;
}

void *pages_room(void *items, size_t n, size_t size)
{
    size_t before = whole(n * size), after = whole((n + 1) * size);
    void *room = items;

    if (!items)
        room = mmap(NULL, after, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    else if (after != before)
        room = mremap(items, before, after, MREMAP_MAYMOVE);
    return room == MAP_FAILED ? NULL : room;
}

void pages_free(void *items, size_t n, size_t size)
{
    if (items)
        munmap(items, whole(n * size));
}
