/* Files and memory of sessions that begin as another one is, copied on a thread: for each, all that code can
 * write to; for all of them, the memory, which comes through a pipe, as one file without a name, to which
 * only this process could ever write. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "host/file_service/internal.h"
#include "host/files/beneath.h"
#include "host/files/session_disk.h"
#include "host/files/tree.h"
#include "proto/base/clock.h"

static int open_directory(int parent, const char *path)
{
    int fd = openat(parent, path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return fd < 0 ? -errno : fd;
}

static int copy_part(FileServiceJob *job, const char *path, const char *skip)
{
    _cleanup_(closep) int from = open_directory(job->store, path), to = open_directory(job->files, path);

    if (from < 0 || to < 0)
        return MIN(from, to);
    return treecopy(from, to, skip, UINT64_MAX, &job->size, &job->problem);
}

/* The copies have the room of the new session's disk, and no other bound. */
static void run(WorkerJob *work)
{
    static const char *const parts[] = {"scratch/tmp", "scratch/home", "scratch/data"};
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    int r = copy_part(job, "files", ".limpet");

    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(parts); i++)
        r = copy_part(job, parts[i], NULL);
    if (job->problem.code == ERR_TOO_LARGE)
        problem_set(&job->problem, ERR_TOO_LARGE,
                    "its files and its memory have no room on the disk of the new session (options disk and "
                    "files)");
    else if (r < 0 && job->problem.code == ERR_NONE)
        problem_set(&job->problem, ERR_INTERNAL, "its files cannot be copied: %s", strerror(-r));
}

static void done(WorkerJob *work)
{
    job_end(container_of(work, FileServiceJob, work));
}

/* Opens sessions/ID, which stays the same when another session of that name begins. */
static int open_session(const FileService *file_service, const char *id)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/sessions/%s", file_service->state_dir, id);
    return open_directory(AT_FDCWD, path);
}

void do_fork(FileServiceJob *job)
{
    const FileSession *from;
    int r;

    job->entry = job_id(job, job->request.as_FORK.from);
    from = job->entry ? file_session_find(job->file_service, job->entry) : NULL;
    if (job->entry && (!from || from->filling))
        problem_set(&job->problem, ERR_BAD_REQUEST, "nothing is kept of the session '%s'", job->entry);
    if (job->problem.code != ERR_NONE) {
        job_fail(job);
        return;
    }
    job->store = open_session(job->file_service, job->entry);
    job->files = open_session(job->file_service, job->session->directory.id);
    r = MIN(job->store, job->files);
    if (r >= 0)
        r = worker_submit(job->file_service->worker, &job->work, run, done);
    if (r < 0)
        job_fail_errno(job, "files cannot be copied now", r);
}

/* ---- the memory ---- */

/* More than a supervisor allows for writing it. */
#define MEMORY_LIMIT (30 * NSEC_PER_SEC)

/* As much as a pipe may hold. */
#define PIECE ((size_t)1 << 20)

/* Sets a descriptor for writing and one for reading the new file. */
static int make_nameless(FileServiceJob *job)
{
    _cleanup_(closep) int state = open(job->file_service->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    _cleanup_(closep) int removed =
        state < 0 ? -errno : beneath_mkdirs(state, "removed", PRIVATE_MODE, NOBODY_ELSE);
    char name[32];

    if (removed < 0)
        return removed;
    snprintf(name, sizeof(name), "memory-%" PRIu64, job->id);
    unlinkat(removed, name, 0);
    job->files = openat(removed, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0400);
    if (job->files < 0)
        return -errno;
    job->passed = openat(removed, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    int r = job->passed < 0 ? -errno : 0;
    unlinkat(removed, name, 0);
    return r;
}

/* Copies what is in the pipe, once something is; 0 when nobody writes to it any more. */
static ssize_t copy_piece(const FileServiceJob *job, uint64_t end)
{
    struct pollfd ready = {.fd = job->came, .events = POLLIN};
    uint64_t now = clock_now();
    int r = now < end ? poll(&ready, 1, (int)((end - now) / NSEC_PER_MSEC) + 1) : 0;
    ssize_t n = r > 0 ? splice(job->came, NULL, job->files, NULL, PIECE, 0) : r;

    if (r == 0)
        return -ETIMEDOUT;
    return n < 0 ? -errno : n;
}

static int copy_memory(FileServiceJob *job)
{
    uint64_t end = clock_now() + MEMORY_LIMIT;
    int r = make_nameless(job);
    ssize_t n;

    if (r < 0)
        return r;
    while ((n = copy_piece(job, end)) > 0) {
        job->size += (uint64_t)n;
        if (job->size > job->request.as_TAKE_MEMORY.budget)
            return -EFBIG;
    }
    return (int)n;
}

/* Whoever writes sees at once that nobody reads any more. */
static void take_memory(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    int r = copy_memory(job);

    close_fd(&job->came);
    close_fd(&job->files);
    if (r == -EFBIG)
        problem_set(&job->problem, ERR_TOO_LARGE,
                    "its memory takes more than the disk of a session has (option disk)");
    else if (r < 0)
        problem_set(&job->problem, ERR_INTERNAL, "its memory cannot be copied: %s", strerror(-r));
}

void job_memory_taken(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    Descriptors passed = {0};

    if (job->problem.code != ERR_NONE) {
        job_fail(job);
        return;
    }
    descriptors_add(&passed, take_fd(&job->passed));
    job_done_with(job, JobTaken, &(JobTaken){.bytes = job->size}, &passed);
}

void do_take_memory(FileServiceJob *job)
{
    int r = job->came < 0
                ? -EBADF
                : worker_submit(job->file_service->worker, &job->work, take_memory, job_memory_taken);

    if (r < 0)
        job_fail_errno(job, "its memory cannot be copied now", r);
}
