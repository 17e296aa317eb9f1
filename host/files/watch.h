/* Watch: one inotify instance over the directories of a tree. It is in no event loop: the kernel queues
 * events until they are asked for. Which directory a watch belongs to is remembered as a path, so a
 * directory that is moved makes the whole Watch worthless. */
#pragma once

#include <sys/ioctl.h>

#include "proto/base/base.h"

typedef struct Watch {
    int fd;            /* -1 when closed */
    void *directories; /* tree of watched directories by watch descriptor */
    size_t count;
    size_t max_directories;
} Watch;

#define WATCH_CLOSED ((Watch){.fd = -1})

/* 0, or -EMFILE when the user has no inotify instance left, or another negative errno. */
int watch_open(Watch *watch, size_t max_directories);
void watch_close(Watch *watch); /* may be called on a closed one */
static inline bool watch_is_open(const Watch *watch)
{
    return watch->fd >= 0;
}

/* Watches the directory behind `dirfd`, whose path is `path`. Adding one again gives it a new path.
 * 0, -ENOSPC when there are too many, -ENOMEM. */
int watch_add(Watch *watch, int dirfd, const char *path);

/* Bytes of the events that wait at its descriptor; one system call. */
static inline size_t watch_queued(int fd)
{
    int bytes = 0;

    return ioctl(fd, FIONREAD, &bytes) == 0 && bytes > 0 ? (size_t)bytes : 0;
}

typedef struct WatchEvents {
    void (*changed)(void *userdata, const char *path);       /* perhaps: something other than a directory */
    void (*new_directory)(void *userdata, const char *path); /* to be watched and looked into */
} WatchEvents;

/* Hands out the events that wait now. 0; -ESTALE when the Watch cannot be relied on any more (events were
 * lost, a directory was moved): it is to be closed and everything looked at again; -ENOMEM, likewise. */
int watch_read(Watch *watch, const WatchEvents *events, void *userdata);
