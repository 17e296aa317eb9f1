/* limpet-interpreter-loader [FILE]: becomes the frozen copy whose memory is in the file, or behind descriptor
 * 4. What is there never changes, and is mapped: whoever becomes the copy shares what stays as it was. A
 * large file is mapped as well, so that its pages come as they are touched; only code of its own session
 * could change it, which could as well change the memory. Where the copy had begun with a memory image that
 * is behind descriptor 5, and never changes either. The supervisor starts it as it starts an interpreter:
 * without powers, in the session's directory, with a channel as 3, on which it says why it cannot.
 *
 * A program without the C library, at an address that nobody else uses: it replaces everything that is mapped
 * in its process but itself. All is checked before; but whoever wrote the file could as well run code in this
 * sandbox, and what is here has no other rights. */
#include <asm/prctl.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>

#include "guest/memory/memory.h"

/* System calls without the C library, whose memory the loader gives up. x86-64 alone. */

/* Makes a system call; returns a negative errno if it fails. */
static inline long raw(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long r;

    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

#define RAW_NTH(a, b, c, d, e, f, g, ...)                                                                    \
    raw(a, (long)(b), (long)(c), (long)(d), (long)(e), (long)(f), (long)(g))
#define RAW(...) RAW_NTH(__VA_ARGS__, 0, 0, 0, 0, 0, 0)

#define CHANNEL    3
#define DESCRIPTOR 4
#define IMAGE      5

/* Parts that one call reads at most. */
#define PARTS 256

#define MAPS_SIZE (64u << 10)

/* A smaller file is read in a moment, and leaves the disk. */
#define MAPPED_LEAST ((uint64_t)16 << 20)

/* Each run becomes a mapping, which every later copy of the process takes time for. */
#define MAPPED_RUNS_MAX 8192u

typedef struct OwnMapping {
    uint64_t start, end;
    const char *name; /* ends with the line */
} OwnMapping;

typedef struct ReadPart {
    uint64_t start, size;
} ReadPart;

static struct {
    int file;
    bool shares; /* the contents are mapped, not read */
    MemoryIndex index;
    uint64_t content;   /* where the next run's is in the file */
    OwnMapping own[64]; /* what is mapped in this process */
    size_t n;
    ReadPart parts[PARTS];
    char maps[MAPS_SIZE];
    _Alignas(8) uint8_t piece[MEMORY_PIECE];
    _Alignas(16) char stack[32u << 10];
} loader;

/* The compiler calls these. */

void *memset(void *at, int byte, size_t n);
void *memcpy(void *restrict to, const void *restrict from, size_t n);

void *memset(void *at, int byte, size_t n)
{
    __asm__ volatile("rep stosb" : "+D"(at), "+c"(n) : "a"(byte) : "memory");
    return at;
}

void *memcpy(void *restrict to, const void *restrict from, size_t n)
{
    void *ret = to;

    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n) : : "memory");
    return ret;
}

/* Refusing */

/* [1, 66, 0, {"error": …}] behind its length, as `checkpointed` is on the channel. */
static _Noreturn void refuse(const char *why)
{
    uint8_t out[160] = {0, 0, 0, 0, 0x94, 1, 66, 0, 0x81, 0xa5, 'e', 'r', 'r', 'o', 'r', 0xd9};
    size_t n = 0;

    for (; why[n] && n < 127; n++)
        out[17 + n] = (uint8_t)why[n];
    out[16] = (uint8_t)n;
    out[3] = (uint8_t)(13 + n);
    RAW(SYS_write, CHANNEL, out, 17 + n);
    for (;;)
        RAW(SYS_exit_group, 1);
}

static void require(bool holds, const char *why)
{
    if (!holds)
        refuse(why);
}

/* Reading */

static bool read_at(int file, void *to, size_t size, uint64_t offset)
{
    for (long n; size > 0; to = (char *)to + n, size -= (size_t)n, offset += (uint64_t)n) {
        n = RAW(SYS_pread64, file, to, size, offset);
        if (n <= 0)
            return false;
    }
    return true;
}

static void *room(uint64_t at, size_t size)
{
    long r = RAW(SYS_mmap, at, size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);

    require(r == (long)at, "there is no memory to read it");
    return (void *)at; /* NOLINT */
}

static bool is_magic(const char *magic)
{
    for (size_t i = 0; i < sizeof(MEMORY_MAGIC); i++)
        if (magic[i] != MEMORY_MAGIC[i])
            return false;
    return true;
}

/* The file is on the disk until all that became the copy has ended: there is to be room for the next one, and
 * for what code writes. */
static bool is_worth_mapping(const MemoryHead *head)
{
    struct statfs disk = {0};

    return head->size >= MAPPED_LEAST && RAW(SYS_fstatfs, loader.file, &disk) == 0 &&
           (uint64_t)disk.f_bavail * (uint64_t)disk.f_frsize / 4 > head->size;
}

static void read_index(const char *path)
{
    MemoryHead head;
    struct stat st = {0};

    loader.file =
        path ? (int)RAW(SYS_open, path, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW) : DESCRIPTOR;
    require(loader.file != -ENOENT, "none was kept");
    require(loader.file >= 0 && RAW(SYS_fstat, loader.file, &st) == 0 && S_ISREG(st.st_mode) &&
                read_at(loader.file, &head, sizeof(head), 0) && is_magic(head.magic) &&
                head.size == (uint64_t)st.st_size,
            "it is not whole");

    uint64_t size = memory_index_size(&head);
    require(size > 0 && size <= head.size, "it is damaged");

    void *bytes = room(MEMORY_INDEX_START, size);
    require(read_at(loader.file, bytes, size, 0), "it cannot be read");
    *(MemoryHead *)bytes = head;
    loader.shares = head.runs <= MAPPED_RUNS_MAX && (!path || is_worth_mapping(&head));
    loader.index = memory_index(bytes);
    loader.content = size;

    const char *why = memory_check(&loader.index);
    require(!why, why);
}

/* Own mappings */

static uint64_t take_number(const char **at)
{
    uint64_t value = 0;

    for (;; (*at)++) {
        char c = **at;

        if (c >= '0' && c <= '9')
            value = value << 4 | (uint64_t)(c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value << 4 | (uint64_t)(c - 'a' + 10);
        else
            return value;
    }
}

/* "START-END rw-p OFFSET MAJOR:MINOR INODE   NAME" */
static void take_line(const char *line)
{
    OwnMapping own = {.start = take_number(&line)};

    line++;
    own.end = take_number(&line);
    while (*line != '\n' && *line != '/' && *line != '[')
        line++;
    own.name = line;
    require(loader.n < sizeof(loader.own) / sizeof(loader.own[0]), "the loader itself has too many mappings");
    loader.own[loader.n++] = own;
}

static void read_own(void)
{
    int fd = (int)RAW(SYS_open, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
    size_t size = 0;
    long n;

    while ((n = RAW(SYS_read, fd, loader.maps + size, sizeof(loader.maps) - 1 - size)) > 0)
        size += (size_t)n;
    RAW(SYS_close, fd);
    require(n == 0 && size > 0, "/proc cannot be read");
    for (size_t at = 0; at < size; at++) {
        take_line(loader.maps + at);
        while (loader.maps[at] != '\n')
            at++;
    }
}

/* [vdso] and its data; not [vsyscall], which is at one address in all processes. */
static bool is_kernels(const OwnMapping *own)
{
    return own->name[0] == '[' && own->name[1] == 'v' && own->name[2] != 's';
}

static bool is_named(const OwnMapping *own, const char *name)
{
    size_t i = 0;

    while (name[i] && name[i] == own->name[i])
        i++;
    return !name[i] && own->name[i] == '\n';
}

static const char *name_of(const MemoryMapping *mapping)
{
    return loader.index.text + loader.index.files[mapping->file].path;
}

/* The mapping of the kernel's in this process, of the same name and size. */
static OwnMapping *find_own(const MemoryMapping *mapping)
{
    for (size_t i = 0; i < loader.n; i++) {
        OwnMapping *own = &loader.own[i];

        if (is_kernels(own) && is_named(own, name_of(mapping)) &&
            own->end - own->start == mapping->end - mapping->start)
            return own;
    }
    return NULL;
}

/* Fitting */

static void check_kernel(void)
{
    const MemoryHead *head = loader.index.head;
    size_t kernels = 0;

    for (uint32_t i = 0; i < head->mappings; i++) {
        const MemoryMapping *mapping = &loader.index.mappings[i];

        if (mapping->kind == MEMORY_KERNEL)
            require(find_own(mapping), "it was written under another kernel");
        kernels += mapping->kind == MEMORY_KERNEL;
    }
    for (size_t i = 0; i < loader.n; i++) {
        const OwnMapping *own = &loader.own[i];

        kernels -= is_kernels(own);
        if (!is_named(own, "[vdso]"))
            continue;

        MemoryFit fit = memory_fit((const void *)own->start, own->end - own->start); /* NOLINT */
        require(fit.kernel == head->fit.kernel, "it was written under another kernel");
        require(fit.processor == head->fit.processor, "it was written on another kind of processor");
    }
    require(kernels == 0, "it was written under another kernel");
}

/* Whatever waits for a deadline would wait for longer, perhaps for days. */
static void check_clock(void)
{
    struct timespec now = {0};

    RAW(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
    require((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec >= loader.index.head->clock,
            "its deadlines are of a clock that is ahead of this one, as after a restart of the machine");
}

static bool is_of_this_boot(const MemoryHead *head)
{
    char id[64];
    int fd = (int)RAW(SYS_open, MEMORY_BOOT_ID, O_RDONLY | O_CLOEXEC);
    long n = RAW(SYS_read, fd, id, sizeof(id));

    RAW(SYS_close, fd);
    return n > 0 && memory_hash(id, (size_t)n) == head->boot;
}

/* A machine that fails may not have written all of it to the disk. */
static void check_contents(int file, const MemoryHead *head)
{
    uint64_t sum = 0, at = sizeof(*head), end = head->size;

    if (is_of_this_boot(head))
        return;
    while (at < end) {
        size_t n = end - at < MEMORY_PIECE ? end - at : MEMORY_PIECE;

        require(read_at(file, loader.piece, n, at), "it cannot be read");
        sum = memory_sum(sum, loader.piece, n);
        at += n;
    }
    require(sum == head->sum, "it was not written to the disk before the machine stopped");
}

static void check_image(void)
{
    static _Alignas(MemoryHead) uint8_t page[MEMORY_PAGE];
    const MemoryImage *image = &loader.index.head->image;
    struct stat st = {0};

    if (image->size == 0)
        return;
    require(RAW(SYS_fstat, IMAGE, &st) == 0 && S_ISREG(st.st_mode) && (uint64_t)st.st_size == image->size &&
                read_at(IMAGE, page, sizeof(page), 0) && memory_hash(page, sizeof(page)) == image->hash,
            "the memory image that it began with is gone");
    check_contents(IMAGE, (const MemoryHead *)page);
}

/* Numbers of devices and inodes differ from one container to the next. What is shared with a file has changed
 * with it. */
static bool is_same(const MemoryMapping *mapping)
{
    static uint8_t page[MEMORY_PAGE];
    const MemoryFile *file = &loader.index.files[mapping->file];
    int fd = (int)RAW(SYS_open, name_of(mapping), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    struct stat st = {0};

    if (fd < 0)
        return false;
    long r = RAW(SYS_fstat, fd, &st), n = RAW(SYS_pread64, fd, page, sizeof(page), 0);
    RAW(SYS_close, fd);
    if (r < 0 || n < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size != file->size)
        return false;
    return mapping->kind == MEMORY_SHARED_FILE || memory_file_hash(page, (size_t)n, &st) == file->hash;
}

static void check_files(void)
{
    const MemoryMapping *before = NULL;

    for (uint32_t i = 0; i < loader.index.head->mappings; i++) {
        const MemoryMapping *mapping = &loader.index.mappings[i];

        if (mapping->kind != MEMORY_FILE && mapping->kind != MEMORY_SHARED_FILE)
            continue;
        if (!before || before->file != mapping->file || before->kind != mapping->kind)
            require(is_same(mapping), "a program or library that is mapped in it has changed");
        before = mapping;
    }
}

/* Becoming it */

/* All but this program, and the kernel's, which are put aside. */
static void give_up(void)
{
    uint64_t aside = MEMORY_ASIDE_START;

    for (size_t i = 0; i < loader.n; i++) {
        OwnMapping *own = &loader.own[i];
        uint64_t size = own->end - own->start;

        if (own->start >= MEMORY_ROOM_START && own->end <= MEMORY_ROOM_END)
            continue;
        if (!is_kernels(own)) {
            RAW(SYS_munmap, own->start, size);
            continue;
        }
        long r = RAW(SYS_mremap, own->start, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, aside);
        require(r == (long)aside, "the kernel lets nobody move its own mappings");
        own->start = aside;
        own->end = aside += size;
    }
}

/* -1: there is none. */
static int open_file(const MemoryMapping *mapping)
{
    bool writes = mapping->kind == MEMORY_SHARED_FILE && mapping->prot & PROT_WRITE;
    int fd;

    if (mapping->kind == MEMORY_IMAGE)
        return IMAGE;
    if (mapping->kind < MEMORY_FILE)
        return -1;
    fd = (int)RAW(SYS_open, name_of(mapping), (writes ? O_RDWR : O_RDONLY) | O_NONBLOCK | O_CLOEXEC);
    require(fd >= 0, "a file that is mapped in it cannot be opened");
    return fd;
}

/* Pages that differ from an image are few and far between. Nothing else is mapped of a file that may be
 * executed, may grow, or is to be wiped. */
static bool maps_runs(const MemoryMapping *mapping)
{
    return loader.shares && (mapping->kind == MEMORY_ANONYMOUS || mapping->kind == MEMORY_FILE) &&
           mapping->prot & PROT_READ && !(mapping->prot & PROT_EXEC) && !(mapping->advice & MEMORY_WIPED);
}

static void map(const MemoryMapping *mapping)
{
    static const int flags[MEMORY_KINDS] = {
        [MEMORY_ANONYMOUS] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
        [MEMORY_STACK] = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_GROWSDOWN,
        [MEMORY_SHARED] = MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
        [MEMORY_IMAGE] = MAP_PRIVATE | MAP_NORESERVE,
        [MEMORY_FILE] = MAP_PRIVATE,
        [MEMORY_SHARED_FILE] = MAP_SHARED,
    };
    uint64_t size = mapping->end - mapping->start;
    int prot = mapping->runs && !maps_runs(mapping) ? PROT_READ | PROT_WRITE : mapping->prot;
    int fd = open_file(mapping);
    long r = RAW(SYS_mmap, mapping->start, size, prot, flags[mapping->kind] | MAP_FIXED_NOREPLACE, fd,
                 mapping->offset);

    require(r == (long)mapping->start, "a mapping cannot be made where it was");
    if (mapping->kind >= MEMORY_FILE)
        RAW(SYS_close, fd);
}

static void map_runs(const MemoryMapping *mapping, const MemoryRun *runs)
{
    for (uint32_t i = 0; i < mapping->runs; i++) {
        long r = RAW(SYS_mmap, runs[i].start, runs[i].size, mapping->prot,
                     MAP_PRIVATE | MAP_NORESERVE | MAP_FIXED, loader.file, loader.content);

        require(r == (long)runs[i].start, "its contents cannot be mapped");
        loader.content += runs[i].size;
    }
}

static void read_parts(size_t n, uint64_t size)
{
    long r = RAW(SYS_preadv, loader.file, loader.parts, n, loader.content);

    require(r == (long)size, "its contents cannot be read");
    loader.content += size;
}

/* Reads in pieces: the kernel reads at most 2 GiB in one call. */
static void read_runs(const MemoryRun *runs, uint32_t n)
{
    uint64_t size = 0;
    size_t parts = 0;

    for (uint32_t i = 0; i < n; i++) {
        uint64_t start = runs[i].start, left = runs[i].size;

        while (left > 0) {
            uint64_t part = left < (64u << 20) ? left : 64u << 20;

            loader.parts[parts++] = (ReadPart){start, part};
            start += part;
            left -= part;
            size += part;
            if (parts == PARTS || size > (512u << 20)) {
                read_parts(parts, size);
                size = parts = 0;
            }
        }
    }
    if (parts > 0)
        read_parts(parts, size);
}

static void advise(const MemoryMapping *mapping)
{
    static const struct {
        uint8_t advice;
        int kernels;
    } all[] = {
        {MEMORY_HUGE, MADV_HUGEPAGE}, {MEMORY_SMALL, MADV_NOHUGEPAGE}, {MEMORY_WIPED, MADV_WIPEONFORK}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        if (mapping->advice & all[i].advice)
            RAW(SYS_madvise, mapping->start, mapping->end - mapping->start, all[i].kernels);
}

static void make(const MemoryMapping *mapping, const MemoryRun *runs)
{
    uint64_t size = mapping->end - mapping->start;

    if (mapping->kind == MEMORY_KERNEL) {
        OwnMapping *own = find_own(mapping);
        long r = RAW(SYS_mremap, own->start, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, mapping->start);

        require(r == (long)mapping->start, "the kernel's own mappings cannot be moved");
        return;
    }
    map(mapping);
    advise(mapping);
    if (mapping->runs == 0)
        return;
    if (maps_runs(mapping)) {
        map_runs(mapping, runs);
        return;
    }
    read_runs(runs, mapping->runs);
    if (mapping->prot != (PROT_READ | PROT_WRITE))
        require(RAW(SYS_mprotect, mapping->start, size, mapping->prot) == 0,
                "memory cannot be protected as it was");
}

/* On the loader's own stack. */
__attribute__((used)) static _Noreturn void become(void)
{
    const MemoryHead *head = loader.index.head;
    const MemoryRun *runs = loader.index.runs;

    give_up();
    for (uint32_t i = 0; i < head->mappings; i++) {
        make(&loader.index.mappings[i], runs);
        runs += loader.index.mappings[i].runs;
    }
    RAW(SYS_close, loader.file);
    RAW(SYS_close, DESCRIPTOR);
    RAW(SYS_close, IMAGE);
    require(RAW(SYS_arch_prctl, ARCH_SET_FS, head->thread) == 0, "its thread cannot go on");
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "push $0\n\t"
                     "jmp *%1"
                     :
                     : "r"(head->stack), "r"(head->entry), "D"((long)CHANNEL)
                     : "memory");
    __builtin_unreachable();
}

__attribute__((used)) static _Noreturn void begin(const long *arguments)
{
    read_index((const char *)arguments[2]); /* NULL where there is none. NOLINT */
    read_own();
    check_kernel();
    check_clock();
    check_files();
    check_contents(loader.file, loader.index.head);
    check_image();
    __asm__ volatile("mov %0, %%rsp\n\t"
                     "call become"
                     :
                     : "r"(loader.stack + sizeof(loader.stack))
                     : "memory");
    __builtin_unreachable();
}

__asm__(".globl _start\n"
        "_start:\n\t"
        "xor %ebp, %ebp\n\t"
        "mov %rsp, %rdi\n\t"
        "and $-16, %rsp\n\t"
        "call begin\n");
