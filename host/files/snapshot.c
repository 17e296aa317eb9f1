#include "host/files/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/remove.h"
#include "host/files/treecopy.h"

#define STORE "checkpoints"
#define NEW   ".new"
#define OLD   ".old-"

static int open_directory(int parent, const char *name)
{
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

int snapshot_store(const SessionDir *directory, bool make)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/sessions/%s/" STORE, directory->state_dir, directory->id) >=
        (int)sizeof(path))
        return -ENAMETOOLONG;
    if (make && mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    return open_directory(AT_FDCWD, path);
}

/* ---- the names of snapshots ---- */

typedef struct SnapshotLabel {
    char checkpoint[64 + 1];
    uint64_t bytes;
    char name[64 + 1];
} SnapshotLabel;

static bool label_read(SnapshotLabel *ret, const char *entry)
{
    *ret = (SnapshotLabel){0};
    return entry[0] != '.' &&
           sscanf(entry, "%64[^@]@%" SCNu64 "@%64[^@]", ret->checkpoint, &ret->bytes, ret->name) >= 2;
}

static bool label_is(const SnapshotLabel *label, const char *checkpoint)
{
    return strcmp(label->checkpoint, checkpoint) == 0 || strcmp(label->name, checkpoint) == 0;
}

/* Calls on_label until it returns true; whether it did. */
static bool each_label(int store,
                       bool (*on_label)(void *userdata, const char *entry, const SnapshotLabel *label),
                       void *userdata)
{
    int fd = open_directory(store, ".");
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    bool stopped = false;
    SnapshotLabel label;

    if (!stream) {
        closep(&fd);
        return false;
    }
    for (struct dirent *entry; !stopped && (entry = readdir(stream));)
        if (label_read(&label, entry->d_name))
            stopped = on_label(userdata, entry->d_name, &label);
    closedir(stream);
    return stopped;
}

typedef struct Search {
    const char *checkpoint;
    char *entry;
} Search;

static bool is_searched(void *userdata, const char *entry, const SnapshotLabel *label)
{
    Search *search = userdata;

    if (!label_is(label, search->checkpoint) || strlen(entry) >= SNAPSHOT_ENTRY_SIZE)
        return false;
    strcpy(search->entry, entry);
    return true;
}

bool snapshot_find(int store, const char *checkpoint, char ret_entry[SNAPSHOT_ENTRY_SIZE])
{
    return each_label(store, is_searched, &(Search){checkpoint, ret_entry});
}

typedef struct Visit {
    void (*on_snapshot)(void *userdata, const char *checkpoint);
    void *userdata;
} Visit;

static bool visit(void *userdata, const char *entry, const SnapshotLabel *label)
{
    const Visit *visit = userdata;

    visit->on_snapshot(visit->userdata, label->checkpoint);
    return false;
}

void snapshot_each(int store, void (*on_snapshot)(void *userdata, const char *checkpoint), void *userdata)
{
    each_label(store, visit, &(Visit){on_snapshot, userdata});
}

static bool add_bytes(void *userdata, const char *entry, const SnapshotLabel *label)
{
    uint64_t *sum = userdata;

    *sum += MIN(label->bytes, UINT64_MAX - *sum);
    return false;
}

/* ---- making and removing ---- */

int snapshot_take(int store, int files, uint64_t budget, uint64_t *ret_bytes, Problem *problem)
{
    uint64_t used = 0;
    int r;

    each_label(store, add_bytes, &used);
    remove_tree(store, NEW, NULL);
    if (mkdirat(store, NEW, 0700) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot copy /session: %s", strerror(errno));
    _cleanup_(closep) int to = open_directory(store, NEW);
    r = to < 0 ? problem_set(problem, ERR_INTERNAL, "cannot copy /session: %s", strerror(-to))
               : treecopy(files, to, ".limpet", budget - MIN(used, budget), ret_bytes, problem);
    if (r < 0)
        remove_tree(store, NEW, NULL);
    return r;
}

int snapshot_keep(int store, const char *checkpoint, const char *name, uint64_t bytes)
{
    char entry[SNAPSHOT_ENTRY_SIZE];

    snprintf(entry, sizeof(entry), "%s@%" PRIu64 "@%s", checkpoint, bytes, name ? name : "");
    return renameat(store, NEW, store, entry) < 0 ? -errno : 0;
}

typedef struct SnapshotRemoval {
    WorkerJob job;
    int store;
    char name[32];
} SnapshotRemoval;

static void removal_run(WorkerJob *job)
{
    SnapshotRemoval *removal = container_of(job, SnapshotRemoval, job);

    remove_tree(removal->store, removal->name, NULL);
}

static void removal_done(WorkerJob *job)
{
    SnapshotRemoval *removal = container_of(job, SnapshotRemoval, job);

    closep(&removal->store);
    free(removal);
}

/* A name of its own for what is being removed; it goes now when no thread can take it. */
void snapshot_set_aside(int store, const char *entry, Worker *worker)
{
    static unsigned counter;
    SnapshotRemoval *removal = calloc(1, sizeof(*removal));
    char name[32];
    int r;

    do {
        snprintf(name, sizeof(name), OLD "%u", counter++);
        r = renameat2(store, entry, store, name, RENAME_NOREPLACE) < 0 ? -errno : 0;
    } while (r == -EEXIST);
    if (removal && r == 0) {
        removal->store = fcntl(store, F_DUPFD_CLOEXEC, 3);
        memcpy(removal->name, name, sizeof(name));
        if (removal->store >= 0 && worker_submit(worker, &removal->job, removal_run, removal_done) == 0)
            return;
        closep(&removal->store);
    }
    free(removal);
    if (r == 0)
        remove_tree(store, name, NULL);
}

void snapshot_drop(int store, const char *checkpoint, Worker *worker)
{
    char entry[SNAPSHOT_ENTRY_SIZE];

    if (snapshot_find(store, checkpoint, entry))
        snapshot_set_aside(store, entry, worker);
}

void snapshot_give_up(int store, Worker *worker)
{
    snapshot_set_aside(store, NEW, worker);
}
