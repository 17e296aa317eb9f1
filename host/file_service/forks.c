/* The files of a session that begins as another one is: all that code can write to, copied on a thread. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/files/tree.h"
#include "host/file_service/internal.h"

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
