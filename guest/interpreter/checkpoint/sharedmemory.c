#include "guest/interpreter/checkpoint/sharedmemory.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/ioctl.h>

#include "guest/interpreter/checkpoint/lines.h"

#define MAPS "/proc/self/maps"

/* Semaphores, which multiprocessing's locks are, say nothing about variables. */
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

typedef enum Sharing {
    SHARES_NONE,
    SHARES_ONE,
    SHARING_UNKNOWN,
} Sharing;

/* Without a look at all the others, which are hundreds. */
static Sharing ask_kernel(int maps)
{
    char name[sizeof(SEMAPHORE) + NAME_MAX];
    MapQuery query = {.size = sizeof(query), .flags = QUERY_WRITABLE | QUERY_SHARED | QUERY_OR_BEHIND};

    for (;; query.address = query.end) {
        query.name = (uintptr_t)name;
        query.name_size = sizeof(name);
        name[0] = '\0';
        if (ioctl(maps, MAP_QUERY, &query) < 0)
            return errno == ENOENT ? SHARES_NONE : errno == ENAMETOOLONG ? SHARES_ONE : SHARING_UNKNOWN;
        if (query.name_size == 0 || strncmp(name, SEMAPHORE, strlen(SEMAPHORE)) != 0)
            return SHARES_ONE;
    }
}

/* "ADDRESS-ADDRESS rw-s ..." */
static bool is_shared(const char *line)
{
    const char *mode = strchr(line, ' ');

    return mode && strlen(mode) > 4 && mode[2] == 'w' && mode[4] == 's' && !strstr(line, SEMAPHORE);
}

static bool read_all(Lines *maps)
{
    const char *line;
    bool found = false;

    while (!found && (line = lines_next(maps)))
        found = is_shared(line);
    return found;
}

void sharedmemory_note(Notes *notes)
{
    Lines maps _cleanup_(lines_close);

    if (lines_open(&maps, MAPS) < 0)
        return;
    Sharing found = ask_kernel(maps.fd);
    if (found == SHARES_ONE || (found == SHARING_UNKNOWN && read_all(&maps)))
        notes_add(notes, "the content of shared memory (multiprocessing, mmap) is not brought back");
}
