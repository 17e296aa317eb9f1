#include "host/files/sessiondir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/acl.h"
#include "host/files/beneath.h"
#include "host/files/remove.h"
#include "host/files/transfer.h"

#define PRIVATE_MODE 0700
#define SHARED_MODE  01777
#define OURS_MODE    0755

#define JOURNAL_NAME     "journal"
#define JOURNAL_NEW_NAME "journal.new"

#define NOBODY_ELSE (uid_t) - 1, (gid_t)-1 /* owner and group stay ours */

/* ---- removing --------------------------------------------------------------------------------------------
 */

typedef struct Removal {
    WorkerJob job;
    char *path; /* of the directory of what is being removed */
    char name[32];
} Removal;

static void removal_run(WorkerJob *job)
{
    Removal *removal = container_of(job, Removal, job);
    _cleanup_(closep) int fd = open(removal->path, O_PATH | O_DIRECTORY | O_CLOEXEC);

    if (fd >= 0)
        remove_tree(fd, removal->name, NULL);
}

static void removal_done(WorkerJob *job)
{
    Removal *removal = container_of(job, Removal, job);

    free(removal->path);
    free(removal);
}

/* Removes removed/NAME, in the background when that is possible. */
static void remove_later(const char *state_dir, int removed, const char *name, Worker *worker)
{
    Removal *removal = worker ? calloc(1, sizeof(*removal)) : NULL;

    if (removal && asprintf(&removal->path, "%s/removed", state_dir) >= 0) {
        snprintf(removal->name, sizeof(removal->name), "%s", name);
        if (worker_submit(worker, &removal->job, removal_run, removal_done) == 0)
            return;
        free(removal->path);
    }
    free(removal);
    remove_tree(removed, name, NULL);
}

/* Moves `name` of `dirfd` to a place of its own below removed/, whose name goes to ret. False when there is
 * nothing to move. */
static bool set_aside(int dirfd, const char *name, int removed, char ret[32])
{
    static unsigned counter;

    for (;;) {
        snprintf(ret, 32, "%ld-%u", (long)getpid(), counter++);
        if (renameat2(dirfd, name, removed, ret, RENAME_NOREPLACE) == 0)
            return true;
        if (errno != EEXIST)
            return false;
    }
}

static void discard(const char *state_dir, int removed, int session, const char *name, Worker *worker)
{
    char aside[32];

    if (set_aside(session, name, removed, aside))
        remove_later(state_dir, removed, aside, worker);
}

/* Everything of sessions/ID that is not published; `sessions/ID` too when that leaves nothing. */
static void discard_session(const char *state_dir, int state, const char *id, Worker *worker)
{
    _cleanup_(closep) int removed = beneath_mkdirs(state, "removed", PRIVATE_MODE, NOBODY_ELSE);
    _cleanup_(closep) int sessions = beneath_open(state, "sessions", O_PATH | O_DIRECTORY, 0);
    _cleanup_(closep) int session = sessions < 0 ? -1 : beneath_open(sessions, id, O_PATH | O_DIRECTORY, 0);

    if (removed < 0 || session < 0)
        return;
    discard(state_dir, removed, session, "files", worker);
    discard(state_dir, removed, session, "work", worker);
    discard(state_dir, removed, session, "checkpoints", worker);
    unlinkat(session, JOURNAL_NAME, 0);
    unlinkat(session, JOURNAL_NEW_NAME, 0);
    unlinkat(session, "artifacts", AT_REMOVEDIR);
    unlinkat(sessions, id, AT_REMOVEDIR);
}

void sessiondir_deinit(SessionDir *directory)
{
    close_fd(&directory->files_fd);
    free(directory->state_dir);
    free(directory->id);
    free(directory->files_path);
    free(directory->artifacts_root);
    free(directory->work_path);
    free(directory->work_artifacts_root);
    free(directory->published_id);
    free(directory->published_path);
    free(directory->work_published_path);
    *directory = SESSIONDIR_NULL;
}

/* Directories that nothing was published to: what is not empty stays. */
static void remove_empty_published(const SessionDir *directory)
{
    char path[PATH_MAX];

    if (!directory->published_id)
        return;
    rmdir(directory->published_path);
    if (directory->work_published_path) {
        rmdir(directory->work_published_path);
        snprintf(path, sizeof(path), "%s/outputs/%s", directory->state_dir, directory->published_id);
        rmdir(path);
    }
    snprintf(path, sizeof(path), "%s/sessions/%s", directory->state_dir, directory->published_id);
    rmdir(path);
}

void sessiondir_remove(SessionDir *directory, Worker *worker)
{
    if (!directory->state_dir)
        return;
    _cleanup_(closep) int state = open(directory->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (state >= 0 && directory->id)
        discard_session(directory->state_dir, state, directory->id, worker);
    remove_empty_published(directory);
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
    int fd = beneath_open(sweep->state, directory, O_RDONLY | O_DIRECTORY, 0);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);

    if (!stream) {
        closep(&fd);
        return;
    }
    for (struct dirent *entry; (entry = readdir(stream));)
        if (entry->d_name[0] != '.')
            on_name(sweep, entry->d_name);
    closedir(stream);
}

static void remove_leftover(const Sweep *sweep, const char *name)
{
    _cleanup_(closep) int removed = beneath_open(sweep->state, "removed", O_PATH | O_DIRECTORY, 0);

    if (removed >= 0)
        remove_later(sweep->state_dir, removed, name, sweep->worker);
}

/* Where nothing was published: what is not empty stays. */
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
    discard_session(sweep->state_dir, sweep->state, id, sweep->worker);
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

/* ---- making ----------------------------------------------------------------------------------------------
 */

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
    directory->work_path = format_path(state_dir, "sessions", id, "work");
    directory->work_artifacts_root = format_path(state_dir, "sessions", id, "work/artifacts");
    return directory->work_path && directory->work_artifacts_root ? 0 : -ENOMEM;
}

static void forget_published(SessionDir *directory)
{
    free(take(directory->published_id));
    free(take(directory->published_path));
    free(take(directory->work_published_path));
}

void sessiondir_disclaim(SessionDir *directory)
{
    remove_empty_published(directory);
    forget_published(directory);
}

static int set_published(SessionDir *directory, const char *id)
{
    const char *state_dir = directory->state_dir;

    directory->published_id = strdup(id);
    directory->published_path = directory->work_path ? format_path(state_dir, "outputs", id, "session")
                                                     : format_path(state_dir, "sessions", id, "artifacts");
    if (directory->work_path)
        directory->work_published_path = format_path(state_dir, "outputs", id, "work");
    if (directory->published_id && directory->published_path &&
        (!directory->work_path || directory->work_published_path))
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

/* What code makes in there belongs to its own uid; without root's rights its owner is let in, so as to
 * publish and remove it. Where the filesystem has no lists only the local engine works for such a user, which
 * needs none. */
static void let_us_in(int directory)
{
    char path[FD_PATH_SIZE];

    if (geteuid() != 0)
        acl_allow_below(fd_path(path, directory), geteuid(), ACL_READ | ACL_WRITE | ACL_ENTER);
}

/* A directory sandboxed code writes to, with its `artifacts`. */
static int make_shared(int session, const char *name)
{
    _cleanup_(closep) int fd = beneath_mkdirs(session, name, SHARED_MODE, NOBODY_ELSE);
    _cleanup_(closep) int artifacts = fd < 0 ? fd : beneath_mkdirs(fd, "artifacts", SHARED_MODE, NOBODY_ELSE);

    if (artifacts < 0)
        return artifacts;
    let_us_in(fd);
    let_us_in(artifacts);
    return take_fd(&fd);
}

static int make_files(SessionDir *directory, int session)
{
    directory->files_fd = make_shared(session, "files");
    if (directory->files_fd < 0)
        return directory->files_fd;
    _cleanup_(closep) int ours =
        beneath_mkdirs(directory->files_fd, TRANSFER_DIRECTORY, OURS_MODE, NOBODY_ELSE);
    char path[FD_PATH_SIZE];

    if (ours >= 0 && geteuid() != 0) /* the supervisor stores long output there */
        acl_allow(fd_path(path, ours), 0, ACL_READ | ACL_WRITE | ACL_ENTER);
    return ours < 0 ? ours : 0;
}

static int make_outputs(int state, const char *id)
{
    int outputs = beneath_mkdirs(state, "outputs", PRIVATE_MODE, NOBODY_ELSE);
    _cleanup_(closep) int output = make_in(outputs, id, PRIVATE_MODE);
    _cleanup_(closep) int session =
        output < 0 ? output : beneath_mkdirs(output, "session", OURS_MODE, NOBODY_ELSE);
    _cleanup_(closep) int work =
        session < 0 ? session : beneath_mkdirs(output, "work", OURS_MODE, NOBODY_ELSE);

    return MIN(work, 0);
}

static int make_private(SessionDir *directory, int state)
{
    int sessions = beneath_mkdirs(state, "sessions", PRIVATE_MODE, NOBODY_ELSE);
    _cleanup_(closep) int session = make_in(sessions, directory->id, PRIVATE_MODE);
    int r = session < 0 ? session : make_files(directory, session);

    if (r < 0 || !directory->work_path)
        return r;
    _cleanup_(closep) int work = make_shared(session, "work");
    return MIN(work, 0);
}

/* Of an ephemeral one there is sessions/ID too, by which a sweep finds it. */
static int make_published(SessionDir *directory, int state, const char *id)
{
    int r = set_published(directory, id);
    int sessions = r < 0 ? r : beneath_mkdirs(state, "sessions", PRIVATE_MODE, NOBODY_ELSE);
    _cleanup_(closep) int session = make_in(sessions, id, PRIVATE_MODE);

    if (session < 0 || directory->work_path) {
        r = session < 0 ? session : make_outputs(state, id);
    } else {
        _cleanup_(closep) int artifacts = beneath_mkdirs(session, "artifacts", OURS_MODE, NOBODY_ELSE);
        r = MIN(artifacts, 0);
    }
    if (r < 0)
        sessiondir_disclaim(directory);
    return r;
}

static int say_cannot_make(const char *state_dir, int r, Problem *problem)
{
    return problem_set(problem, ERR_INTERNAL, "cannot make the session's directories in %s: %s", state_dir,
                       strerror(-r));
}

/* With what is published under the same id, or without. */
static int make(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral, bool published,
                Problem *problem)
{
    SessionDir directory = SESSIONDIR_NULL;
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = state < 0 ? -errno : 0;

    if (r == 0)
        discard_session(state_dir, state, id, NULL);
    if (r == 0)
        r = set_paths(&directory, state_dir, id, ephemeral);
    if (r == 0)
        r = make_private(&directory, state);
    if (r == 0 && published)
        r = make_published(&directory, state, id);
    if (r < 0) {
        sessiondir_remove(&directory, NULL);
        sessiondir_deinit(&directory);
        return say_cannot_make(state_dir, r, problem);
    }
    *ret = directory;
    return 0;
}

int sessiondir_make(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral, Problem *problem)
{
    return make(ret, state_dir, id, ephemeral, true, problem);
}

int sessiondir_make_spare(SessionDir *ret, const char *state_dir, const char *id, bool ephemeral,
                          Problem *problem)
{
    return make(ret, state_dir, id, ephemeral, false, problem);
}

int sessiondir_claim(SessionDir *directory, const char *id, Problem *problem)
{
    _cleanup_(closep) int state = open(directory->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int r = state < 0 ? -errno : 0;

    if (r == 0) {
        discard_session(directory->state_dir, state, id, NULL);
        r = make_published(directory, state, id);
    }
    return r < 0 ? say_cannot_make(directory->state_dir, r, problem) : 0;
}

bool sessiondir_uses(const SessionDir *directory, const char *id)
{
    return (directory->id && strcmp(directory->id, id) == 0) ||
           (directory->published_id && strcmp(directory->published_id, id) == 0);
}

/* ---- adopting --------------------------------------------------------------------------------------------
 */

int sessiondir_adopt(SessionDir *ret, const char *state_dir, const char *id, const char *published_id,
                     bool ephemeral, Problem *problem)
{
    SessionDir directory = SESSIONDIR_NULL;
    int r = set_paths(&directory, state_dir, id, ephemeral);

    if (r == 0)
        r = set_published(&directory, published_id);
    if (r == 0) {
        directory.files_fd = open(directory.files_path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        r = directory.files_fd < 0 ? -errno : 0;
    }
    if (r == 0)
        transfer_clean(directory.files_fd);
    *ret = directory;
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot use the session's directories in %s: %s", state_dir,
                           strerror(-r));
    return 0;
}
