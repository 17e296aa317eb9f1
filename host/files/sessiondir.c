#include "host/files/sessiondir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/access.h"
#include "host/files/beneath.h"
#include "host/files/session_disk.h"
#include "host/files/transfer.h"
#include "host/files/tree.h"
#include "proto/base/log.h"

/* ---- removing ---- */

typedef struct SessiondirRemoval {
    WorkerJob job;
    char *path; /* of the directory of what is being removed */
    char name[32];
    int mount; /* a handle on what was mounted from it, or -1 */
} SessiondirRemoval;

/* The last handle on a mount ends it, which writes what is not written yet. */
static void removal_run(WorkerJob *job)
{
    SessiondirRemoval *removal = container_of(job, SessiondirRemoval, job);
    _cleanup_(closep) int fd = open(removal->path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    close_fd(&removal->mount);
    if (fd >= 0)
        remove_tree(fd, removal->name, NULL);
}

static void removal_done(WorkerJob *job)
{
    SessiondirRemoval *removal = container_of(job, SessiondirRemoval, job);

    free(removal->path);
    free(removal);
}

/* Removes removed/NAME, in the background when that is possible. Takes over `mount`. */
static void remove_later(const char *state_dir, int removed, const char *name, int mount, Worker *worker)
{
    SessiondirRemoval *removal = worker ? calloc(1, sizeof(*removal)) : NULL;

    if (removal && asprintf(&removal->path, "%s/removed", state_dir) >= 0) {
        snprintf(removal->name, sizeof(removal->name), "%s", name);
        removal->mount = mount;
        if (worker_submit(worker, &removal->job, removal_run, removal_done) == 0)
            return;
        free(removal->path);
    }
    free(removal);
    closep(&mount);
    remove_tree(removed, name, NULL);
}

/* Moves `name` of `dirfd` to a place of its own below removed/, whose name goes to ret. False when there is
 * nothing to move, or it stays. */
static bool set_aside(int dirfd, const char *name, int removed, char ret[32])
{
    static unsigned counter;

    for (;;) {
        snprintf(ret, 32, "%ld-%u", (long)getpid(), counter++);
        if (renameat2(dirfd, name, removed, ret, RENAME_NOREPLACE) == 0)
            return true;
        if (errno == EEXIST)
            continue;
        if (errno != ENOENT)
            log_warn("files of a session stay", "name=%s error=%s", name, strerror(errno));
        return false;
    }
}

static bool discard(const char *state_dir, int removed, int session, const char *name, Worker *worker)
{
    char aside[32];

    if (!set_aside(session, name, removed, aside))
        return false;
    remove_later(state_dir, removed, aside, -1, worker);
    return true;
}

bool sessiondir_set_aside(const char *state_dir, int state, int parent, const char *name, Worker *worker)
{
    _cleanup_(closep) int removed = beneath_mkdirs(state, "removed", PRIVATE_MODE, NOBODY_ELSE);

    return removed >= 0 && discard(state_dir, removed, parent, name, worker);
}

/* Removes the image together with what is mounted from it on the session's directories. */
static void discard_disk(const char *state_dir, int removed, int session, const char *id, Worker *worker)
{
    _cleanup_(closep) int mount = -1;
    struct stat st;
    char aside[32];

    if (fstatat(session, DISK_NAME, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return;
    mount = openat(session, "files", O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    disk_maker_detach(session, id);
    if (set_aside(session, DISK_NAME, removed, aside))
        remove_later(state_dir, removed, aside, take_fd(&mount), worker);
}

/* Everything of sessions/ID that is not published; `sessions/ID` too when that leaves nothing. */
static void sessiondir_discard(const char *state_dir, int state, const char *id, Worker *worker)
{
    _cleanup_(closep) int removed = beneath_mkdirs(state, "removed", PRIVATE_MODE, NOBODY_ELSE);
    _cleanup_(closep) int sessions = beneath_open(state, "sessions", O_PATH | O_DIRECTORY, 0);
    _cleanup_(closep) int session = sessions < 0 ? -1 : beneath_open(sessions, id, O_PATH | O_DIRECTORY, 0);

    if (removed < 0 || session < 0)
        return;
    if (strcmp(id, SESSIONDIR_MOUNTED) == 0) {
        session_disk_empty(session);
    } else {
        discard_disk(state_dir, removed, session, id, worker);
        discard(state_dir, removed, session, "files", worker);
        discard(state_dir, removed, session, "scratch", worker);
    }
    discard(state_dir, removed, session, "checkpoints", worker);
    unlinkat(session, "artifacts", AT_REMOVEDIR);
    unlinkat(sessions, id, AT_REMOVEDIR);
}

/* Directories that nothing was published to: what is not empty stays. */
static void sessiondir_remove_empty(const SessionDir *directory)
{
    char path[PATH_MAX];

    if (!directory->published_id)
        return;
    rmdir(directory->published_path);
    if (directory->work_published_path) {
        rmdir(directory->work_published_path);
        snprintf(path, sizeof(path), "%s/outputs/%s", directory->state_dir, directory->published_id);
        if (rmdir(path) < 0)
            utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW); /* the end of the session: leftovers.h */
    }
    snprintf(path, sizeof(path), "%s/sessions/%s", directory->state_dir, directory->published_id);
    if (rmdir(path) < 0)
        utimensat(AT_FDCWD, path, NULL, AT_SYMLINK_NOFOLLOW);
}

void sessiondir_remove(SessionDir *directory, Worker *worker)
{
    if (!directory->state_dir)
        return;
    close_fd(&directory->files_fd);
    _cleanup_(closep) int state = open(directory->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state >= 0 && directory->id)
        sessiondir_discard(directory->state_dir, state, directory->id, worker);
    sessiondir_remove_empty(directory);
    sessiondir_deinit(directory);
}

typedef struct Sweep {
    const char *state_dir;
    int state;
    Worker *worker;
    bool (*in_use)(void *userdata, const char *id);
    void *userdata;
} Sweep;

static void for_each_name(const Sweep *sweep, const char *directory,
                          void (*on_name)(const Sweep *sweep, const char *name))
{
    DIR *stream;

    if (beneath_open_list(sweep->state, directory, &stream) < 0)
        return;
    for (struct dirent *entry; (entry = readdir(stream));)
        if (entry->d_name[0] != '.')
            on_name(sweep, entry->d_name);
    closedir(stream);
}

static void remove_leftover(const Sweep *sweep, const char *name)
{
    _cleanup_(closep) int removed = beneath_open(sweep->state, "removed", O_PATH | O_DIRECTORY, 0);

    if (removed >= 0)
        remove_later(sweep->state_dir, removed, name, -1, sweep->worker);
}

/* Removes the session's output directories if nothing was published: one that is not empty stays. */
static void discard_output(int state, const char *id)
{
    static const char *const names[] = {"session", "work"};
    _cleanup_(closep) int outputs = beneath_open(state, "outputs", O_PATH | O_DIRECTORY, 0);
    _cleanup_(closep) int output = outputs < 0 ? -1 : beneath_open(outputs, id, O_PATH | O_DIRECTORY, 0);

    for (size_t i = 0; output >= 0 && i < ARRAY_SIZE(names); i++)
        unlinkat(output, names[i], AT_REMOVEDIR);
    if (output >= 0)
        unlinkat(outputs, id, AT_REMOVEDIR);
}

static void discard_unused(const Sweep *sweep, const char *id)
{
    if (sweep->in_use(sweep->userdata, id))
        return;
    sessiondir_discard(sweep->state_dir, sweep->state, id, sweep->worker);
    discard_output(sweep->state, id);
}

static void sweep(const Sweep *template, const char *directory,
                  void (*on_name)(const Sweep *sweep, const char *name))
{
    _cleanup_(closep) int state = open(template->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    Sweep here = *template;

    here.state = state;
    if (state >= 0)
        for_each_name(&here, directory, on_name);
}

void sessiondir_sweep_removed(const char *state_dir, Worker *worker)
{
    sweep(&(Sweep){.state_dir = state_dir, .worker = worker}, "removed", remove_leftover);
}

void sessiondir_sweep(const char *state_dir, Worker *worker, bool (*in_use)(void *userdata, const char *id),
                      void *userdata)
{
    sweep(&(Sweep){.state_dir = state_dir, .worker = worker, .in_use = in_use, .userdata = userdata},
          "sessions", discard_unused);
}

void sessiondir_deinit(SessionDir *directory)
{
    close_fd(&directory->files_fd);
    free(directory->state_dir);
    free(directory->id);
    free(directory->files_path);
    free(directory->artifacts_root);
    free(directory->work_artifacts_root);
    free(directory->published_id);
    free(directory->published_path);
    free(directory->work_published_path);
    *directory = SESSIONDIR_NULL;
}

/* ---- making ---- */

/* STATE_DIR/KIND/ID/TAIL */
static char *format_path(const char *state_dir, const char *kind, const char *id, const char *tail)
{
    char *path;

    return asprintf(&path, "%s/%s/%s/%s", state_dir, kind, id, tail) < 0 ? NULL : path;
}

static int set_paths(SessionDir *directory, const char *state_dir, const char *id, bool ephemeral)
{
    directory->state_dir = strdup(state_dir);
    directory->id = strdup(id);
    directory->files_path = format_path(state_dir, "sessions", id, "files");
    directory->artifacts_root = format_path(state_dir, "sessions", id, "files/artifacts");
    if (!directory->state_dir || !directory->id || !directory->files_path || !directory->artifacts_root)
        return -ENOMEM;
    if (!ephemeral)
        return 0;
    directory->work_artifacts_root = format_path(state_dir, "sessions", id, "scratch/work/artifacts");
    return directory->work_artifacts_root ? 0 : -ENOMEM;
}

static void forget_published(SessionDir *directory)
{
    free(take(directory->published_id));
    free(take(directory->published_path));
    free(take(directory->work_published_path));
}

void sessiondir_disclaim(SessionDir *directory)
{
    sessiondir_remove_empty(directory);
    forget_published(directory);
}

static int set_published(SessionDir *directory, const char *id)
{
    const char *state_dir = directory->state_dir;

    directory->published_id = strdup(id);
    directory->published_path = directory->work_artifacts_root
                                    ? format_path(state_dir, "outputs", id, "session")
                                    : format_path(state_dir, "sessions", id, "artifacts");
    if (directory->work_artifacts_root)
        directory->work_published_path = format_path(state_dir, "outputs", id, "work");
    if (directory->published_id && directory->published_path &&
        (!directory->work_artifacts_root || directory->work_published_path))
        return 0;
    forget_published(directory);
    return -ENOMEM;
}

/* Makes `name` below `parent` and returns a handle on it; closes parent. Passes an error of parent on. */
static int make_in(int parent, const char *name, mode_t mode)
{
    int fd = parent < 0 ? parent : beneath_mkdirs(parent, name, mode, NOBODY_ELSE);

    closep(&parent);
    return fd;
}

/* To what is published in there, whose modes let everybody read it. */
static int let_reader_in(int directory, uid_t reader)
{
    char path[FD_PATH_SIZE];

    return reader == NO_READER ? 0 : acl_allow(fd_path(path, directory), reader, ACL_ENTER);
}

static int make_outputs(int state, const char *id, uid_t reader)
{
    int outputs = beneath_mkdirs(state, "outputs", PRIVATE_MODE, NOBODY_ELSE);
    _cleanup_(closep) int output = make_in(outputs, id, PRIVATE_MODE);
    _cleanup_(closep) int session =
        output < 0 ? output : beneath_mkdirs(output, "session", OURS_MODE, NOBODY_ELSE);
    _cleanup_(closep) int work =
        session < 0 ? session : beneath_mkdirs(output, "work", OURS_MODE, NOBODY_ELSE);

    return work < 0 ? work : let_reader_in(output, reader);
}

/* Returns a handle on sessions/ID. */
static int make_session(int state, const char *id)
{
    int sessions = beneath_mkdirs(state, "sessions", PRIVATE_MODE, NOBODY_ELSE);

    return make_in(sessions, id, PRIVATE_MODE);
}

/* Makes the published directory. An ephemeral session's has a sessions/ID too, by which a sweep finds it. */
static int make_published(SessionDir *directory, int state, const char *id, uid_t reader)
{
    int r = set_published(directory, id);
    _cleanup_(closep) int session = r < 0 ? r : make_session(state, id);

    if (session < 0 || directory->work_artifacts_root) {
        r = session < 0 ? session : make_outputs(state, id, reader);
    } else {
        _cleanup_(closep) int artifacts = beneath_mkdirs(session, "artifacts", OURS_MODE, NOBODY_ELSE);
        r = artifacts < 0 ? artifacts : let_reader_in(session, reader);
    }
    if (r < 0)
        sessiondir_disclaim(directory);
    return r;
}

static int say_cannot_make(const char *state_dir, int r, Problem *problem)
{
    return problem_set(problem, ERR_INTERNAL, "cannot create the directories of the session in %s: %s",
                       state_dir, strerror(-r));
}

/* With what is published under the same id, or without. */
static int make(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral, bool published,
                Worker *worker, Problem *problem)
{
    SessionDir directory = SESSIONDIR_NULL;
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), session = -1;
    int r = state < 0 ? -errno : 0;

    if (r == 0)
        sessiondir_discard(state_dir, state, id, worker);
    if (r == 0)
        r = set_paths(&directory, state_dir, id, ephemeral);
    if (r == 0)
        r = session = make_session(state, id);
    if (r >= 0 && published)
        r = make_published(&directory, state, id, NO_READER);
    if (r < 0) {
        sessiondir_remove(&directory, NULL);
        sessiondir_deinit(&directory);
        return say_cannot_make(state_dir, r, problem);
    }
    *ret = directory;
    return 0;
}

int sessiondir_make(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral, Worker *worker,
                    Problem *problem)
{
    return make(ret, state_dir, id, ephemeral, true, worker, problem);
}

int sessiondir_make_spare(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral,
                          Worker *worker, Problem *problem)
{
    return make(ret, state_dir, id, ephemeral, false, worker, problem);
}

/* ---- what sandboxed code writes to ---- */

static int open_files(SessionDir *directory)
{
    close_fd(&directory->files_fd);
    directory->files_fd = open(directory->files_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    return directory->files_fd < 0 ? -errno : 0;
}

static int make_on_disk(const SessionDir *directory, int session, DiskSize size, Problem *problem)
{
    int r = disk_maker_make(session, directory->id, size, problem);

    if (r < 0 && problem->code == ERR_NONE)
        problem_set(problem, ERR_INTERNAL, "cannot mount the disk of the session: %s", strerror(-r));
    return r;
}

int sessiondir_fill(SessionDir *directory, const DiskSize *disk, Problem *problem)
{
    _cleanup_(freep) char *path = format_path(directory->state_dir, "sessions", directory->id, ".");
    _cleanup_(closep) int session = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int r = session < 0 ? -errno : 0;

    if (r == 0)
        r = disk ? make_on_disk(directory, session, *disk, problem)
                 : session_disk_fill(session, "files", "scratch");
    if (r == 0)
        r = open_files(directory);
    if (r < 0 && problem->code == ERR_NONE)
        say_cannot_make(directory->state_dir, r, problem);
    return r < 0 ? -EPROTO : 0;
}

/* ---- being claimed ---- */

int sessiondir_claim(SessionDir *directory, const char *id, uid_t reader, Worker *worker, Problem *problem)
{
    _cleanup_(closep) int state = open(directory->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = state < 0 ? -errno : 0;

    if (r == 0) {
        sessiondir_discard(directory->state_dir, state, id, worker);
        r = make_published(directory, state, id, reader);
    }
    if (r == -EOPNOTSUPP)
        return problem_set(
            problem, ERR_INTERNAL,
            "the file system of %s does not support access control lists, which sessions of users need",
            directory->state_dir);
    return r < 0 ? say_cannot_make(directory->state_dir, r, problem) : 0;
}

bool sessiondir_uses(const SessionDir *directory, const char *id)
{
    return (directory->id && strcmp(directory->id, id) == 0) ||
           (directory->published_id && strcmp(directory->published_id, id) == 0);
}

/* ---- adopting ---- */

/* Without a disk /session is as session_disk_fill() makes it, and not as a mount point is. */
static int check_disk(const SessionDir *directory, int session)
{
    struct stat disk, files;

    if (fstat(directory->files_fd, &files) < 0)
        return -errno;
    if (fstatat(session, DISK_NAME, &disk, AT_SYMLINK_NOFOLLOW) == 0)
        return disk.st_dev == files.st_dev ? -ENOTBLK : 0;
    return (files.st_mode & 07777) == PRIVATE_MODE ? -ENODEV : 0;
}

/* An image of which nothing is mounted holds the files of a session whose container is gone, too. */
static int find_files(SessionDir *directory, bool mounts, Problem *problem)
{
    _cleanup_(freep) char *path = format_path(directory->state_dir, "sessions", directory->id, ".");
    _cleanup_(closep) int session = path ? open(path, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
    int r = session < 0 ? -errno : open_files(directory);

    if (r == 0)
        r = check_disk(directory, session);
    if (r != -ENOTBLK || !mounts)
        return r;
    r = disk_maker_mount(session, directory->id, problem);
    return r < 0 ? r : open_files(directory);
}

/* Earlier versions made no /data. */
static int adopt_data(const SessionDir *directory)
{
    _cleanup_(freep) char *path = format_path(directory->state_dir, "sessions", directory->id, "scratch");
    _cleanup_(closep) int scratch = path ? open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
    int r = scratch < 0 ? -errno : session_disk_make_data(scratch);

    if (r == 0)
        transfer_clean(scratch);
    return r;
}

static int say_cannot_use(const char *state_dir, int r, Problem *problem)
{
    if (problem->code != ERR_NONE)
        return -EPROTO;
    return problem_set(problem, ERR_INTERNAL, "cannot use the directories of the session in %s: %s",
                       state_dir,
                       r == -ENOTBLK  ? "its disk is no longer mounted"
                       : r == -ENODEV ? "its disk is gone"
                                      : strerror(-r));
}

int sessiondir_adopt(SessionDir *ret, const char *state_dir, const char *id, const char *published_id,
                     uid_t reader, bool ephemeral, bool mounts, Problem *problem)
{
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    SessionDir directory = SESSIONDIR_NULL;
    int r = state < 0 ? -errno : 0;

    if (r == 0)
        r = set_paths(&directory, state_dir, id, ephemeral);
    if (r == 0)
        r = make_published(&directory, state, published_id, reader);
    if (r == 0)
        r = find_files(&directory, mounts, problem);
    if (r == 0)
        r = adopt_data(&directory);
    if (r == 0)
        transfer_clean(directory.files_fd);
    *ret = directory;
    return r < 0 ? say_cannot_use(state_dir, r, problem) : 0;
}

/* ---- on disk ---- */

static void sync_around(int directory)
{
    _cleanup_(closep) int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        syncfs(fd);
}

/* Syncs the session's disk first, where one is given, as that is written to its image, then the file system
 * of the image. */
void sessiondir_sync(const char *state_dir, int files)
{
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    sync_around(files);
    sync_around(state);
}
