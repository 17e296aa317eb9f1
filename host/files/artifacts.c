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
    bool busy; /* a job has everything below, and the finder's watch */
    bool freed;

    Finder finder;
    ArtifactList *list;
    WorkerJob job;
    void (*done)(void *userdata, ArtifactList *list);
    void (*accepted)(void *userdata);
    void *userdata;
};

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
    if (artifacts->busy) {
        artifacts->freed = true;
        return NULL;
    }
    finder_deinit(&artifacts->finder);
    artifact_list_free(artifacts->list);
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

bool artifacts_dirty(const Artifacts *artifacts)
{
    return artifacts->busy || finder_pending(&artifacts->finder);
}

void artifacts_look(Artifacts *artifacts)
{
    if (!artifacts->busy)
        finder_collect(&artifacts->finder);
}

static void publish_run(WorkerJob *job)
{
    Artifacts *artifacts = container_of(job, Artifacts, job);
    Publisher publisher = {
        .root = artifacts->root,
        .prefix = artifacts->prefix,
        .target = artifacts->target,
        .target_path = artifacts->target_path,
        .limits = &artifacts->limits->publish,
        .list = artifacts->list,
        .index = &artifacts->finder.index,
    };

    finder_collect(&artifacts->finder);
    artifacts->list->incomplete = artifacts->finder.incomplete;
    if (publisher_init(&publisher) == 0)
        publish_pending(&publisher);
    else
        artifacts->list->incomplete = true;
    publisher_deinit(&publisher);
    artifact_list_sort(artifacts->list);
}

static void publish_done(WorkerJob *job)
{
    Artifacts *artifacts = container_of(job, Artifacts, job);

    artifacts->busy = false;
    if (artifacts->freed)
        artifacts_free(artifacts);
    else
        artifacts->done(artifacts->userdata, take(artifacts->list));
}

int artifacts_publish(Artifacts *artifacts, Worker *worker, void (*done)(void *userdata, ArtifactList *list),
                      void *userdata)
{
    if (artifacts->busy)
        return -EBUSY;
    artifacts->done = done;
    artifacts->userdata = userdata;
    if (!artifacts->list && !(artifacts->list = artifact_list_new()))
        return -ENOMEM;
    int r = worker_submit(worker, &artifacts->job, publish_run, publish_done);
    artifacts->busy = r == 0;
    return r;
}

int artifacts_write_baseline(Artifacts *artifacts, bool all, int (*put)(void *userdata, const Buf *files),
                             void *userdata)
{
    return artifacts->busy ? -EBUSY : baseline_each(&artifacts->finder.index, all, put, userdata);
}

void artifacts_read_baseline(Artifacts *artifacts, const msgpack_object_array *files)
{
    baseline_read(&artifacts->finder.index, files);
}

/* Longer than a file's times need to tell a later change apart; see identity_of(). */
#define SETTLE_NSEC (25 * (long)NSEC_PER_MSEC)

static void accept_run(WorkerJob *job)
{
    Artifacts *artifacts = container_of(job, Artifacts, job);
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

static void accept_done(WorkerJob *job)
{
    Artifacts *artifacts = container_of(job, Artifacts, job);

    artifacts->busy = false;
    if (artifacts->freed)
        artifacts_free(artifacts);
    else
        artifacts->accepted(artifacts->userdata);
}

int artifacts_accept(Artifacts *artifacts, Worker *worker, void (*done)(void *userdata), void *userdata)
{
    if (artifacts->busy)
        return -EBUSY;
    artifacts->accepted = done;
    artifacts->userdata = userdata;
    int r = worker_submit(worker, &artifacts->job, accept_run, accept_done);
    artifacts->busy = r == 0;
    return r;
}
