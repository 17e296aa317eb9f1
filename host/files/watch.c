#include "host/files/watch.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>

#include "host/files/beneath.h"

#define WATCH_MASK                                                                                           \
    (IN_CREATE | IN_MODIFY | IN_CLOSE_WRITE | IN_ATTRIB | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE |          \
     IN_ONLYDIR)

typedef struct WatchedDirectory {
    int wd;
    char *path;
} WatchedDirectory;

static int compare(const void *a, const void *b)
{
    int x = ((const WatchedDirectory *)a)->wd, y = ((const WatchedDirectory *)b)->wd;

    return (x > y) - (x < y);
}

static void directory_free(void *userdata)
{
    WatchedDirectory *directory = userdata;

    free(directory->path);
    free(directory);
}

static WatchedDirectory *directory_find(Watch *watch, int wd)
{
    WatchedDirectory key = {.wd = wd};
    WatchedDirectory **found = tfind(&key, &watch->directories, compare);

    return found ? *found : NULL;
}

int watch_open(Watch *watch, size_t max_directories)
{
    int fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);

    if (fd < 0)
        return -errno;
    *watch = (Watch){.fd = fd, .max_directories = max_directories};
    return 0;
}

void watch_close(Watch *watch)
{
    close_fd(&watch->fd);
    tdestroy(watch->directories, directory_free);
    *watch = WATCH_CLOSED;
}

static int directory_add(Watch *watch, int wd, const char *path)
{
    WatchedDirectory *directory = calloc(1, sizeof(*directory));

    if (directory)
        *directory = (WatchedDirectory){.wd = wd, .path = strdup(path)};
    if (!directory || !directory->path || !tsearch(directory, &watch->directories, compare)) {
        if (directory)
            directory_free(directory);
        return -ENOMEM;
    }
    watch->count++;
    return 0;
}

static int directory_rename(WatchedDirectory *directory, const char *path)
{
    char *copy = strcmp(directory->path, path) == 0 ? directory->path : strdup(path);

    if (!copy)
        return -ENOMEM;
    if (copy != directory->path)
        free(directory->path);
    directory->path = copy;
    return 0;
}

int watch_add(Watch *watch, int dirfd, const char *path)
{
    char fd_name[FD_PATH_SIZE];

    if (watch->count >= watch->max_directories)
        return -ENOSPC;
    int wd = inotify_add_watch(watch->fd, fd_path(fd_name, dirfd), WATCH_MASK);
    if (wd < 0)
        return -errno;
    WatchedDirectory *directory = directory_find(watch, wd);
    return directory ? directory_rename(directory, path) : directory_add(watch, wd, path);
}

static void forget(Watch *watch, WatchedDirectory *directory)
{
    tdelete(directory, &watch->directories, compare);
    directory_free(directory);
    watch->count--;
}

static int dispatch(Watch *watch, const struct inotify_event *event, const WatchEvents *events,
                    void *userdata)
{
    char path[PATH_MAX];

    if (event->mask & IN_Q_OVERFLOW)
        return -ESTALE;
    WatchedDirectory *directory = directory_find(watch, event->wd);
    if (!directory)
        return 0;
    if (event->mask & IN_IGNORED) {
        forget(watch, directory);
        return 0;
    }
    if (event->len == 0)
        return 0; /* of the directory itself */
    if ((event->mask & IN_ISDIR) && (event->mask & IN_MOVED_FROM))
        return -ESTALE;
    int n = snprintf(path, sizeof(path), "%s%s%s", directory->path, *directory->path ? "/" : "", event->name);
    if (n >= (int)sizeof(path))
        return -ESTALE; /* a full scan says so */
    if (!(event->mask & IN_ISDIR))
        events->changed(userdata, path);
    else if (event->mask & (IN_CREATE | IN_MOVED_TO))
        events->new_directory(userdata, path);
    return 0;
}

int watch_read(Watch *watch, const WatchEvents *events, void *userdata)
{
    _Alignas(struct inotify_event) char buffer[16384];
    size_t left = watch_queued(watch->fd); /* later events belong to the next time */

    while (left > 0) {
        ssize_t n = read(watch->fd, buffer, sizeof(buffer));

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 && errno != EAGAIN ? -errno : 0;
        for (ssize_t at = 0; at < n;) {
            const struct inotify_event *event = (const void *)(buffer + at);
            int r = dispatch(watch, event, events, userdata);

            if (r < 0)
                return r;
            at += (ssize_t)(sizeof(*event) + event->len);
        }
        left -= MIN(left, (size_t)n);
    }
    return 0;
}
