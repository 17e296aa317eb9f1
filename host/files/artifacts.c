#include "host/files/artifacts.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "proto/base/clock.h"

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
    if (!is_busy(artifacts))
        finder_collect(&artifacts->finder);
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
