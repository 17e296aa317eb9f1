#include "guest/interpreter/checkpoint/surroundings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/prctl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "guest/interpreter/checkpoint/no_malloc.h"
#include "guest/interpreter/checkpoint/fork.h"
#include "guest/interpreter/link.h"
#include "proto/limits.h"

/* As struct sigaction of the kernel, whose C library's is another one and lacks two signals. */
typedef struct SignalAction {
    uint64_t parts[4];
} SignalAction;

#define SIGNALS 64

/* Flags with which a file is opened once more: all but those that would make or empty it. */
#define KEPT_FLAGS                                                                                           \
    (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_DIRECT | O_NOATIME | O_LARGEFILE | O_PATH |    \
     O_DIRECTORY)

/* Bytes in files without a name, together. */
#define CONTENT_MAX ((size_t)64 << 20)

typedef struct FilePlace {
    int fd, flags, fd_flags;
    mode_t mode;
    off_t position;
    bool nameless;
    void *content; /* of a file without a name; NULL: none is kept */
    size_t size;
    char path[LIMIT_PATH];
} FilePlace;

static struct {
    FilePlace *places;
    size_t n;
    size_t content; /* bytes of all */
    char directory[LIMIT_PATH];
    mode_t mask;
    SignalAction actions[SIGNALS + 1];
    stack_t stack; /* of handlers */
    char name[16];
    struct rlimit limits[RLIM_NLIMITS];
    int reaper;
    struct prctl_mm_map memory; /* what is where, as the kernel has it */
    uint64_t auxiliary[64];     /* what the kernel told at the start */
} around;

/* ---- recording ---- */

/* For a file without a name, whose content goes with its last descriptor. */
static void record_content(FilePlace *place, const char *link)
{
    int fd _cleanup_(closep) =
        place->size > CONTENT_MAX - around.content ? -1 : open(link, O_RDONLY | O_CLOEXEC);

    place->content = fd < 0 ? NULL : pages_room(NULL, 0, place->size);
    if (!place->content)
        return;
    around.content += place->size;
    if (pread(fd, place->content, place->size, 0) != (ssize_t)place->size) {
        pages_free(place->content, 1, place->size);
        place->content = NULL;
    }
}

static int record_one(void *except, int fd)
{
    if (fd == *(int *)except || fd == descriptors_channel())
        return 0;

    FilePlace *places = pages_room(around.places, around.n, sizeof(*places));
    if (!places)
        return -ENOMEM;
    around.places = places;

    FilePlace *place = &places[around.n];
    struct stat st;
    char link[64];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t size = readlink(link, place->path, sizeof(place->path) - 1);
    if (size < 0 || fstat(fd, &st) < 0)
        return 0; /* that of the directory that is listed */
    place->path[size] = '\0';
    place->fd = fd;
    place->flags = fcntl(fd, F_GETFL);
    place->fd_flags = fcntl(fd, F_GETFD);
    place->mode = st.st_mode;
    place->position = place->flags & O_PATH ? 0 : lseek(fd, 0, SEEK_CUR);
    place->nameless = S_ISREG(st.st_mode) && st.st_nlink == 0;
    place->content = NULL;
    place->size = (size_t)st.st_size;
    if (place->nameless)
        record_content(place, link);
    around.n++;
    return 0;
}

/* Behind the name of the program, which may have spaces: from the third field on. */
static const char *skip_name(const char *line)
{
    const char *end = strrchr(line, ')');

    return end ? end + 1 : "";
}

static void record_memory(void)
{
    struct prctl_mm_map *map = &around.memory;
    Lines stat _cleanup_(lines_close);
    const char *line = lines_open(&stat, "/proc/self/stat") < 0 ? NULL : lines_next(&stat);
    int fd = open_own("/proc/self/auxv");
    ssize_t n = fd < 0 ? 0 : read(fd, around.auxiliary, sizeof(around.auxiliary));
    unsigned long long codes[3], rest[7];

    close_fd(&fd);
    *map = (struct prctl_mm_map){0};
    if (!line || sscanf(skip_name(line),
                        " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %*u "
                        "%*u %*d %*u %llu %llu "
                        "%llu %*u %*u %*u %*u %*u %*u %*u %*u %*u %*d %*d %*u %*u %*u %*u %*d %llu %llu %llu "
                        "%llu %llu %llu %llu",
                        &codes[0], &codes[1], &codes[2], &rest[0], &rest[1], &rest[2], &rest[3], &rest[4],
                        &rest[5], &rest[6]) != 10)
        return;
    *map = (struct prctl_mm_map){
        .start_code = codes[0],
        .end_code = codes[1],
        .start_stack = codes[2],
        .start_data = rest[0],
        .end_data = rest[1],
        .start_brk = rest[2],
        .brk = (uintptr_t)sbrk(0),
        .arg_start = rest[3],
        .arg_end = rest[4],
        .env_start = rest[5],
        .env_end = rest[6],
        .auxv = (void *)around.auxiliary,
        .auxv_size = (uint32_t)MAX(n, 0),
        .exe_fd = (uint32_t)-1,
    };
}

int surroundings_record(int except)
{
    for (size_t i = 0; i < around.n; i++)
        pages_free(around.places[i].content, 1, around.places[i].size);
    pages_free(around.places, around.n, sizeof(*around.places));
    memset(&around, 0, sizeof(around));
    if (!getcwd(around.directory, sizeof(around.directory)))
        around.directory[0] = '\0';
    around.mask = umask(0);
    umask(around.mask);
    for (int number = 1; number <= SIGNALS; number++)
        syscall(SYS_rt_sigaction, number, NULL, &around.actions[number], sizeof(uint64_t));
    sigaltstack(NULL, &around.stack);
    prctl(PR_GET_NAME, around.name);
    prctl(PR_GET_CHILD_SUBREAPER, &around.reaper);
    for (int i = 0; i < RLIM_NLIMITS; i++)
        getrlimit((__rlimit_resource_t)i, &around.limits[i]);
    record_memory();
    return numbers_each("/proc/self/fd", record_one, &except);
}

/* ---- restoring ---- */

static void restore_limits(void)
{
    for (int i = 0; i < RLIM_NLIMITS; i++) {
        struct rlimit now;

        if (getrlimit((__rlimit_resource_t)i, &now) < 0)
            continue;
        now.rlim_max = MIN(now.rlim_max, around.limits[i].rlim_max);
        now.rlim_cur = MIN(now.rlim_max, around.limits[i].rlim_cur);
        setrlimit((__rlimit_resource_t)i, &now);
    }
}

/* Whatever has no path is made by openfiles_restore(), or has been noted. */
static bool has_path(const FilePlace *place)
{
    return S_ISREG(place->mode) || S_ISDIR(place->mode) || S_ISCHR(place->mode);
}

/* A file like it, that nobody else can open either. */
static int make_nameless(const FilePlace *place)
{
    int fd = place->content ? memfd_create("kept", MFD_CLOEXEC) : -1;

    if (fd >= 0 && write(fd, place->content, place->size) != (ssize_t)place->size)
        close_fd(&fd);
    return fd;
}

static int open_place(const FilePlace *place, Notes *notes)
{
    int fd = place->nameless
                 ? make_nameless(place)
                 : open(place->path, (place->flags & KEPT_FLAGS) | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);

    if (fd < 0) {
        notes_add(notes, "the file on descriptor %d cannot be opened again", place->fd);
        return -1;
    }
    fcntl(fd, F_SETFL, place->flags);
    lseek(fd, place->position, SEEK_SET);
    return fd;
}

/* Its number is taken in any case. */
static void restore_place(const FilePlace *place, Notes *notes)
{
    int flags = place->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0;
    int fd = has_path(place) ? open_place(place, notes) : -1;

    if (fd < 0)
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0 || fd == place->fd)
        return;
    dup3(fd, place->fd, flags);
    close(fd);
}

static void restore_descriptors(int channel, Notes *notes)
{
    dup3(channel, descriptors_channel(), O_CLOEXEC);
    close(channel);
    for (size_t i = 0; i < around.n; i++)
        restore_place(&around.places[i], notes);
    descriptors_detach(fcntl(descriptors_channel(), F_DUPFD_CLOEXEC, 0));
}

void surroundings_restore(int channel, Notes *notes)
{
    restore_limits();
    if (around.directory[0] && chdir(around.directory) < 0)
        notes_add(notes, "the current directory is not there any more");
    umask(around.mask);
    for (int number = 1; number <= SIGNALS; number++)
        syscall(SYS_rt_sigaction, number, &around.actions[number], NULL, sizeof(uint64_t));
    sigaltstack(&around.stack, NULL);
    prctl(PR_SET_NAME, around.name);
    prctl(PR_SET_CHILD_SUBREAPER, around.reaper);
    /* Without it the heap grows elsewhere, and tools do not know the command line. */
    prctl(PR_SET_MM, PR_SET_MM_MAP, &around.memory, sizeof(around.memory), 0);
    restore_descriptors(channel, notes);
}
