#include "guest/interpreter/checkpoint/openfiles.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/un.h>

#include "guest/interpreter/checkpoint/no_malloc.h"
#include "guest/interpreter/link.h"

/* Opens what the kernel tells about a descriptor: 0 or a negative errno. */
static int open_fdinfo(Lines *ret, int fd)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
    return lines_open(ret, path);
}

/* Returns the index behind the last of the items that are the same file as items[i]. */
static size_t end_of_same(const OpenFiles *files, size_t i)
{
    const OpenFile *first = &files->items[i];

    while (++i < files->n && files->items[i].device == first->device &&
           files->items[i].inode == first->inode && files->items[i].kind == first->kind)
        ;
    return i;
}

/* Puts `fd`, which is taken, under the number of `file`, with the flags that has. */
static void place(OpenFile *file, int fd)
{
    dup3(fd, file->fd, file->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0);
    close(fd);
}

/* ---- files without an inode of their own ---- */

/* Events of fdinfo without the bits that are the kernel's own. */
#define EVENTS_KNOWN                                                                                         \
    (EPOLLIN | EPOLLOUT | EPOLLPRI | EPOLLRDHUP | EPOLLRDNORM | EPOLLRDBAND | EPOLLWRNORM | EPOLLWRBAND |    \
     EPOLLMSG | EPOLLET | EPOLLONESHOT | EPOLLEXCLUSIVE)

static void add_entry(OpenFile *file, const PollEntry *entry)
{
    PollEntry *items = pages_room(file->polls.items, file->polls.n, sizeof(*items));

    if (!items)
        return;
    items[file->polls.n++] = *entry;
    file->polls.items = items;
}

static void read_entry(OpenFile *file, const char *line)
{
    PollEntry entry;

    if (sscanf(line, "tfd: %d events: %" SCNx32 " data: %" SCNx64, &entry.fd, &entry.events, &entry.data) ==
        3)
        add_entry(file, &entry);
}

static void read_timer(OpenFile *file, const char *line)
{
    struct itimerspec *left = &file->timer.left;

    sscanf(line, "clockid: %d", &file->timer.clock);
    sscanf(line, "ticks: %" SCNu64, &file->timer.ticks);
    sscanf(line, "it_value: (%ld, %ld)", &left->it_value.tv_sec, &left->it_value.tv_nsec);
    sscanf(line, "it_interval: (%ld, %ld)", &left->it_interval.tv_sec, &left->it_interval.tv_nsec);
}

static void read_line(OpenFile *file, const char *line)
{
    switch (file->kind) {
    case OPEN_EPOLL:
        read_entry(file, line);
        break;
    case OPEN_EVENT:
        sscanf(line, "eventfd-count: %" SCNx64, &file->count);
        break;
    case OPEN_TIMER:
        read_timer(file, line);
        break;
    case OPEN_SIGNALS:
        sscanf(line, "sigmask: %" SCNx64, &file->mask);
        break;
    default:
        break;
    }
}

static bool read_lines(OpenFile *file)
{
    Lines info _cleanup_(lines_close);
    const char *line;
    int r = open_fdinfo(&info, file->fd);

    while ((line = lines_next(&info)))
        read_line(file, line);
    return r == 0;
}

static const struct {
    const char *target; /* of the link in /proc */
    OpenFileKind kind;
} kinds[] = {
    {"anon_inode:[eventpoll]", OPEN_EPOLL}, {"anon_inode:[eventfd]", OPEN_EVENT},
    {"anon_inode:[timerfd]", OPEN_TIMER},   {"anon_inode:[signalfd]", OPEN_SIGNALS},
    {"anon_inode:inotify", OPEN_WATCHES},
};

/* Makes `file` one of these kinds; false for what is none. */
static bool events_record(OpenFile *file)
{
    char path[64], target[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[MAX(n, 0)] = '\0';
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(target, kinds[i].target) == 0) {
            file->kind = kinds[i].kind;
            return read_lines(file);
        }
    }
    return false;
}

static void events_deinit(OpenFile *file)
{
    if (file->kind == OPEN_EPOLL)
        pages_free(file->polls.items, file->polls.n, sizeof(*file->polls.items));
}

static void restore_epoll(OpenFile *file)
{
    int fd = epoll_create1(EPOLL_CLOEXEC);

    if (fd < 0)
        return;
    for (size_t i = 0; i < file->polls.n; i++) {
        const PollEntry *entry = &file->polls.items[i];

        epoll_ctl(fd, EPOLL_CTL_ADD, entry->fd,
                  &(struct epoll_event){.events = entry->events & EVENTS_KNOWN, .data.u64 = entry->data});
    }
    place(file, fd);
}

static int make_event(const OpenFile *file, int flags)
{
    int fd = eventfd(0, flags);

    if (fd >= 0 && file->count > 0 && write(fd, &file->count, sizeof(file->count)) < 0)
        close_fd(&fd);
    return fd;
}

/* Makes a timer. One that has ticked ticks at once. */
static int make_timer(const OpenFile *file, int flags)
{
    struct itimerspec left = file->timer.left;
    int fd = timerfd_create(file->timer.clock, flags);

    if (file->timer.ticks > 0)
        left.it_value = (struct timespec){.tv_nsec = 1};
    if (fd >= 0 && timerfd_settime(fd, 0, &left, NULL) < 0)
        close_fd(&fd);
    return fd;
}

static int make_signals(const OpenFile *file, int flags)
{
    sigset_t set;

    sigemptyset(&set);
    for (int number = 1; number <= 64; number++) {
        if (file->mask >> (number - 1) & 1)
            sigaddset(&set, number);
    }
    return signalfd(-1, &set, flags);
}

/* The flags of all kinds have the numbers of O_CLOEXEC and O_NONBLOCK. */
static void restore_event(OpenFile *file, Notes *notes)
{
    int flags = O_CLOEXEC | (file->flags & O_NONBLOCK), fd = -1;

    if (file->kind == OPEN_EVENT)
        fd = make_event(file, flags);
    else if (file->kind == OPEN_TIMER)
        fd = make_timer(file, flags);
    else if (file->kind == OPEN_SIGNALS)
        fd = make_signals(file, flags);
    else if (file->kind == OPEN_WATCHES) {
        notes_add(notes, "what descriptor %d watches (inotify) is not watched any more", file->fd);
        fd = inotify_init1(flags);
    }
    if (fd >= 0)
        place(file, fd);
}

static void events_restore(OpenFiles *files, Notes *notes)
{
    for (size_t i = 0; i < files->n; i++)
        restore_event(&files->items[i], notes);
    /* Last: they hold the others. */
    for (size_t i = 0; i < files->n; i++) {
        if (files->items[i].kind == OPEN_EPOLL)
            restore_epoll(&files->items[i]);
    }
}

/* ---- pipes, sockets and terminals ---- */

/* As much as a pipe can have. */
#define PENDING_MAX (1 << 20)

static int option(int fd, int name)
{
    int value = 0;
    socklen_t size = sizeof(value);

    getsockopt(fd, SOL_SOCKET, name, &value, &size);
    return value;
}

static bool is_connected(int fd)
{
    struct pollfd state = {.fd = fd};

    return poll(&state, 1, 0) == 0 || !(state.revents & POLLHUP);
}

/* The process that made a pair of sockets of which this may be one: they have no names. */
static pid_t pair_creator(const OpenFile *file)
{
    struct sockaddr_un name;
    socklen_t size = sizeof(name);
    struct ucred creator = {0};

    if (file->socket.domain != AF_UNIX || file->socket.listens || !is_connected(file->fd) ||
        getsockname(file->fd, (struct sockaddr *)&name, &size) < 0 || size > sizeof(name.sun_family))
        return 0;
    size = sizeof(creator);
    getsockopt(file->fd, SOL_SOCKET, SO_PEERCRED, &creator, &size);
    return creator.pid;
}

/* Reads all of `size` bytes of a pipe, or nothing; the pipe keeps them. */
static ssize_t peek_pipe(int fd, uint8_t *bytes, size_t size)
{
    int ends[2];

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        return -1;
    fcntl(ends[1], F_SETPIPE_SZ, fcntl(fd, F_GETPIPE_SZ));
    ssize_t n = tee(fd, ends[1], size, SPLICE_F_NONBLOCK);
    n = n == (ssize_t)size ? read(ends[0], bytes, size) : -1;
    close(ends[0]);
    close(ends[1]);
    return n;
}

static ssize_t peek(const OpenFile *file, uint8_t *bytes, size_t size)
{
    if (file->kind == OPEN_PIPE)
        return peek_pipe(file->fd, bytes, size);
    return recv(file->fd, bytes, size, MSG_PEEK | MSG_DONTWAIT);
}

static void note_loss(const OpenFile *file, size_t size, Notes *notes)
{
    notes_add(notes, "the %zu bytes that were in the %s on descriptor %d are lost", size,
              file->kind == OPEN_PIPE ? "pipe" : "local connection", file->fd);
}

static void copy_pending(OpenFile *file, Notes *notes)
{
    int waiting = 0;

    if (ioctl(file->fd, FIONREAD, &waiting) < 0 || waiting <= 0)
        return;

    size_t size = (size_t)waiting;
    uint8_t *bytes = size <= PENDING_MAX ? pages_room(NULL, 0, size) : NULL;
    if (!bytes || peek(file, bytes, size) != (ssize_t)size) {
        pages_free(bytes, 1, size);
        note_loss(file, size, notes);
        return;
    }
    file->pending = bytes;
    file->pending_size = size;
}

static void record_socket(OpenFile *file, Notes *notes)
{
    file->socket.domain = option(file->fd, SO_DOMAIN);
    file->socket.type = option(file->fd, SO_TYPE);
    file->socket.listens = option(file->fd, SO_ACCEPTCONN);
    file->socket.creator = pair_creator(file);
    if (file->socket.creator && file->socket.type == SOCK_STREAM)
        copy_pending(file, notes);
}

/* Copies what is in it, and finds out what is needed to make another like it. */
static void ends_record(OpenFile *file, Notes *notes)
{
    if (file->kind == OPEN_SOCKET)
        record_socket(file, notes);
    else if ((file->flags & O_ACCMODE) == O_RDONLY)
        copy_pending(file, notes);
}

static void ends_deinit(OpenFile *file)
{
    pages_free(file->pending, 1, file->pending_size);
}

/* Under all the numbers from items[i] to items[end]. */
static void place_all(OpenFiles *files, size_t i, size_t end, int fd)
{
    for (; i < end; i++) {
        OpenFile *file = &files->items[i];

        dup3(fd, file->fd, file->fd_flags & FD_CLOEXEC ? O_CLOEXEC : 0);
        fcntl(file->fd, F_SETFL, file->flags & (O_NONBLOCK | O_ASYNC | O_DIRECT));
    }
}

/* Fills a pipe with the bytes that were read from one of its ends; all ends have the same. */
static void fill_pipe(int to, const OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    const OpenFile *file = &files->items[i];

    while (++i < end && file->pending_size == 0)
        file = &files->items[i];
    if (file->pending_size == 0)
        return;
    fcntl(to, F_SETPIPE_SZ, file->pending_size);
    if (write(to, file->pending, file->pending_size) != (ssize_t)file->pending_size)
        note_loss(file, file->pending_size, notes);
}

static void restore_pipe(OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    size_t writers = 0, n = end - i;
    int ends[2], first = files->items[i].fd;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) < 0)
        ends[0] = ends[1] = -1;
    fill_pipe(ends[1], files, i, end, notes);
    for (; i < end; i++) {
        bool writes = (files->items[i].flags & O_ACCMODE) != O_RDONLY;

        writers += writes;
        place_all(files, i, i + 1, ends[writes]);
    }
    close_fd(&ends[0]);
    close_fd(&ends[1]);
    if (writers == 0 || writers == n)
        notes_add(notes, "the pipe on descriptor %d was closed", first);
}

/* The kernel numbers the two sockets of a pair one after the other, nearly always. Who is connected with whom
 * it tells over netlink alone, which a sandbox does not have, and to try it would put bytes into connections
 * of others. */
static bool is_pair(const OpenFiles *files, size_t left, size_t right)
{
    const OpenFile *a = &files->items[left], *b = &files->items[right];

    return right < files->n && b->kind == OPEN_SOCKET && a->inode + 1 == b->inode && a->socket.creator != 0 &&
           a->socket.creator == b->socket.creator && a->socket.type == b->socket.type;
}

static void send_pending(int to, const OpenFile *file, Notes *notes)
{
    if (file->pending_size > 0 && send(to, file->pending, file->pending_size, MSG_DONTWAIT | MSG_NOSIGNAL) !=
                                      (ssize_t)file->pending_size)
        note_loss(file, file->pending_size, notes);
}

static void restore_pair(OpenFiles *files, size_t left, size_t right, size_t end, Notes *notes)
{
    int ends[2];

    if (socketpair(AF_UNIX, files->items[left].socket.type | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    send_pending(ends[1], &files->items[left], notes);
    send_pending(ends[0], &files->items[right], notes);
    place_all(files, left, right, ends[0]);
    place_all(files, right, end, ends[1]);
    close(ends[0]);
    close(ends[1]);
}

static const char *name_of(const OpenFile *file)
{
    if (file->kind == OPEN_TERMINAL)
        return "terminal";
    if (file->socket.listens)
        return "listening socket";
    return file->socket.domain == AF_UNIX ? "local connection" : "network connection";
}

/* Restores a connection as one that was lost: reading from it finds the end, writing to it fails. */
static void restore_dead(OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    int ends[2];

    notes_add(notes, "the %s on descriptor %d was closed", name_of(&files->items[i]), files->items[i].fd);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    place_all(files, i, end, ends[0]);
    close(ends[0]);
    close(ends[1]);
}

static void restore_pipes(OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    int stream = files->items[i].stream;

    if (stream > 0)
        place_all(files, i, end, descriptors_stream(stream));
    else
        restore_pipe(files, i, end, notes);
}

/* Returns the end of what it restored. */
static size_t restore_sockets(OpenFiles *files, size_t i, size_t end, Notes *notes)
{
    size_t second = end;

    if (!is_pair(files, i, second)) {
        restore_dead(files, i, end, notes);
        return end;
    }
    end = end_of_same(files, second);
    restore_pair(files, i, second, end, notes);
    return end;
}

static void ends_restore(OpenFiles *files, Notes *notes)
{
    for (size_t i = 0, end; i < files->n; i = end) {
        OpenFileKind kind = files->items[i].kind;

        end = end_of_same(files, i);
        if (kind == OPEN_PIPE)
            restore_pipes(files, i, end, notes);
        else if (kind == OPEN_SOCKET)
            end = restore_sockets(files, i, end, notes);
        else if (kind == OPEN_TERMINAL)
            restore_dead(files, i, end, notes);
    }
}

/* ---- recording ---- */

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

static void note_locks(const OpenFile *file, Notes *notes)
{
    Lines info _cleanup_(lines_close);
    const char *line;

    open_fdinfo(&info, file->fd);
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

/* ---- releasing and restoring ---- */

/* Flags with which a file is opened again: all but those that would make or empty it. */
#define KEPT_FLAGS (O_ACCMODE | O_APPEND | O_NONBLOCK | O_SYNC | O_DSYNC | O_DIRECT | O_NOATIME | O_LARGEFILE)

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
    place(file, fd);
    return 0;
}

/* Leaves a descriptor by which the pipe is found again, and which neither reads nor writes. */
static void release_named_pipe(OpenFile *file)
{
    int fd = open_again(file, O_PATH);

    if (fd >= 0)
        place(file, fd);
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
    place(file, fd);
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
