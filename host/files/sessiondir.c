#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/acl.h"
#include "host/files/beneath.h"
#include "host/files/session_disk.h"
#include "host/files/sessiondir_parts.h"
#include "host/files/transfer.h"

#define SHARED_MODE 01777
#define OURS_MODE   0755

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

/* Lets a controller without root's rights into a directory where what code makes belongs to its own uid, so
 * that it can publish and remove it. Where the filesystem has no access lists only the local engine works for
 * such a user, which needs none. */
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

static int make_files(int parent, const char *name)
{
    static const uid_t supervisors[] = {0, SUPERVISOR_UID};
    _cleanup_(closep) int files = make_shared(parent, name);
    _cleanup_(closep) int ours =
        files < 0 ? files : beneath_mkdirs(files, TRANSFER_DIRECTORY, OURS_MODE, NOBODY_ELSE);
    char path[FD_PATH_SIZE];

    if (ours >= 0) /* the supervisor stores long output there, with its users mapped or not */
        acl_allow_each(fd_path(path, ours), supervisors, ARRAY_SIZE(supervisors),
                       ACL_READ | ACL_WRITE | ACL_ENTER);
    return MIN(ours, 0);
}

/* The home is the guest's own where it can be given away. */
static int make_scratch(int parent, const char *name)
{
    const mode_t home_mode = geteuid() == 0 ? OURS_MODE : SHARED_MODE;
    _cleanup_(closep) int fd = beneath_mkdirs(parent, name, OURS_MODE, NOBODY_ELSE);
    _cleanup_(closep) int tmp = fd < 0 ? fd : beneath_mkdirs(fd, "tmp", SHARED_MODE, NOBODY_ELSE);
    _cleanup_(closep) int home = tmp < 0 ? tmp : beneath_mkdirs(fd, "home", home_mode, GUEST_UID, GUEST_UID);
    _cleanup_(closep) int work = home < 0 ? home : make_shared(fd, "work");

    if (work < 0)
        return work;
    let_us_in(tmp);
    let_us_in(home);
    return 0;
}

int sessiondir_make_writable(int parent, const char *files, const char *scratch)
{
    int r = make_files(parent, files);

    return r < 0 ? r : make_scratch(parent, scratch);
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
                 : sessiondir_make_writable(session, "files", "scratch");
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

/* Without a disk /session is as make_shared() makes it, and not as a mount point is. */
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
                     bool ephemeral, bool mounts, Problem *problem)
{
    SessionDir directory = SESSIONDIR_NULL;
    int r = set_paths(&directory, state_dir, id, ephemeral);

    if (r == 0)
        r = set_published(&directory, published_id);
    if (r == 0)
        r = find_files(&directory, mounts, problem);
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

/* Syncs the session's disk first, as that is written to its image, then the file system of the image. */
void sessiondir_sync(const char *state_dir, int files)
{
    _cleanup_(closep) int state = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);

    sync_around(files);
    sync_around(state);
}
