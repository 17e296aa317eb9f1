#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/remove.h"
#include "host/files/session_disk.h"
#include "host/files/sessiondir_parts.h"
#include "proto/base/log.h"

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

void sessiondir_discard(const char *state_dir, int state, const char *id, Worker *worker)
{
    _cleanup_(closep) int removed = beneath_mkdirs(state, "removed", PRIVATE_MODE, NOBODY_ELSE);
    _cleanup_(closep) int sessions = beneath_open(state, "sessions", O_PATH | O_DIRECTORY, 0);
    _cleanup_(closep) int session = sessions < 0 ? -1 : beneath_open(sessions, id, O_PATH | O_DIRECTORY, 0);

    if (removed < 0 || session < 0)
        return;
    discard_disk(state_dir, removed, session, id, worker);
    discard(state_dir, removed, session, "files", worker);
    discard(state_dir, removed, session, "scratch", worker);
    discard(state_dir, removed, session, "checkpoints", worker);
    unlinkat(session, "artifacts", AT_REMOVEDIR);
    unlinkat(sessions, id, AT_REMOVEDIR);
}

void sessiondir_remove_empty(const SessionDir *directory)
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
