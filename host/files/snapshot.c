#include "host/files/snapshot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/transfer.h"
#include "host/files/tree.h"

#define STORE      "checkpoints"
#define BEING_MADE ".new"
#define OLD        ".old-"

static int open_own(int parent, const char *name)
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
    return open_own(AT_FDCWD, path);
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
    int fd = open_own(store, ".");
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
    remove_tree(store, BEING_MADE, NULL);
    if (mkdirat(store, BEING_MADE, 0700) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot copy /session: %s", strerror(errno));
    _cleanup_(closep) int to = open_own(store, BEING_MADE);
    r = to < 0 ? problem_set(problem, ERR_INTERNAL, "cannot copy /session: %s", strerror(-to))
               : treecopy(files, to, ".limpet", budget - MIN(used, budget), ret_bytes, problem);
    if (r < 0)
        remove_tree(store, BEING_MADE, NULL);
    return r;
}

int snapshot_keep(int store, const char *checkpoint, const char *name, uint64_t bytes)
{
    char entry[SNAPSHOT_ENTRY_SIZE];

    snprintf(entry, sizeof(entry), "%s@%" PRIu64 "@%s", checkpoint, bytes, name ? name : "");
    return renameat(store, BEING_MADE, store, entry) < 0 ? -errno : 0;
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
    snapshot_set_aside(store, BEING_MADE, worker);
}

/* ---- files of templates ---- */

int template_files_store(const char *state_dir)
{
    char path[PATH_MAX];
    int fd;

    if (snprintf(path, sizeof(path), "%s/template-files", state_dir) >= (int)sizeof(path))
        return -ENAMETOOLONG;
    if (mkdir(path, 0700) < 0 && errno != EEXIST)
        return -errno;
    fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int template_files_take(int store, const char *id, int files, uint64_t budget, uint64_t *ret_bytes,
                        Problem *problem)
{
    int r;

    if (mkdirat(store, id, 0700) < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot keep the files of the template: %s",
                           strerror(errno));
    _cleanup_(closep) int to = openat(store, id, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = to < 0
            ? problem_set(problem, ERR_INTERNAL, "cannot keep the files of the template: %s", strerror(errno))
            : treecopy(files, to, ".limpet", budget, ret_bytes, problem);
    if (r < 0)
        remove_tree(store, id, NULL);
    if (problem->code == ERR_TOO_LARGE)
        problem_prefix(problem, "the files of the template");
    return r;
}

int template_files_put(int store, const char *id, int files, Problem *problem)
{
    int r = snapshot_stage(store, id, files, problem);

    if (r == 0)
        r = snapshot_restore(files, problem);
    if (problem->code == ERR_TOO_LARGE)
        problem_set(problem, ERR_TOO_LARGE,
                    "the files of the template have no room in /session (options disk and files)");
    else if (r < 0)
        problem_prefix(problem, "the files of the template");
    return r;
}

/* Counts the entries at the start: one that is set aside gets a name that would be found as well. */
static size_t count(DIR *stream)
{
    size_t n = 0;

    while (readdir(stream))
        n++;
    rewinddir(stream);
    return n;
}

void snapshot_sweep(int store, Worker *worker, bool (*is_kept)(void *userdata, const char *id),
                    void *userdata)
{
    char(*names)[NAME_MAX + 1];
    size_t n = 0, most;
    DIR *stream;

    if (beneath_open_list(store, ".", &stream) < 0)
        return;
    most = count(stream);
    names = calloc(most, sizeof(*names));
    for (struct dirent *entry; names && n < most && (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            !is_kept(userdata, entry->d_name))
            strcpy(names[n++], entry->d_name);
    closedir(stream);
    for (size_t i = 0; i < n; i++)
        snapshot_set_aside(store, names[i], worker);
    free(names);
}

/* ---- restoring ---- */

#define STAGE     "restore.stage"
#define NEW       "restore.new"
#define IN        "restore.in"
#define OUT       "restore.out"
#define ARTIFACTS "artifacts" /* watched: it stays the same directory, its contents change */

/* Code that still runs may go on making names; it does not get to keep us here. */
#define PASSES 16

static int open_directory(int parent, const char *name)
{
    return parent < 0 ? parent : beneath_open(parent, name, O_RDONLY | O_DIRECTORY, 0);
}

static int make_directory(int parent, const char *name)
{
    if (mkdirat(parent, name, 0700) < 0 && errno != EEXIST)
        return -errno;
    return open_directory(parent, name);
}

/* ---- the first step ---- */

int snapshot_stage(int store, const char *entry, int files, Problem *problem)
{
    _cleanup_(closep) int ours = open_directory(files, TRANSFER_DIRECTORY);
    _cleanup_(closep) int from = open_directory(store, entry);
    uint64_t bytes;
    int r;

    if (ours >= 0)
        remove_tree(ours, STAGE, NULL);
    _cleanup_(closep) int to = ours < 0 ? ours : make_directory(ours, STAGE);
    if (from < 0 || to < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot restore the files of the checkpoint: %s",
                           strerror(from < 0 ? -from : -to));
    r = treecopy(from, to, NULL, UINT64_MAX, &bytes, problem);
    if (r < 0)
        remove_tree(ours, STAGE, NULL);
    if (problem->code == ERR_TOO_LARGE)
        problem_set(
            problem, ERR_TOO_LARGE,
            "no room to restore the files of the checkpoint next to those in /session (options disk and "
            "files); remove some files first");
    return r;
}

void snapshot_unstage(int files)
{
    _cleanup_(closep) int ours = open_directory(files, TRANSFER_DIRECTORY);

    if (ours >= 0)
        remove_tree(ours, STAGE, NULL);
}

/* ---- the second ---- */

/* Moves a name from one directory to another. What has that name there is in the way: it is moved to `aside`,
 * or where there is no such place the name is changed. */
static int move(int from, const char *name, int to, int aside)
{
    char other[32];

    if (renameat2(from, name, to, name, RENAME_NOREPLACE) == 0 || errno == ENOENT)
        return 0;
    for (unsigned i = 0; errno == EEXIST && i < 1000; i++) {
        snprintf(other, sizeof(other), ".%u", i);
        if (aside < 0) {
            if (renameat2(from, name, to, other, RENAME_NOREPLACE) == 0)
                return 0;
        } else if (renameat2(to, name, aside, other, RENAME_NOREPLACE) == 0 || errno == ENOENT) {
            return move(from, name, to, -1);
        }
    }
    return -errno;
}

/* Passes once over what is in `from`; *ret_any says whether there was anything. */
static int move_pass(int from, int to, int aside, const char *const *skip, bool *ret_any)
{
    DIR *stream;
    int r = beneath_open_list(from, ".", &stream);

    *ret_any = false;
    if (r < 0)
        return r;
    for (struct dirent *entry; r == 0 && (entry = readdir(stream));) {
        const char *name = entry->d_name;

        if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(name, skip[0]) == 0 ||
            strcmp(name, skip[1]) == 0)
            continue;
        *ret_any = true;
        r = move(from, name, to, aside);
    }
    closedir(stream);
    return r;
}

static int move_all(int from, int to, int aside, const char *const *skip)
{
    bool any = from >= 0 && to >= 0;
    int r = from < 0 ? from : MIN(to, 0);

    for (unsigned i = 0; r == 0 && any && i < PASSES; i++)
        r = move_pass(from, to, aside, skip, &any);
    return r;
}

/* All that is in one place, artifacts included, to another. */
static int move_contents(int from, int to, int aside)
{
    static const char *const top[] = {TRANSFER_DIRECTORY, ARTIFACTS}, *const none[] = {"", ""};
    _cleanup_(closep) int artifacts = open_directory(from, ARTIFACTS);
    int r = 0;

    if (artifacts >= 0) {
        _cleanup_(closep) int there = make_directory(to, ARTIFACTS);

        r = move_all(artifacts, there, aside, none);
    }
    return r < 0 ? r : move_all(from, to, aside, top);
}

/* Goes on from wherever it was left. */
static int finish(int files, int ours)
{
    _cleanup_(closep) int new = open_directory(ours, NEW);
    int r = 0;

    if (new >= 0) {
        _cleanup_(closep) int out = make_directory(ours, OUT);

        r = out < 0 ? out : move_contents(files, out, -1);
        if (r < 0) {
            move_contents(out, files, -1);
            renameat(ours, NEW, ours, STAGE);
        } else {
            remove_tree(ours, IN, NULL); /* left by an earlier one */
            r = renameat(ours, NEW, ours, IN) < 0 ? -errno : 0;
        }
    }
    _cleanup_(closep) int in = open_directory(ours, IN);
    if (r == 0 && in >= 0) {
        _cleanup_(closep) int out = make_directory(ours, OUT);

        r = move_contents(in, files, out);
        if (r == 0)
            remove_tree(ours, IN, NULL);
    }
    if (r == 0)
        remove_tree(ours, OUT, NULL);
    remove_tree(ours, STAGE, NULL);
    return r;
}

int snapshot_restore(int files, Problem *problem)
{
    _cleanup_(closep) int ours = open_directory(files, TRANSFER_DIRECTORY);
    int r = ours < 0 ? ours : 0;

    if (r == 0 && renameat2(ours, STAGE, ours, NEW, RENAME_NOREPLACE) < 0)
        r = -errno;
    if (r == 0)
        r = finish(files, ours);
    if (r < 0)
        problem_set(problem, ERR_INTERNAL, "%s", strerror(-r));
    return r;
}

void snapshot_recover(int files)
{
    _cleanup_(closep) int ours = open_directory(files, TRANSFER_DIRECTORY);

    if (ours >= 0)
        finish(files, ours);
}
