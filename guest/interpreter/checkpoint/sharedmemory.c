#include "guest/interpreter/checkpoint/sharedmemory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#include "guest/interpreter/checkpoint/lines.h"
#include "guest/interpreter/checkpoint/pages.h"

/* Of all of it: each copy has its own, changed or not, and somebody may wait while it is made. */
#define COPIED_MAX ((size_t)16 << 20)

#define DELETED " (deleted)"

/* Semaphores say nothing about variables. */
#define SEMAPHORE "/dev/shm/sem."

/* What Linux 6.11 and later answer about one mapping, as linux/fs.h there has it. */
typedef struct MapQuery {
    uint64_t size, flags, address;
    uint64_t start, end, vma_flags, page_size, offset, inode;
    uint32_t device_major, device_minor;
    uint32_t name_size, build_id_size;
    uint64_t name, build_id;
} MapQuery;

#define MAP_QUERY       _IOWR('f', 17, MapQuery)
#define QUERY_WRITABLE  0x02u
#define QUERY_SHARED    0x08u
#define QUERY_OR_BEHIND 0x10u /* the address, or the next one there is */

typedef struct Mapping {
    uintptr_t start, end;
    const char *name;
} Mapping;

static bool has_name(const char *name)
{
    size_t n = strlen(name), deleted = strlen(DELETED);

    return n > 0 && (n < deleted || strcmp(name + n - deleted, DELETED) != 0);
}

/* As the kernel reads it: behind the end of its file a look would end the process. */
static bool read_memory(void *to, uintptr_t at, size_t size)
{
    int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : pread(fd, to, size, (off_t)at);

    close_fd(&fd);
    return n == (ssize_t)size;
}

/* The same memory, not shared any more; what cannot be done leaves it as it is. */
static bool make_private(const Mapping *mapping)
{
    size_t size = mapping->end - mapping->start;
    void *at = (void *)mapping->start; /* NOLINT */
    void *copy = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (copy == MAP_FAILED)
        return false;
    if (read_memory(copy, mapping->start, size) &&
        mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, at) != MAP_FAILED)
        return true;
    munmap(copy, size);
    return false;
}

static bool leave(SharedMemory *shared, const Mapping *mapping, size_t *left)
{
    size_t size = mapping->end - mapping->start;

    if (has_name(mapping->name) || size > *left)
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

typedef struct MappingWalk {
    Lines maps;
    bool asks; /* the kernel for the next one, without a look at all the others, which are hundreds */
    uintptr_t at;
    char name[PATH_MAX + sizeof(DELETED)];
} MappingWalk;

static bool ask_next(MappingWalk *walk, Mapping *ret)
{
    MapQuery query = {.size = sizeof(query),
                      .flags = QUERY_WRITABLE | QUERY_SHARED | QUERY_OR_BEHIND,
                      .address = walk->at,
                      .name = (uintptr_t)walk->name,
                      .name_size = sizeof(walk->name)};

    walk->name[0] = '\0';
    if (ioctl(walk->maps.fd, MAP_QUERY, &query) < 0) {
        walk->asks = errno == ENOENT;
        return false;
    }
    walk->at = query.end;
    *ret = (Mapping){query.start, query.end, walk->name};
    return true;
}

/* "START-END rw-s OFFSET DEVICE INODE   NAME" */
static bool read_next(MappingWalk *walk, Mapping *ret)
{
    const char *line;
    char mode[5];
    int name;

    while ((line = lines_next(&walk->maps))) {
        if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %*s %*s %n", &ret->start, &ret->end, mode,
                   &name) != 3 ||
            mode[1] != 'w' || mode[3] != 's')
            continue;
        ret->name = line + name;
        return true;
    }
    return false;
}

/* The next one that is shared and may be written. */
static bool walk_next(MappingWalk *walk, Mapping *ret)
{
    if (walk->asks && ask_next(walk, ret))
        return true;
    return !walk->asks && read_next(walk, ret);
}

void sharedmemory_leave(SharedMemory *shared, Notes *notes)
{
    MappingWalk walk = {.asks = true};
    Mapping mapping;
    size_t left = COPIED_MAX;
    bool stays = false;

    *shared = (SharedMemory){0};
    if (lines_open(&walk.maps, "/proc/self/maps") < 0)
        return;
    while (walk_next(&walk, &mapping))
        stays |= !leave(shared, &mapping, &left) && strncmp(mapping.name, SEMAPHORE, strlen(SEMAPHORE)) != 0;
    lines_close(&walk.maps);
    if (stays)
        notes_add(notes,
                  "shared memory that has a name, or of more than 16 MiB, is not brought back: all copies "
                  "of the session have the same");
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

int sharedmemory_enter(SharedMemory *shared)
{
    int r = 0;

    for (size_t i = 0; i < shared->n && r == 0; i++)
        r = make_shared(&shared->parts[i]);
    pages_free(shared->parts, shared->n, sizeof(*shared->parts));
    *shared = (SharedMemory){0};
    return r;
}
