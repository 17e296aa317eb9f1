#include "guest/interpreter/memory.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/interpreter/pyref.h"
#include "proto/base/base.h"
#include "proto/base/proc.h"

#define MIB (INT64_C(1) << 20)

/* For what is not counted. The least is what the kernel needs to get by with while it frees the memory of a
 * process it has killed: with less it takes a second one, the interpreter. */
#define RESERVE_PART  8
#define RESERVE_LEAST (40 * MIB)

/* Beyond what cells may hold: what one gets when all is taken, how far that goes, and the work around them.
 */
#define CELL_LEAST  (2 * MIB)
#define CELL_EXCESS (8 * MIB)
#define WORK_EXCESS (16 * MIB)

/* A part of what is left may be given before the next look: what was given need not be there yet. */
#define CREDIT_PART 4

#define NEAR_PARTS 9
#define NEAR_WHOLE 10

static struct {
    int64_t memory;         /* bytes that cells may hold; 0: there is no limit */
    _Atomic int64_t limit;  /* now */
    _Atomic int64_t credit; /* may be given without a look */
    _Atomic bool scarce;    /* something has been refused */
} memory_limit;

void memory_limit_init(uint64_t memory)
{
    int64_t whole = (int64_t)MIN(memory, (uint64_t)INT64_MAX);

    /* The limit is 0, and the kernel is left to judge, in a sandbox that small. */
    memory_limit.memory = MAX(whole - MAX(whole / RESERVE_PART, RESERVE_LEAST), 0);
    memory_limit_end_cell();
}

/* Finds the bytes that the process holds. 0 or a negative errno. */
static int memory_limit_held(uint64_t *ret)
{
    ProcMemory memory;
    int r = proc_memory(&memory, 0);

    if (r == 0)
        *ret = memory.resident - MIN(memory.shared, memory.resident);
    return r;
}

static bool look(int64_t size)
{
    int64_t limit = atomic_load_explicit(&memory_limit.limit, memory_order_relaxed);
    int saved = errno;
    uint64_t held = 0;
    int r = memory_limit_held(&held);

    errno = saved;
    if (r < 0)
        return true; /* no descriptor is free, say: the kernel is left to judge */

    int64_t room = limit - (int64_t)held - size;
    atomic_store_explicit(&memory_limit.credit, MAX(room, 0) / CREDIT_PART, memory_order_relaxed);
    if (room < 0)
        atomic_store_explicit(&memory_limit.scarce, true, memory_order_relaxed);
    return room >= 0;
}

/* Returns whether a block of `size` bytes more is within it. For allocators: from any thread, takes no lock
 * and allocates nothing; mostly a subtraction, and a look at /proc once a part of what was left has been
 * given. Threads may take the same credit twice: it is a part of the room, and what it was used for is seen
 * at the next look. */
static bool memory_limit_has(size_t size)
{
    int64_t credit = atomic_load_explicit(&memory_limit.credit, memory_order_relaxed);

    if (memory_limit.memory == 0)
        return true;
    if (size > PTRDIFF_MAX)
        return false;
    if ((int64_t)size > credit)
        return look((int64_t)size);
    atomic_store_explicit(&memory_limit.credit, credit - (int64_t)size, memory_order_relaxed);
    return true;
}

bool memory_limit_is_scarce(void)
{
    return atomic_load_explicit(&memory_limit.scarce, memory_order_relaxed);
}

static void set_limit(int64_t limit)
{
    atomic_store_explicit(&memory_limit.limit, limit, memory_order_relaxed);
}

/* Also takes back what has been given for the work around cells. */
static void use_rest(void)
{
    uint64_t held = 0;

    memory_limit_held(&held);
    int64_t least = (int64_t)held + CELL_LEAST;
    set_limit(MIN(MAX(least, memory_limit.memory), memory_limit.memory + CELL_EXCESS));
    atomic_store_explicit(&memory_limit.credit, 0, memory_order_relaxed);
    atomic_store_explicit(&memory_limit.scarce, least > memory_limit.memory, memory_order_relaxed);
}

void memory_limit_begin_cell(void)
{
    if (memory_limit_is_scarce())
        use_rest();
    else
        set_limit(memory_limit.memory);
}

void memory_limit_end_cell(void)
{
    set_limit(memory_limit.memory + WORK_EXCESS);
}

uint64_t memory_limit_most(void)
{
    return memory_limit.memory == 0 ? 0 : (uint64_t)(memory_limit.memory + WORK_EXCESS);
}

static bool is_near(uint64_t bytes)
{
    return memory_limit.memory > 0 && bytes >= (uint64_t)memory_limit.memory / NEAR_WHOLE * NEAR_PARTS;
}

bool memory_limit_is_nearly_taken(uint64_t peak)
{
    uint64_t held;

    return is_near(peak) && memory_limit_held(&held) == 0 && is_near(held);
}

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

/* The two functions that Python gets. NULL when there is no memory, or no more may be held. */
static void *arena_allocate(void *unused, size_t size)
{
    void *arena = NULL;

    if (!memory_limit_has(size))
        return NULL;
    pthread_mutex_lock(&arenas.lock);
    if (size == ARENA && arenas.plain >= PLAIN_MAX && arenas.may_be_huge)
        arena = take_huge();
    if (!arena && (arena = map(size, PROT_READ | PROT_WRITE)))
        arenas.plain++;
    pthread_mutex_unlock(&arenas.lock);
    return arena;
}

static void arena_free(void *unused, void *arena, size_t size)
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
    arenas.may_be_huge = memory_limit_most() == 0 || memory_limit_most() >= HUGE_LEAST;
    pthread_atfork(lock, unlock, unlock);
    PyObject_SetArenaAllocator(&(PyObjectArenaAllocator){NULL, arena_allocate, arena_free});
}

/* ---- the order in which the kernel ends processes ---- */

#define FILE_NAME "/proc/self/oom_score_adj"
#define MOST      1000
#define LIVE      20 /* above checkpoints that somebody asked for */

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
    const uint64_t all = scores.memory, most = memory_limit_most();
    uint64_t held = 0;

    if (all == 0 || most == 0 || memory_limit_held(&held) < 0)
        return MOST;
    return scores.base + LIVE + (int)(MIN(most - MIN(held, most), all) * MOST / all);
}

void oom_score_checkpoint(bool ends_first)
{
    oom_score_set(ends_first ? score_before_live() : scores.base);
}

void oom_score_child(void)
{
    oom_score_set(MOST);
}

/* ---- functions that are found before the C library's ---- */

#pragma GCC visibility push(default)

/* A program that a cell starts goes first when memory runs out. Python starts them with vfork(), which runs
 * no handlers of fork(), and then exec, or with posix_spawn(). */
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

/* The shell says it itself, as the C library starts it past all of these. */
int system(const char *command)
{
    static const char first[] = "echo 1000 2>/dev/null >/proc/self/oom_score_adj; ";
    int (*real)(const char *);
    _cleanup_(freep) char *both = command ? malloc(sizeof(first) + strlen(command)) : NULL;

    *(void **)&real = dlsym(RTLD_NEXT, "system");
    if (both)
        stpcpy(stpcpy(both, first), command);
    return real(both ? both : command);
}

/* The C library's allocator, within the memory that the process may hold. Everything in the process finds
 * these functions first: Python, NumPy, libraries that a cell loads. The other half, __libc_malloc and so on,
 * is glibc's; a sanitizer has an allocator of its own. */
#ifndef __SANITIZE_ADDRESS__
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static bool is_refused(size_t size)
{
    if (memory_limit_has(size))
        return false;
    errno = ENOMEM;
    return true;
}

void *malloc(size_t size)
{
    return is_refused(size) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(n, size, &bytes))
        bytes = SIZE_MAX;
    return is_refused(bytes) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *block, size_t size)
{
    size_t before = block ? malloc_usable_size(block) : 0;

    return size > before && is_refused(size - before) ? NULL : __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size)
{
    return is_refused(size) ? NULL : __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return memalign(alignment, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
    if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0)
        return EINVAL;

    int saved = errno;
    void *block = memalign(alignment, size);
    errno = saved;
    if (!block)
        return ENOMEM;
    *ret = block;
    return 0;
}

#endif
