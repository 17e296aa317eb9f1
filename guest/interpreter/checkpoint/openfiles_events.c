#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include "guest/interpreter/checkpoint/openfiles_kinds.h"
#include "guest/interpreter/checkpoint/pages.h"

/* Of the events in fdinfo: without the bits that are the kernel's own. */
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

static void read_line(OpenFile *file, const char *line)
{
    PollEntry entry;

    if (file->kind == OPEN_EPOLL && sscanf(line, "tfd: %d events: %" SCNx32 " data: %" SCNx64, &entry.fd,
                                           &entry.events, &entry.data) == 3)
        add_entry(file, &entry);
    else if (file->kind == OPEN_EVENT)
        sscanf(line, "eventfd-count: %" SCNx64, &file->count);
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

bool events_record(OpenFile *file)
{
    char path[64], target[64];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    ssize_t n = readlink(path, target, sizeof(target) - 1);
    target[MAX(n, 0)] = '\0';
    if (strcmp(target, "anon_inode:[eventpoll]") == 0)
        file->kind = OPEN_EPOLL;
    else if (strcmp(target, "anon_inode:[eventfd]") == 0)
        file->kind = OPEN_EVENT;
    else
        return false;
    return read_lines(file);
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

static void restore_event(OpenFile *file)
{
    int fd = eventfd(0, EFD_CLOEXEC | (file->flags & O_NONBLOCK ? EFD_NONBLOCK : 0));

    if (fd < 0)
        return;
    if (file->count > 0 && write(fd, &file->count, sizeof(file->count)) < 0) {
        close(fd);
        return;
    }
    openfile_place(file, fd);
}

void events_restore(OpenFiles *files)
{
    for (size_t i = 0; i < files->n; i++) {
        if (files->items[i].kind == OPEN_EVENT)
            restore_event(&files->items[i]);
    }
    /* Last: they hold the others. */
    for (size_t i = 0; i < files->n; i++) {
        if (files->items[i].kind == OPEN_EPOLL)
            restore_epoll(&files->items[i]);
    }
}
