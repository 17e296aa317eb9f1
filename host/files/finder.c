#include "host/files/finder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/files/beneath.h"
#include "proto/base/clock.h"

/* Below a longer path no file name is certain to fit into PATH_MAX. */
#define DIRECTORY_PATH_MAX (PATH_MAX - NAME_MAX - 2)

/* A directory that is still to be looked into. */
typedef struct Place {
    struct Place *next;
    unsigned depth;
    char path[];
} Place;

void finder_init(Finder *finder, int root, const FinderLimits *limits)
{
    *finder = (Finder){.root = root, .limits = limits, .watch = WATCH_CLOSED, .scan = true};
    index_init(&finder->index, limits->entries, limits->path_bytes);
}

void finder_deinit(Finder *finder)
{
    watch_close(&finder->watch);
    index_deinit(&finder->index);
}

bool finder_pending(const Finder *finder)
{
    return finder->scan || !list_empty(&finder->index.pending) || watch_pending(&finder->watch);
}

static int push_place(Place **places, const char *path, unsigned depth)
{
    size_t size = strlen(path) + 1;
    Place *place = malloc(sizeof(Place) + size);

    if (!place)
        return -ENOMEM;
    place->depth = depth;
    memcpy(place->path, path, size);
    place->next = *places;
    *places = place;
    return 0;
}

/* The entry of a path that was seen; NULL, and an incomplete collection, when there is no room for it. */
static IndexEntry *seen(Finder *finder, const char *path)
{
    IndexEntry *entry = index_add(&finder->index, path);

    if (entry)
        entry->generation = finder->index.generation;
    else
        finder->incomplete = true;
    return entry;
}

/* Returns whether a reported directory is one that was restored: one of which nothing is known but that it
 * was reported. */
static bool is_restored(const IndexEntry *entry)
{
    return !entry->obstacle && S_ISDIR(entry->identity.type);
}

/* Says once, as an entry of its own, why a directory is not entered. */
static void put_obstacle(Finder *finder, const char *path, const char *why)
{
    IndexEntry *entry = seen(finder, path);

    if (!entry || (entry->reported && entry->obstacle == why))
        return;
    if (entry->reported && is_restored(entry)) {
        entry->obstacle = why;
        return;
    }
    entry->obstacle = why;
    entry->reported = false;
    index_mark(&finder->index, entry);
}

static void look_at_directory(Finder *finder, Place **places, const char *path, unsigned depth)
{
    if (depth > finder->limits->depth)
        put_obstacle(finder, path, "nested too deeply");
    else if (strlen(path) > DIRECTORY_PATH_MAX)
        put_obstacle(finder, path, "path too long");
    else if (push_place(places, path, depth) < 0)
        finder->incomplete = true;
}

static void look_at(Finder *finder, Place **places, const Place *place, int dirfd, const char *name)
{
    char path[PATH_MAX];
    struct stat st;

    snprintf(path, sizeof(path), "%s%s%s", place->path, *place->path ? "/" : "", name);
    if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return; /* gone again */
    if (S_ISDIR(st.st_mode)) {
        look_at_directory(finder, places, path, place->depth + 1);
        return;
    }
    finder->linked |= S_ISREG(st.st_mode) && st.st_nlink > 1;
    IndexEntry *entry = seen(finder, path);
    if (entry && index_entry_differs(entry, &st))
        index_mark(&finder->index, entry);
}

static bool within_limits(Finder *finder)
{
    if (++finder->looked_at > finder->limits->entries ||
        (finder->looked_at % 256 == 0 && clock_now() > finder->deadline))
        finder->incomplete = true;
    return !finder->incomplete;
}

static void watch_place(Finder *finder, int dirfd, const char *path)
{
    if (!watch_is_open(&finder->watch))
        return;
    int r = watch_add(&finder->watch, dirfd, path);
    if (r < 0) {
        finder->unwatchable |= r == -ENOSPC;
        watch_close(&finder->watch);
    }
}

/* The watch comes before the look: what changes in between is seen twice rather than never. */
static void look_into(Finder *finder, Place **places, const Place *place)
{
    int fd = beneath_open(finder->root, *place->path ? place->path : ".", O_RDONLY | O_DIRECTORY, 0);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream) {
        if (fd == -EACCES || fd == -EPERM)
            put_obstacle(finder, place->path, "unreadable directory");
        else if (fd == -EXDEV)
            put_obstacle(finder, place->path, "another filesystem");
        else if (fd >= 0 || (fd != -ENOENT && fd != -ENOTDIR && fd != -ELOOP))
            finder->incomplete = true;
        closep(&fd);
        return;
    }
    watch_place(finder, fd, place->path);
    for (struct dirent *entry; (entry = readdir(stream)) && within_limits(finder);)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            look_at(finder, places, place, fd, entry->d_name);
    closedir(stream);
}

/* Looks at everything in and below `path`. */
static void look_through(Finder *finder, const char *path, unsigned depth)
{
    Place *places = NULL, *place;

    look_at_directory(finder, &places, path, depth);
    while ((place = places)) {
        places = place->next;
        if (!finder->incomplete)
            look_into(finder, &places, place);
        free(place);
    }
}

static void look_at_everything(Finder *finder)
{
    finder->index.generation++;
    finder->incomplete = false;
    finder->linked = false;
    finder->looked_at = 0;
    finder->deadline = clock_now() + finder->limits->scan_nsec;
    look_through(finder, "", 0);
    if (!finder->incomplete)
        index_sweep(&finder->index);
}

static void on_changed(void *userdata, const char *path)
{
    Finder *finder = userdata;
    IndexEntry *entry = seen(finder, path);

    if (entry)
        index_mark(&finder->index, entry);
}

static unsigned path_depth(const char *path)
{
    unsigned depth = 1;

    for (; *path; path++)
        depth += *path == '/';
    return depth;
}

static void on_new_directory(void *userdata, const char *path)
{
    Finder *finder = userdata;

    look_through(finder, path, path_depth(path));
}

static const WatchEvents events = {.changed = on_changed, .new_directory = on_new_directory};

/* Returns whether a pending file has several names: it may have changed under all of them, and events name
 * one. */
static bool has_links(Finder *finder)
{
    IndexEntry *entry;
    bool found = false;

    list_foreach (entry, &finder->index.pending, IndexEntry, pending) {
        struct stat st;
        int handle = beneath_find(finder->root, entry->path, &st);

        found |= handle >= 0 && S_ISREG(st.st_mode) && st.st_nlink > 1;
        closep(&handle);
    }
    return found;
}

/* With events alone; false when that was not enough. */
static bool collect_events(Finder *finder)
{
    if (watch_read(&finder->watch, &events, finder) < 0)
        return false;
    finder->linked |= has_links(finder);
    return !finder->incomplete && watch_is_open(&finder->watch) && !finder->linked;
}

void finder_collect(Finder *finder)
{
    bool watch = !finder->linked && !finder->unwatchable;

    finder->deadline = clock_now() + finder->limits->scan_nsec;
    finder->incomplete = false;
    finder->looked_at = 0;
    if (!finder->scan && collect_events(finder))
        return;

    watch_close(&finder->watch);
    finder->watches++;
    if (watch)
        watch_open(&finder->watch, finder->limits->directories);
    look_at_everything(finder);
    finder->scan = finder->incomplete || finder->linked || !watch_is_open(&finder->watch);
}
