#include "guest/interpreter/arena.h"

#include <pthread.h>
#include <sys/mman.h>

#include "guest/interpreter/allowance.h"
#include "guest/interpreter/pyref.h"

#define ARENA       ((size_t)1 << 20) /* size that Python asks for */
#define CHUNK       ((size_t)2 << 20) /* a huge page: two arenas */
#define REGION      ((size_t)1 << 30) /* addresses that are reserved at once */
#define CHUNKS      (REGION / CHUNK)
#define REGIONS_MAX 256u

/* Sessions that hold little stay as small as with plain pages. */
#define PLAIN_MAX 16u

/* Processes that may hold less than this get no huge pages at all. The kernel frees the huge pages of a
 * process that it has killed for memory all at once and last, and until then takes the next process: with a
 * checkpoint of a session that is full of objects, the interpreter. */
#define HUGE_LEAST ((uint64_t)768 << 20)

/* Addresses only: a chunk counts as memory of the process from its first arena to its last. */
typedef struct Region {
    char *base;
    size_t arenas;          /* in use */
    uint8_t halves[CHUNKS]; /* bit 0 and 1: which arenas of the chunk are in use */
} Region;

static struct {
    pthread_mutex_t lock; /* interpreters within the process have locks of their own */
    bool may_be_huge;
    size_t plain; /* arenas in plain pages */
    Region *regions[REGIONS_MAX];
    size_t n;
} arenas = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void *map(size_t size, int protection)
{
    void *base = mmap(NULL, size, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    return base == MAP_FAILED ? NULL : base;
}

/* More than it takes, so that it contains a region that begins where a huge page may. */
static char *reserve(void)
{
    char *start = map(REGION + CHUNK, PROT_NONE);

    if (!start)
        return NULL;
    char *base = (char *)(((uintptr_t)start + CHUNK - 1) & ~(uintptr_t)(CHUNK - 1));
    if (base > start)
        munmap(start, (size_t)(base - start));
    munmap(base + REGION, (size_t)(start + CHUNK - base));
    madvise(base, REGION, MADV_HUGEPAGE);
    return base;
}

static Region *add_region(void)
{
    if (arenas.n == REGIONS_MAX)
        return NULL;

    Region *region = calloc(1, sizeof(*region));
    if (!region || !(region->base = reserve())) {
        free(region);
        return NULL;
    }
    return arenas.regions[arenas.n++] = region;
}

static void *take_half(Region *region, size_t chunk)
{
    unsigned half = region->halves[chunk] & 1;

    region->halves[chunk] |= (uint8_t)(1 << half);
    region->arenas++;
    return region->base + chunk * CHUNK + half * ARENA;
}

/* Takes half of a chunk: of one that is half in use, so that chunks get empty again; otherwise of a new
 * one. */
static void *take_from(Region *region)
{
    size_t empty = CHUNKS;

    for (size_t i = 0; i < CHUNKS; i++) {
        if (region->halves[i] == 1 || region->halves[i] == 2)
            return take_half(region, i);
        if (region->halves[i] == 0 && empty == CHUNKS)
            empty = i;
    }
    if (mprotect(region->base + empty * CHUNK, CHUNK, PROT_READ | PROT_WRITE) < 0)
        return NULL;
    return take_half(region, empty);
}

static void *take_huge(void)
{
    Region *region = NULL;

    for (size_t i = 0; i < arenas.n && !region; i++) {
        if (arenas.regions[i]->arenas < 2 * CHUNKS)
            region = arenas.regions[i];
    }
    if (!region)
        region = add_region();
    return region ? take_from(region) : NULL;
}

static bool give_back(char *arena)
{
    for (size_t i = 0; i < arenas.n; i++) {
        Region *region = arenas.regions[i];

        if (arena < region->base || arena >= region->base + REGION)
            continue;
        size_t chunk = (size_t)(arena - region->base) / CHUNK;
        unsigned half = (size_t)(arena - region->base) / ARENA % 2;
        region->halves[chunk] &= (uint8_t) ~(1 << half);
        region->arenas--;
        if (region->halves[chunk] == 0) {
            madvise(region->base + chunk * CHUNK, CHUNK, MADV_DONTNEED);
            mprotect(region->base + chunk * CHUNK, CHUNK, PROT_NONE);
        }
        return true;
    }
    return false;
}

void *arena_allocate(void *unused, size_t size)
{
    void *arena = NULL;

    if (!allowance_has(size))
        return NULL;
    pthread_mutex_lock(&arenas.lock);
    if (size == ARENA && arenas.plain >= PLAIN_MAX && arenas.may_be_huge)
        arena = take_huge();
    if (!arena && (arena = map(size, PROT_READ | PROT_WRITE)))
        arenas.plain++;
    pthread_mutex_unlock(&arenas.lock);
    return arena;
}

void arena_free(void *unused, void *arena, size_t size)
{
    pthread_mutex_lock(&arenas.lock);
    if (!give_back(arena)) {
        munmap(arena, size);
        arenas.plain--;
    }
    pthread_mutex_unlock(&arenas.lock);
}

static void lock(void)
{
    pthread_mutex_lock(&arenas.lock);
}

static void unlock(void)
{
    pthread_mutex_unlock(&arenas.lock);
}

void arena_install(void)
{
    arenas.may_be_huge = allowance_most() == 0 || allowance_most() >= HUGE_LEAST;
    pthread_atfork(lock, unlock, unlock);
    PyObject_SetArenaAllocator(&(PyObjectArenaAllocator){NULL, arena_allocate, arena_free});
}
