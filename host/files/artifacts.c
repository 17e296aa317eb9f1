#include "host/files/artifacts.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

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

static void finder_init(Finder *finder, int root, const FinderLimits *limits)
{
    *finder = (Finder){.root = root, .limits = limits, .watch = WATCH_CLOSED, .scan = true};
    index_init(&finder->index, limits->entries, limits->path_bytes);
}

static void finder_deinit(Finder *finder)
{
    watch_close(&finder->watch);
    index_deinit(&finder->index);
}

/* Returns whether a collection would do anything; at most one system call. */
static bool finder_pending(const Finder *finder)
{
    return finder->scan || !list_empty(&finder->index.pending) || watch_queued(finder->watch.fd) > 0;
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

/* Marks in the index what may have changed. */
static void finder_collect(Finder *finder)
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

/* ---- publishing ---- */

/* Entries that are looked at on a thread that serves others. */
#define LOOK_ENTRIES 256u

const ArtifactLimits artifact_limits_default = {
    .finder =
        {
            .depth = 32,
            .directories = 4096,
            .entries = 100000,
            .path_bytes = 16u << 20,
            .scan_nsec = 2 * NSEC_PER_SEC,
        },
    .publish =
        {
            .file_bytes = UINT64_C(1) << 30,
            .call_bytes = UINT64_C(4) << 30,
            .call_files = 1000,
            .list_entries = 2000,
        },
};

struct Artifacts {
    int root;
    int target;
    char *prefix;
    char *target_path;
    const ArtifactLimits *limits;
    Worker *worker;
    List tasks; /* one after the other; the first is under way, and has the finder and its watch */
    Room room;
    bool bounded;
    bool freed;

    Finder finder;
};

typedef struct ArtifactsTask {
    Artifacts *artifacts;
    List link; /* Artifacts.tasks */
    WorkerJob job;
    void (*run)(WorkerJob *job);
    ArtifactList *list; /* NULL where nothing is published */
    ArtifactsDone done;
    void *userdata;
} ArtifactsTask;

static bool is_busy(const Artifacts *artifacts)
{
    return !list_empty(&artifacts->tasks);
}

static int open_target(Artifacts *artifacts, const char *publish_dir)
{
    if (mkdir(publish_dir, 0755) < 0 && errno != EEXIST)
        return -errno;
    artifacts->target = open(publish_dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (artifacts->target < 0)
        return -errno;
    publish_clean(artifacts->target);
    return 0;
}

int artifacts_new(Artifacts **ret, const char *root_dir, const char *prefix, const char *publish_dir)
{
    _cleanup_(closep) int root = open(root_dir, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    if (root < 0)
        return -errno;
    _cleanup_(artifacts_freep) Artifacts *artifacts = calloc(1, sizeof(*artifacts));
    if (!artifacts)
        return -ENOMEM;
    artifacts->root = take_fd(&root);
    artifacts->target = -1;
    list_init(&artifacts->tasks);
    artifacts_set_limits(artifacts, &artifact_limits_default);
    artifacts->prefix = strdup(prefix);
    artifacts->target_path = strdup(publish_dir);
    if (!artifacts->prefix || !artifacts->target_path)
        return -ENOMEM;
    int r = open_target(artifacts, publish_dir);
    if (r == 0)
        *ret = take(artifacts);
    return r;
}

Artifacts *artifacts_free(Artifacts *artifacts)
{
    if (!artifacts)
        return NULL;
    if (is_busy(artifacts)) {
        artifacts->freed = true;
        return NULL;
    }
    finder_deinit(&artifacts->finder);
    closep(&artifacts->root);
    closep(&artifacts->target);
    free(artifacts->prefix);
    free(artifacts->target_path);
    free(artifacts);
    return NULL;
}

void artifacts_set_limits(Artifacts *artifacts, const ArtifactLimits *limits)
{
    artifacts->limits = limits;
    finder_init(&artifacts->finder, artifacts->root, &limits->finder);
}

void artifacts_set_room(Artifacts *artifacts, uint64_t bytes, uint64_t files)
{
    artifacts->room = room_of_disk(bytes, files);
    artifacts->bounded = true;
}

bool artifacts_dirty(const Artifacts *artifacts)
{
    return is_busy(artifacts) || finder_pending(&artifacts->finder);
}

int artifacts_watch(const Artifacts *artifacts, unsigned *ret_number)
{
    *ret_number = artifacts->finder.watches;
    return artifacts->finder.watch.fd;
}

void artifacts_look(Artifacts *artifacts)
{
    Finder *finder = &artifacts->finder;
    const FinderLimits *limits = finder->limits;
    FinderLimits few = *limits;

    if (is_busy(artifacts))
        return;
    few.entries = MIN(limits->entries, LOOK_ENTRIES);
    finder->limits = &few;
    finder_collect(finder);
    finder->limits = limits;
}

/* ---- one after the other ---- */

static void end_task(ArtifactsTask *task)
{
    ArtifactsDone done = task->done;
    ArtifactList *list = task->list;
    void *userdata = task->userdata;

    free(task);
    done(userdata, list);
}

/* Whoever waits gets to know that nothing was done for him. */
static void end_waiting(Artifacts *artifacts)
{
    ArtifactsTask *task;

    list_foreach (task, &artifacts->tasks, ArtifactsTask, link) {
        list_remove(&task->link);
        end_task(task);
    }
}

/* The next one can be submitted, as there is a thread that did this one. */
static void on_task_done(WorkerJob *job)
{
    ArtifactsTask *task = container_of(job, ArtifactsTask, job), *next;
    Artifacts *artifacts = task->artifacts;

    list_remove(&task->link);
    if (artifacts->freed) {
        end_waiting(artifacts);
        artifacts_free(artifacts);
    } else if (is_busy(artifacts)) {
        next = list_entry(list_first(&artifacts->tasks), ArtifactsTask, link);
        worker_submit(artifacts->worker, &next->job, next->run, on_task_done);
    }
    end_task(task);
}

/* The task is `artifacts`' from now on, or freed with its list on failure. */
static int begin_task(Artifacts *artifacts, Worker *worker, ArtifactsTask *task)
{
    int r;

    task->artifacts = artifacts;
    artifacts->worker = worker;
    r = is_busy(artifacts) ? 0 : worker_submit(worker, &task->job, task->run, on_task_done);
    if (r < 0) {
        artifact_list_free(task->list);
        free(task);
        return r;
    }
    list_append(&artifacts->tasks, &task->link);
    return 0;
}

static void publish_run(WorkerJob *job)
{
    ArtifactsTask *task = container_of(job, ArtifactsTask, job);
    Artifacts *artifacts = task->artifacts;
    Publisher publisher = {
        .root = artifacts->root,
        .prefix = artifacts->prefix,
        .target = artifacts->target,
        .target_path = artifacts->target_path,
        .limits = &artifacts->limits->publish,
        .list = task->list,
        .index = &artifacts->finder.index,
        .room = artifacts->bounded ? &artifacts->room : NULL,
    };

    finder_collect(&artifacts->finder);
    task->list->incomplete = artifacts->finder.incomplete;
    if (publisher_init(&publisher) == 0)
        publish_pending(&publisher);
    else
        task->list->incomplete = true;
    publisher_deinit(&publisher);
    artifact_list_sort(task->list);
}

int artifacts_publish(Artifacts *artifacts, Worker *worker, ArtifactsDone done, void *userdata)
{
    ArtifactList *list _cleanup_(artifact_list_freep) = artifact_list_new();
    ArtifactsTask *task = list ? calloc(1, sizeof(*task)) : NULL;

    if (!task)
        return -ENOMEM;
    *task = (ArtifactsTask){.run = publish_run, .list = take(list), .done = done, .userdata = userdata};
    return begin_task(artifacts, worker, task);
}

int artifacts_write_baseline(Artifacts *artifacts, bool all, int (*put)(void *userdata, const Buf *files),
                             void *userdata)
{
    return is_busy(artifacts) ? -EBUSY : baseline_each(&artifacts->finder.index, all, put, userdata);
}

void artifacts_read_baseline(Artifacts *artifacts, const msgpack_object_array *files)
{
    baseline_read(&artifacts->finder.index, files);
}

/* Longer than a file's times need to tell a later change apart; see identity_of(). */
#define SETTLE_NSEC (25 * (long)NSEC_PER_MSEC)

static void accept_run(WorkerJob *job)
{
    Artifacts *artifacts = container_of(job, ArtifactsTask, job)->artifacts;
    Index *index = &artifacts->finder.index;
    IndexEntry *entry;

    finder_collect(&artifacts->finder);
    if (list_empty(&index->pending))
        return;
    nanosleep(&(struct timespec){.tv_nsec = SETTLE_NSEC}, NULL);
    finder_collect(&artifacts->finder);
    list_foreach (entry, &index->pending, IndexEntry, pending) {
        struct stat st;
        _cleanup_(closep) int handle = beneath_find(artifacts->root, entry->path, &st);

        if (handle < 0 || (S_ISDIR(st.st_mode) && !entry->obstacle)) {
            index_drop(index, entry);
            continue;
        }
        entry->identity = identity_of(&st);
        entry->reported = true;
        entry->published = false;
        index_note(index, entry);
        index_settle(entry);
    }
}

int artifacts_accept(Artifacts *artifacts, Worker *worker, ArtifactsDone done, void *userdata)
{
    ArtifactsTask *task = calloc(1, sizeof(*task));

    if (!task)
        return -ENOMEM;
    *task = (ArtifactsTask){.run = accept_run, .done = done, .userdata = userdata};
    return begin_task(artifacts, worker, task);
}
