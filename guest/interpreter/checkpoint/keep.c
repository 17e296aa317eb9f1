#include "guest/interpreter/checkpoint/keep.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <ucontext.h>

#include "guest/interpreter/checkpoint/no_malloc.h"
#include "guest/interpreter/checkpoint/fork.h"
#include "guest/memory/memory.h"
#include "proto/base/clock.h"
#include "proto/limits.h"

#define DELETED " (deleted)"

/* Reserved addresses have an entry for each page to be looked at. */
#define MAPPING_MAX ((uint64_t)256 << 30)

/* Pages that are shared and have no file are all written: which of them are in use the kernel does not tell.
 */
#define SHARED_MAX ((uint64_t)64 << 20)

/* Pages between two that are written are written, too, if they are this few: each piece may become a mapping.
 * Those of an image would be shared otherwise. */
#define GAP_MAX ((uint64_t)16 * MEMORY_PAGE)

/* Bytes around an address on the stack, or of a thread's variables, that are in use. */
#define USED_SIZE ((size_t)64 << 10)

/* The loader calls beginning on a stack of its own, as the copy's is in use below `here`. */
static struct {
    ucontext_t here;
    volatile bool became;
    volatile int channel;
    _Alignas(16) char stack[16u << 10];
} again;

/* The record in the making; in the room of the loader, which is left out of what is written. */
static struct {
    MemoryHead head;
    MemoryFile *files;
    MemoryMapping *mappings;
    MemoryRun *runs;
    char *text;
    uint8_t *piece;   /* about to be written */
    size_t filled;    /* bytes of it */
    uint64_t content; /* bytes of all runs */
    uint64_t shared;
    int pagemap;
    bool streams; /* to somebody who reads it now: nothing stands until the machine fails */
    bool shares;  /* what is as in the memory image is left out */
    const char *why;
} found;

/* The memory image that this process has begun with. */
static MemoryImage image;

static int refuse(int error, const char *why)
{
    found.why = why;
    return error;
}

/* Finding */

static int take_room(void)
{
    static const size_t sizes[] = {MEMORY_FILES_MAX * sizeof(MemoryFile),
                                   MEMORY_MAPPINGS_MAX * sizeof(MemoryMapping),
                                   MEMORY_RUNS_MAX * sizeof(MemoryRun), MEMORY_TEXT_MAX, MEMORY_PIECE};
    size_t all = sizes[0] + sizes[1] + sizes[2] + sizes[3] + sizes[4];
    char *at = (char *)MEMORY_INDEX_START; /* NOLINT */

    if (mmap(at, all, PROT_READ | PROT_WRITE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != at)
        return refuse(-ENOMEM, "there is no room to write it");
    found.files = (MemoryFile *)at;
    found.mappings = (MemoryMapping *)(at += sizes[0]);
    found.runs = (MemoryRun *)(at += sizes[1]);
    found.text = at += sizes[2];
    found.piece = (uint8_t *)at + sizes[3];
    return 0;
}

static void leave_room(void)
{
    munmap((void *)MEMORY_ROOM_START, MEMORY_ROOM_SIZE); /* NOLINT */
}

static int identify(MemoryFile *file, const char *path)
{
    static uint8_t page[MEMORY_PAGE];
    int fd _cleanup_(closep) = path[0] == '/' ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    struct stat st;
    ssize_t n;

    if (path[0] != '/')
        return 0;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (n = pread(fd, page, sizeof(page), 0)) < 0)
        return refuse(-ENOTSUP, "something is mapped that is no file, or cannot be opened");
    file->hash = memory_file_hash(page, (size_t)n, &st);
    file->size = (uint64_t)st.st_size;
    return 0;
}

/* Mappings of a file follow each other, as a rule. */
static int find_file(const char *path, uint32_t *ret)
{
    MemoryHead *head = &found.head;
    size_t size = strlen(path) + 1;

    for (uint32_t i = head->files; i-- > 0;) {
        if (strcmp(found.text + found.files[i].path, path) == 0) {
            *ret = i;
            return 0;
        }
    }
    if (head->files == MEMORY_FILES_MAX || size > MEMORY_TEXT_MAX - head->text)
        return refuse(-E2BIG, "too many files are mapped");
    found.files[head->files] = (MemoryFile){.path = head->text};
    memcpy(found.text + head->text, path, size);
    head->text += (uint32_t)size;
    *ret = head->files++;
    return identify(&found.files[*ret], path);
}

static int add_run(MemoryMapping *mapping, uint64_t start, uint64_t size)
{
    MemoryRun *last = &found.runs[found.head.runs - 1];

    found.content += size;
    if (mapping->runs > 0 && last->start + last->size == start) {
        last->size += size;
        return 0;
    }
    if (found.head.runs == MEMORY_RUNS_MAX)
        return refuse(-E2BIG, "the memory is in too many pieces");
    found.runs[found.head.runs++] = (MemoryRun){start, size};
    mapping->runs++;
    return 0;
}

static bool is_zero(uint64_t at)
{
    const uint64_t *page = (const uint64_t *)at; /* NOLINT */

    for (size_t i = 0; i < MEMORY_PAGE / sizeof(*page); i++)
        if (page[i])
            return false;
    return true;
}

/* An entry of /proc/self/pagemap: whether the page is there, and the process's own. */
static bool is_own(uint64_t entry)
{
    return entry >> 62 && !(entry >> 61 & 1);
}

/* Adds a page, and what is between it and the page that was added before. */
static int add_page(MemoryMapping *mapping, uint64_t at)
{
    const MemoryRun *last = &found.runs[found.head.runs - 1];
    uint64_t end = mapping->runs > 0 ? last->start + last->size : at;
    uint64_t start = mapping->kind != MEMORY_IMAGE && at - end <= GAP_MAX ? end : at;

    return add_run(mapping, start, at + MEMORY_PAGE - start);
}

/* Pages of this process's own; those that are zero are as they would be where nothing is below them. */
static int add_own(MemoryMapping *mapping)
{
    static uint64_t entries[8192];
    bool needs_zero = mapping->kind == MEMORY_FILE || mapping->kind == MEMORY_IMAGE;

    for (uint64_t at = mapping->start; at < mapping->end;) {
        size_t n = MIN((mapping->end - at) / MEMORY_PAGE, ARRAY_SIZE(entries));
        size_t size = n * sizeof(entries[0]);

        if (pread(found.pagemap, entries, size, (off_t)(at / MEMORY_PAGE * sizeof(entries[0]))) !=
            (ssize_t)size)
            return refuse(-EIO, "/proc cannot be read");
        for (size_t i = 0; i < n; i++, at += MEMORY_PAGE) {
            if (!is_own(entries[i]) || (!needs_zero && mapping->prot & PROT_READ && is_zero(at)))
                continue;
            int r = add_page(mapping, at);
            if (r < 0)
                return r;
        }
    }
    return 0;
}

/* A line of /proc/self/maps, or the first of a mapping in /proc/self/smaps. */
typedef struct MappedLine {
    uint64_t start, end, offset, inode;
    unsigned major, minor;
    char mode[5];
    char name[LIMIT_PATH + sizeof(DELETED)];
    bool deleted; /* it has a file without a name */
    bool grows;
    uint8_t advice;
} MappedLine;

static bool read_line(const char *text, MappedLine *ret)
{
    int name = 0;

    if (sscanf(text, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n", &ret->start, &ret->end,
               ret->mode, &ret->offset, &ret->major, &ret->minor, &ret->inode, &name) != 7)
        return false;

    size_t n = strlen(text + name), deleted = strlen(DELETED);
    if (n >= sizeof(ret->name))
        return false;
    memcpy(ret->name, text + name, n + 1);
    ret->deleted = n > deleted && strcmp(ret->name + n - deleted, DELETED) == 0;
    return true;
}

/* "VmFlags: rd wr mr mw me gd ac", the last line of a mapping. */
static void read_flags(const char *text, MappedLine *line)
{
    static const struct {
        const char *name;
        uint8_t advice;
    } all[] = {{" hg", MEMORY_HUGE}, {" nh", MEMORY_SMALL}, {" wf", MEMORY_WIPED}};

    line->grows = strstr(text, " gd");
    line->advice = 0;
    for (size_t i = 0; i < ARRAY_SIZE(all); i++)
        line->advice |= strstr(text, all[i].name) ? all[i].advice : 0;
}

/* Returns whether two mappings show the same memory: made anew, they would not. */
static bool is_mapped_twice(const MappedLine *line)
{
    Lines maps _cleanup_(lines_close);
    const char *text;
    MappedLine other;
    size_t n = 0;

    lines_open(&maps, "/proc/self/maps");
    while ((text = lines_next(&maps)))
        n += read_line(text, &other) && other.inode == line->inode && other.major == line->major &&
             other.minor == line->minor;
    return n != 1;
}

static int classify_shared(const MappedLine *line, MemoryMapping *ret)
{
    uint64_t size = line->end - line->start;

    if (line->name[0] == '/' && !line->deleted) {
        ret->kind = MEMORY_SHARED_FILE;
        if (strncmp(line->name, "/dev/", 5) == 0)
            return refuse(-ENOTSUP, "memory is shared under a name");
        return find_file(line->name, &ret->file);
    }
    ret->kind = MEMORY_SHARED;
    ret->offset = 0;
    found.shared += size;
    if (found.shared > SHARED_MAX || ret->prot != (PROT_READ | PROT_WRITE) || is_mapped_twice(line))
        return refuse(-ENOTSUP, "memory is shared that is mapped twice, or more than 64 MiB");
    return add_run(ret, ret->start, size);
}

static bool is_kernels(const char *name)
{
    return strncmp(name, "[v", 2) == 0;
}

/* The file that this process has become: it goes when the session has woken. */
static bool is_own_origin(const char *name)
{
    const char *last = strrchr(name, '/');

    return last && strcmp(last + 1, KEEP_NAME) == 0;
}

/* As the controller calls it (host/file_service/images.c). */
static bool is_of_image(const MappedLine *line)
{
    return found.shares && image.size > 0 && strcmp(line->name, "/memfd:limpet-memory" DELETED) == 0;
}

/* Content of a file that has no name any more is only in the memory. */
static int classify(const MappedLine *line, MemoryMapping *ret)
{
    if (line->mode[3] == 's')
        return classify_shared(line, ret);
    if (is_kernels(line->name)) {
        ret->kind = MEMORY_KERNEL;
        ret->offset = 0;
        return find_file(line->name, &ret->file);
    }

    bool is_lost = line->deleted || is_own_origin(line->name);
    if (line->name[0] == '/' && !is_lost) {
        int r = find_file(line->name, &ret->file);

        ret->kind = MEMORY_FILE;
        return r < 0 ? r : add_own(ret);
    }
    if (is_of_image(line)) {
        found.head.image = image;
        ret->kind = MEMORY_IMAGE;
        return add_own(ret);
    }
    ret->offset = 0;
    ret->kind = line->grows ? MEMORY_STACK : MEMORY_ANONYMOUS;
    return is_lost && ret->prot & PROT_READ ? add_run(ret, ret->start, ret->end - ret->start) : add_own(ret);
}

static int prot_of(const char *mode)
{
    return (mode[0] == 'r' ? PROT_READ : 0) | (mode[1] == 'w' ? PROT_WRITE : 0) |
           (mode[2] == 'x' ? PROT_EXEC : 0);
}

static int add_mapping(const MappedLine *line)
{
    if (line->start >= MEMORY_END || (line->start >= MEMORY_ROOM_START && line->end <= MEMORY_ROOM_END))
        return 0;
    if (found.head.mappings == MEMORY_MAPPINGS_MAX || line->end - line->start > MAPPING_MAX)
        return refuse(-E2BIG, "too much is mapped");

    MemoryMapping *mapping = &found.mappings[found.head.mappings++];
    *mapping = (MemoryMapping){.start = line->start,
                               .end = line->end,
                               .offset = line->offset,
                               .prot = (uint8_t)prot_of(line->mode),
                               .advice = line->advice};
    return classify(line, mapping);
}

static bool is_first(const char *text)
{
    return (*text >= '0' && *text <= '9') || (*text >= 'a' && *text <= 'f');
}

static int find_all(void)
{
    Lines maps _cleanup_(lines_close);
    const char *text;
    MappedLine line = {0};
    int r = lines_open(&maps, "/proc/self/smaps");

    found.pagemap = open_own("/proc/self/pagemap");
    if (r < 0 || found.pagemap < 0)
        r = refuse(-EIO, "/proc cannot be read");
    while (r == 0 && (text = lines_next(&maps))) {
        if (is_first(text) && !read_line(text, &line))
            r = refuse(-EIO, "/proc cannot be read");
        if (strncmp(text, "VmFlags:", 8) != 0)
            continue;
        read_flags(text, &line);
        r = add_mapping(&line);
    }
    if (r == 0 && found.head.mappings == 0)
        r = refuse(-EIO, "/proc cannot be read");
    close_fd(&found.pagemap);
    return r;
}

/* Writing */

static int write_all(int fd, const void *bytes, size_t n)
{
    for (ssize_t done; n > 0; bytes = (const char *)bytes + done, n -= (size_t)done) {
        done = write(fd, bytes, n);
        if (done <= 0)
            return refuse(done < 0 ? -errno : -EIO, "it cannot be written");
    }
    return 0;
}

static int write_piece(int fd, const void *bytes, size_t n)
{
    found.filled = 0;
    if (!found.streams)
        found.head.sum = memory_sum(found.head.sum, bytes, n);
    return write_all(fd, bytes, n);
}

static bool overlaps(const void *piece, const void *used, size_t before, size_t after)
{
    uintptr_t start = (uintptr_t)piece, at = (uintptr_t)used;

    return start < at + after && at - before < start + MEMORY_PIECE;
}

/* Returns whether what writes it changes it: on its stack, in the variables of its thread, or its own. */
static bool is_in_use(const void *piece)
{
    return overlaps(piece, __builtin_frame_address(0), USED_SIZE, USED_SIZE) ||
           overlaps(piece, __builtin_thread_pointer(), USED_SIZE, USED_SIZE) ||
           overlaps(piece, &found, 0, sizeof(found));
}

/* Collects pieces. The sum is of what is written: a piece is copied before unless all of it `stays` as it is.
 */
static int put(int fd, const void *bytes, uint64_t n, bool stays)
{
    int r = 0;

    for (size_t part; n > 0 && r == 0; bytes = (const char *)bytes + part, n -= part) {
        part = MIN(n, MEMORY_PIECE - found.filled);
        if (stays && part == MEMORY_PIECE && !is_in_use(bytes)) {
            r = write_piece(fd, bytes, part);
            continue;
        }
        memcpy(found.piece + found.filled, bytes, part);
        found.filled += part;
        if (found.filled == MEMORY_PIECE)
            r = write_piece(fd, found.piece, MEMORY_PIECE);
    }
    return r;
}

/* Memory that may not be read, such as what guards something, has contents that count. */
static int put_mapping(int fd, const MemoryMapping *mapping, const MemoryRun *runs)
{
    void *start = (void *)mapping->start; /* NOLINT */
    size_t size = mapping->end - mapping->start;
    bool opens = mapping->runs > 0 && !(mapping->prot & PROT_READ);
    bool stays = mapping->kind != MEMORY_SHARED; /* with the live interpreter */
    int r = 0;

    if (opens && mprotect(start, size, PROT_READ) < 0)
        return refuse(-errno, "memory cannot be read");
    for (uint32_t i = 0; i < mapping->runs && r == 0; i++)
        r = put(fd, (const void *)runs[i].start, runs[i].size, stays); /* NOLINT */
    if (opens)
        mprotect(start, size, mapping->prot);
    return r;
}

static int put_contents(int fd)
{
    const MemoryRun *runs = found.runs;
    int r = 0;

    for (uint32_t i = 0; i < found.head.mappings && r == 0; i++) {
        r = put_mapping(fd, &found.mappings[i], runs);
        runs += found.mappings[i].runs;
    }
    return r;
}

static int put_index(int fd)
{
    static const uint8_t padding[MEMORY_PAGE];
    const MemoryHead *head = &found.head;
    const struct iovec parts[] = {
        {found.files, head->files * sizeof(*found.files)},
        {found.mappings, head->mappings * sizeof(*found.mappings)},
        {found.runs, head->runs * sizeof(*found.runs)},
        {found.text, head->text},
    };
    size_t left = memory_index_size(head) - sizeof(*head);
    int r = 0;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && r == 0; i++) {
        r = put(fd, parts[i].iov_base, parts[i].iov_len, true);
        left -= parts[i].iov_len;
    }
    return r < 0 ? r : put(fd, padding, left, true);
}

static int write_parts(int fd, const MemoryHead *head)
{
    int r = write_all(fd, head, sizeof(*head));

    if (r == 0)
        r = put_index(fd);
    if (r == 0)
        r = put_contents(fd);
    if (r == 0 && found.filled > 0)
        r = write_piece(fd, found.piece, found.filled);
    return r;
}

/* The head comes last: a file that has one is whole, and remains so until the machine fails. */
static int write_file(int fd)
{
    const MemoryHead none = {0}, *head = &found.head;
    struct statvfs disk;

    if (fstatvfs(fd, &disk) < 0 || (uint64_t)disk.f_bavail * disk.f_frsize < head->size + (head->size >> 3))
        return refuse(-ENOSPC, "the disk of the session has no room for it");
    int r = write_parts(fd, &none);
    if (r == 0 && pwrite(fd, head, sizeof(*head), 0) != sizeof(*head))
        r = refuse(-EIO, "it cannot be written");
    return r;
}

/* Whoever reads it may have heard enough. */
static int write_stream(int fd)
{
    const struct sigaction ignored = {.sa_handler = SIG_IGN};
    struct sigaction before;

    sigaction(SIGPIPE, &ignored, &before);
    int r = write_parts(fd, &found.head);
    sigaction(SIGPIPE, &before, NULL);
    return r;
}

/* Going on */

/* The loader has left what it has read of the file: that is an image, or says which one it goes with. */
static void find_image(void)
{
    const MemoryHead *head = (const void *)MEMORY_INDEX_START; /* NOLINT */

    image = head->image;
    if (image.size == 0)
        image = (MemoryImage){.size = head->size, .hash = memory_hash(head, MEMORY_PAGE)};
}

static void beginning(int channel)
{
    find_image();
    leave_room();
    again.became = true;
    again.channel = channel;
    setcontext(&again.here);
}

static void describe(void)
{
    MemoryHead *head = &found.head;
    const void *vdso = (const void *)getauxval(AT_SYSINFO_EHDR); /* NOLINT */

    for (uint32_t i = 0; i < head->mappings; i++) {
        const MemoryMapping *mapping = &found.mappings[i];

        if ((uintptr_t)vdso == mapping->start)
            head->fit = memory_fit(vdso, mapping->end - mapping->start);
    }
    head->size = memory_index_size(head) + found.content;
    head->clock = clock_now();
    memcpy(head->magic, MEMORY_MAGIC, sizeof(MEMORY_MAGIC));
    head->thread = (uintptr_t)__builtin_thread_pointer();
    head->entry = (uintptr_t)beginning;
    head->stack = (uintptr_t)again.stack + sizeof(again.stack);
}

static int find_boot(void)
{
    char id[64];
    int fd _cleanup_(closep) = open(MEMORY_BOOT_ID, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, id, sizeof(id));

    if (n <= 0)
        return refuse(-EIO, "/proc cannot be read");
    found.head.boot = memory_hash(id, (size_t)n);
    return 0;
}

static int keep_by(int (*write)(int fd), int fd)
{
    int r = take_room();

    if (r == 0)
        r = find_boot();
    if (r == 0)
        r = find_all();
    if (r == 0) {
        describe();
        r = write(fd);
    }
    leave_room();
    return r;
}

static int keep_in(int directory)
{
    int fd, r;

    unlinkat(directory, KEEP_NAME, 0);
    fd = openat(directory, KEEP_NAME, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return refuse(-errno, "the file cannot be made");
    r = keep_by(write_file, fd);
    close(fd);
    if (r < 0)
        unlinkat(directory, KEEP_NAME, 0);
    return r;
}

static int keep_at(int place)
{
    struct stat st;

    found.streams = fstat(place, &st) == 0 && S_ISFIFO(st.st_mode);
    return found.streams ? keep_by(write_stream, place) : keep_in(place);
}

/* Sanitizers reserve more addresses than can be looked at; the loader is for one kind of processor. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__)
#define IS_POSSIBLE true
#else
#define IS_POSSIBLE false
#endif

int keep(int place, bool shares, const char **ret_why, int *ret_channel)
{
    memset(&found, 0, sizeof(found));
    found.shares = shares;
    again.became = false;
    getcontext(&again.here);
    if (again.became) {
        *ret_channel = again.channel;
        return 1;
    }
    int r = IS_POSSIBLE ? keep_at(place) : refuse(-ENOSYS, "memory is kept on x86-64 alone");
    *ret_why = found.why;
    return r;
}
