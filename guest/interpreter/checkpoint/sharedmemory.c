#include "guest/interpreter/checkpoint/sharedmemory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "guest/interpreter/checkpoint/no_malloc.h"

/* Bytes in all: each copy has its own, changed or not, and somebody may wait while it is made. */
#define COPIED_MAX ((size_t)16 << 20)

#define DELETED " (deleted)"

/* Semaphores say nothing about variables. */
#define SEMAPHORE "/dev/shm/sem."

/* Linux's answer about one mapping, from 6.11 on, as linux/fs.h there has it. */
typedef struct MapQuery {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t device_major, device_minor;
    uint32_t name_size, build_id_size;
    uint64_t name, build_id;
} MapQuery;

#define MAP_QUERY        _IOWR('f', 17, MapQuery)
#define QUERY_WRITABLE   0x02u
#define QUERY_EXECUTABLE 0x04u
#define QUERY_SHARED     0x08u
#define QUERY_OR_BEHIND  0x10u /* the address, or the next one there is */

typedef struct Mapping {
    uintptr_t start, end;
    uint64_t device, inode;
    bool writable, executable, named, semaphore;
} Mapping;

typedef struct Mappings {
    Mapping *items;
    size_t n;
} Mappings;

/* ---- finding ---- */

static bool has_name(const char *name)
{
    size_t n = strlen(name), deleted = strlen(DELETED);

    return n > 0 && (n < deleted || strcmp(name + n - deleted, DELETED) != 0);
}

static void add(Mappings *all, Mapping mapping, const char *name)
{
    Mapping *items = pages_room(all->items, all->n, sizeof(*items));

    if (!items)
        return;
    mapping.named = has_name(name);
    mapping.semaphore = strncmp(name, SEMAPHORE, strlen(SEMAPHORE)) == 0;
    items[all->n++] = mapping;
    all->items = items;
}

/* Finds shared mappings, without a look at all the others, which are hundreds. False where the kernel cannot.
 */
static bool ask_kernel(int maps, Mappings *all)
{
    char name[PATH_MAX + sizeof(DELETED)];
    MapQuery query = {.size = sizeof(query), .flags = QUERY_SHARED | QUERY_OR_BEHIND};

    for (;; query.address = query.end) {
        query.name = (uintptr_t)name;
        query.name_size = sizeof(name);
        name[0] = '\0';
        if (ioctl(maps, MAP_QUERY, &query) < 0)
            return errno == ENOENT;
        add(all,
            (Mapping){.start = query.start,
                      .end = query.end,
                      .device = (uint64_t)query.device_major << 32 | query.device_minor,
                      .inode = query.inode,
                      .writable = query.vma_flags & QUERY_WRITABLE,
                      .executable = query.vma_flags & QUERY_EXECUTABLE},
            name);
    }
}

/* "START-END rw-s OFFSET MAJOR:MINOR INODE NAME" */
static void read_line(const char *line, Mappings *all)
{
    unsigned major, minor;
    Mapping mapping = {0};
    char mode[5];
    int name;

    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %x:%x %" SCNu64 " %n", &mapping.start, &mapping.end,
               mode, &major, &minor, &mapping.inode, &name) != 6 ||
        mode[3] != 's')
        return;
    mapping.device = (uint64_t)major << 32 | minor;
    mapping.writable = mode[1] == 'w';
    mapping.executable = mode[2] == 'x';
    add(all, mapping, line + name);
}

static void find_all(Mappings *all)
{
    Lines maps _cleanup_(lines_close);
    const char *line;

    if (lines_open(&maps, "/proc/self/maps") < 0 || ask_kernel(maps.fd, all))
        return;
    all->n = 0;
    while ((line = lines_next(&maps)))
        read_line(line, all);
}

/* ---- leaving and entering ---- */

/* As the kernel reads it: behind the end of its file a look would end the process. */
static bool read_memory(char *to, const char *from, size_t size)
{
    int ends[2];
    size_t done = 0;
    ssize_t n = 1;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return false;
    while (done < size && n > 0) {
        n = write(ends[1], from + done, size - done);
        n = n > 0 ? read(ends[0], to + done, (size_t)n) : n;
        done += (size_t)MAX(n, 0);
    }
    close(ends[0]);
    close(ends[1]);
    return done == size;
}

/* The same memory, not shared any more; what cannot be done leaves it as it is. */
static bool make_private(const Mapping *mapping)
{
    size_t size = mapping->end - mapping->start;
    void *at = (void *)mapping->start; /* NOLINT */
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return false;
    if (read_memory(copy, at, size) &&
        mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED)
        return true;
    munmap(copy, size);
    return false;
}

/* Memory that is mapped twice may be written in one place and read, or run, in another. */
static bool is_mapped_once(const Mappings *all, const Mapping *mapping)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n; i++)
        n += all->items[i].device == mapping->device && all->items[i].inode == mapping->inode;
    return n == 1 && !mapping->executable;
}

static bool leave(SharedMemory *shared, const Mappings *all, const Mapping *mapping, size_t *left)
{
    size_t size = mapping->end - mapping->start;

    if (mapping->named || size > *left || !is_mapped_once(all, mapping))
        return false;

    SharedPart *parts = pages_room(shared->parts, shared->n, sizeof(*parts));
    if (!parts)
        return false;
    shared->parts = parts;
    if (!make_private(mapping))
        return false;
    parts[shared->n++] = (SharedPart){(char *)mapping->start, size}; /* NOLINT */
    *left -= size;
    return true;
}

void sharedmemory_leave(SharedMemory *shared)
{
    Mappings all = {0};
    size_t left = COPIED_MAX;

    *shared = (SharedMemory){0};
    find_all(&all);
    for (size_t i = 0; i < all.n; i++) {
        const Mapping *mapping = &all.items[i];

        shared->stays |= mapping->writable && !leave(shared, &all, mapping, &left) && !mapping->semaphore;
    }
    pages_free(all.items, all.n, sizeof(*all.items));
}

static int make_shared(const SharedPart *part)
{
    void *copy = mmap(NULL, part->size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return -errno;
    memcpy(copy, part->start, part->size);
    if (mremap(copy, part->size, part->size, MREMAP_MAYMOVE | MREMAP_FIXED, part->start) != MAP_FAILED)
        return 0;
    munmap(copy, part->size);
    return -ENOMEM;
}

int sharedmemory_enter(SharedMemory *shared, Notes *notes)
{
    int r = 0;

    if (shared->stays)
        notes_add(notes,
                  "shared memory that has a name, is mapped twice, or of more than 16 MiB, is not brought "
                  "back: all copies of the session have the same");
    for (size_t i = 0; i < shared->n && r == 0; i++)
        r = make_shared(&shared->parts[i]);
    pages_free(shared->parts, shared->n, sizeof(*shared->parts));
    *shared = (SharedMemory){0};
    return r;
}
