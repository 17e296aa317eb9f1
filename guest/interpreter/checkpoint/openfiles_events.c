#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

#include "guest/interpreter/checkpoint/openfiles_kinds.h"
#include "guest/interpreter/checkpoint/no_malloc.h"

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
    int r = fdinfo_open(&info, file->fd);

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

bool events_record(OpenFile *file)
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

void events_deinit(OpenFile *file)
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
    openfile_place(file, fd);
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
        openfile_place(file, fd);
}

void events_restore(OpenFiles *files, Notes *notes)
{
    for (size_t i = 0; i < files->n; i++)
        restore_event(&files->items[i], notes);
    /* Last: they hold the others. */
    for (size_t i = 0; i < files->n; i++) {
        if (files->items[i].kind == OPEN_EPOLL)
            restore_epoll(&files->items[i]);
    }
}
