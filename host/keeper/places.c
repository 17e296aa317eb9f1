/* The directories of sessions: how they are made, taken over, and removed. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "host/files/snapshot.h"
#include "host/keeper/internal.h"
#include "proto/base/log.h"

static void keep(KeeperJob *job, SessionDir *directory)
{
    if (tenant_add(job->keeper, directory))
        return;
    sessiondir_remove(directory, NULL);
    problem_set(&job->problem, ERR_INTERNAL, "out of memory");
}

/* Refuses an id that is in use: what an earlier life of it left is removed. */
static bool is_free(KeeperJob *job, const char *id)
{
    if (!id)
        problem_set(&job->problem, ERR_INTERNAL, "out of memory");
    else if (tenant_find(job->keeper, id))
        problem_set(&job->problem, ERR_BUSY, "the files of '%s' are in use", id);
    return job->problem.code == ERR_NONE;
}

void do_make(KeeperJob *job)
{
    const JobMake *make = &job->request.as_MAKE;
    _cleanup_(freep) char *id = text_dup(make->id);
    SessionDir directory = SESSIONDIR_NULL;
    Keeper *keeper = job->keeper;
    int r = -EPROTO;

    if (is_free(job, id))
        r = (make->published ? sessiondir_make : sessiondir_make_spare)(
            &directory, keeper->state_dir, id, make->ephemeral, keeper->worker, &job->problem);
    if (r == 0)
        keep(job, &directory);
    job_end(job);
}

static bool may_fill(KeeperJob *job)
{
    if (job->tenant->directory.files_fd < 0)
        return true;
    problem_set(&job->problem, ERR_BAD_REQUEST, "the session has its files already");
    return false;
}

void do_fill(KeeperJob *job)
{
    if (may_fill(job))
        sessiondir_fill(&job->tenant->directory, NULL, &job->problem);
    job_end(job);
}

static void fill_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    const DiskSize size = {job->request.as_FILL_DISK.bytes, job->request.as_FILL_DISK.files};

    sessiondir_fill(&job->tenant->directory, &size, &job->problem);
}

static void fill_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    job->tenant->filling = false;
    job_end(job);
}

void do_fill_disk(KeeperJob *job)
{
    const JobFill *fill = &job->request.as_FILL_DISK;

    if (!job->keeper->config.has_disks || fill->bytes < DISK_MINIMUM || fill->bytes == NO_UINT ||
        fill->files < FILES_MINIMUM || fill->files == NO_UINT)
        problem_set(&job->problem, ERR_BAD_REQUEST, "there are no disks of that size");
    else if (may_fill(job) && worker_submit(job->keeper->makers, &job->work, fill_run, fill_done) < 0)
        problem_set(&job->problem, ERR_INTERNAL, "no thread can make the disk of the session");
    if (job->problem.code == ERR_NONE)
        job->tenant->filling = true;
    else
        job_fail(job);
}

/* There is something to be removed also when it cannot be used. */
void do_adopt(KeeperJob *job)
{
    const JobAdopt *adopt = &job->request.as_ADOPT;
    _cleanup_(freep) char *id = text_dup(adopt->id), *as = job_id(job, adopt->as);
    SessionDir directory = SESSIONDIR_NULL;
    int r;

    if (!as || !is_free(job, id)) {
        job_fail(job);
        return;
    }
    r = sessiondir_adopt(&directory, job->keeper->state_dir, id, as, adopt->ephemeral, adopt->mounts,
                         &job->problem);
    if (r == 0)
        snapshot_recover(directory.files_fd);
    if (directory.id)
        keep(job, &directory);
    job_end(job);
}

static void sync_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    sessiondir_sync(job->keeper->state_dir, job->files);
}

static void sync_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    log_debug("session synced", "directory=%s", job->entry);
    job_end(job);
}

void do_sync(KeeperJob *job)
{
    const SessionDir *directory = &job->tenant->directory;

    job->entry = strdup(directory->id);
    job->files = fcntl(directory->files_fd, F_DUPFD_CLOEXEC, 3);
    if (job->entry && job->files >= 0 &&
        worker_submit(job->keeper->worker, &job->work, sync_run, sync_done) == 0)
        return;
    problem_set(&job->problem, ERR_INTERNAL, "the files of the session cannot be synced now");
    job_fail(job);
}

void do_remove(KeeperJob *job)
{
    tenant_remove(job->tenant, true);
    job_end(job);
}

void do_leave(KeeperJob *job)
{
    tenant_remove(job->tenant, false);
    job_end(job);
}

void do_sweep_removed(KeeperJob *job)
{
    sessiondir_sweep_removed(job->keeper->state_dir, job->keeper->worker);
    job_end(job);
}

void do_sweep(KeeperJob *job)
{
    sessiondir_sweep(job->keeper->state_dir, job->keeper->worker, tenants_use, job->keeper);
    job_end(job);
}
