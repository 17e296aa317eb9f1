#include "guest/interpreter/checkpoint/openfiles.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "guest/interpreter/descriptors.h"
#include "guest/interpreter/checkpoint/no_malloc.h"
#include "guest/interpreter/checkpoint/openfiles_kinds.h"

/* Flags with which a file is opened again: all but those that would make or empty it. */
#define KEPT_FLAGS (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_DIRECT | O_NOATIME | O_LARGEFILE)

int fdinfo_open(Lines *ret, int fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    return lines_open(ret, path);
}

size_t openfiles_same(const OpenFiles *files, size_t i)
{
    const OpenFile *first = &files->items[i];

    while (++i < files->n && files->items[i].device == first->device &&
           files->items[i].inode == first->inode && files->items[i].kind == first->kind)
        ;
    return i;
}

static bool is_before(const OpenFile *left, const OpenFile *right)
{
    if (left->device != right->device)
        return left->device < right->device;
    if (left->inode != right->inode)
        return left->inode < right->inode;
    return left->fd < right->fd;
}

/* Without qsort(), which may allocate. There are few. */
static void sort(OpenFiles *files)
{
    for (size_t n = 1; n < files->n; n++) {
        OpenFile file = files->items[n];
        size_t at = n;

        for (; at > 0 && is_before(&file, &files->items[at - 1]); at--)
            files->items[at] = files->items[at - 1];
        files->items[at] = file;
    }
}

/* Recording */

static void note_locks(const OpenFile *file, Notes *notes)
{
    Lines info _cleanup_(lines_close);
    const char *line;

    fdinfo_open(&info, file->fd);
    while ((line = lines_next(&info))) {
        if (strncmp(line, "lock:", 5) == 0) {
            notes_add(notes, "the lock on the file on descriptor %d is not held", file->fd);
            return;
        }
    }
}

static bool record_regular(OpenFile *file, Notes *notes)
{
    file->position = lseek(file->fd, 0, SEEK_CUR);
    if (file->flags & O_PATH || file->position < 0)
        return false;
    note_locks(file, notes);
    return true;
}

static bool has_name(const OpenFile *file)
{
    char path[64], first;

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    return readlink(path, &first, 1) == 1 && first == '/';
}

/* A named pipe's content is for whoever has it open. */
static bool record_pipe(OpenFile *file, const struct stat *st, Notes *notes)
{
    file->kind = OPEN_PIPE;
    file->stream = descriptors_stream_of(st->st_dev, st->st_ino);
    if (!file->stream && has_name(file)) {
        file->kind = OPEN_NAMED_PIPE;
        return !(file->flags & O_PATH);
    }
    ends_record(file, notes);
    return true;
}

/* false: nothing needs to be done about it. */
static bool record(OpenFile *file, Notes *notes)
{
    struct stat st;

    file->flags = fcntl(file->fd, F_GETFL);
    file->fd_flags = fcntl(file->fd, F_GETFD);
    if (fstat(file->fd, &st) < 0 || file->flags < 0)
        return false;
    file->device = st.st_dev;
    file->inode = st.st_ino;
    switch (st.st_mode & S_IFMT) {
    case S_IFREG:
        file->kind = OPEN_REGULAR;
        return record_regular(file, notes);
    case S_IFIFO:
        return record_pipe(file, &st, notes);
    case S_IFSOCK:
        file->kind = OPEN_SOCKET;
        ends_record(file, notes);
        return true;
    case S_IFCHR:
        file->kind = OPEN_TERMINAL;
        return isatty(file->fd);
    case 0:
        return events_record(file);
    default:
        return false;
    }
}

typedef struct Recording {
    OpenFiles *files;
    int except;
    Notes *notes;
} Recording;

static int record_one(void *userdata, int fd)
{
    const Recording *recording = userdata;
    OpenFiles *files = recording->files;

    if (descriptors_is_own(fd) || fd == recording->except)
        return 0;

    OpenFile *items = pages_room(files->items, files->n, sizeof(*items));
    if (!items)
        return -ENOMEM;
    files->items = items;
    items[files->n] = (OpenFile){.fd = fd};
    files->n += record(&items[files->n], recording->notes);
    return 0;
}

int openfiles_record(OpenFiles *files, int except, Notes *notes)
{
    Recording recording = {files, except, notes};
    int r = numbers_each("/proc/self/fd", record_one, &recording);

    sort(files);
    return r;
}

void openfiles_deinit(OpenFiles *files)
{
    for (size_t i = 0; i < files->n; i++) {
        ends_deinit(&files->items[i]);
        events_deinit(&files->items[i]);
    }
    pages_free(files->items, files->n, sizeof(*files->items));
    *files = (OpenFiles){0};
}

/* Releasing and restoring */

void openfile_place(OpenFile *file, int fd)
{
    dup3(fd, file->fd, file->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0);
    close(fd);
}

/* The same file, opened once more. */
static int open_again(const OpenFile *file, int flags)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    int fd = open(path, flags | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* At the recorded position. */
static int reopen(OpenFile *file)
{
    int fd = open_again(file, file->flags & KEPT_FLAGS);

    if (fd < 0)
        return fd;
    lseek(fd, file->position, SEEK_SET);
    openfile_place(file, fd);
    return 0;
}

/* Leaves a descriptor by which the pipe is found again, and which neither reads nor writes. */
static void release_named_pipe(OpenFile *file)
{
    int fd = open_again(file, O_PATH);

    if (fd >= 0)
        openfile_place(file, fd);
}

/* The number of what is closed stays taken, so that nothing else gets it before its file is restored. */
static void release(OpenFile *file)
{
    switch (file->kind) {
    case OPEN_REGULAR:
        reopen(file);
        break;
    case OPEN_NAMED_PIPE:
        release_named_pipe(file);
        break;
    case OPEN_PIPE:
    case OPEN_SOCKET:
    case OPEN_TERMINAL:
        dup3(STDIN_FILENO, file->fd, O_CLOEXEC);
        break;
    default:
        break;
    }
}

void openfiles_release(const OpenFiles *files)
{
    for (size_t i = 0; i < files->n; i++)
        release(&files->items[i]);
}

static void restore_regular(OpenFile *file, Notes *notes)
{
    if (reopen(file) == 0)
        return;
    lseek(file->fd, file->position, SEEK_SET);
    notes_add(notes, "the position in the file on descriptor %d is shared with other copies of the session",
              file->fd);
}

/* Its other end need not be there. */
static void restore_named_pipe(OpenFile *file, Notes *notes)
{
    int both = open_again(file, O_RDWR | O_NONBLOCK);
    int fd = open_again(file, (file->flags & O_ACCMODE) | O_NONBLOCK);

    if (both >= 0)
        close(both);
    if (fd < 0) {
        notes_add(notes, "the named pipe on descriptor %d was closed", file->fd);
        return;
    }
    fcntl(fd, F_SETFL, file->flags);
    openfile_place(file, fd);
}

void openfiles_restore(OpenFiles *files, Notes *notes)
{
    for (size_t i = 0; i < files->n; i++) {
        if (files->items[i].kind == OPEN_REGULAR)
            restore_regular(&files->items[i], notes);
        else if (files->items[i].kind == OPEN_NAMED_PIPE)
            restore_named_pipe(&files->items[i], notes);
    }
    ends_restore(files, notes);
    events_restore(files, notes);
}
