/* The files of templates: taken from a session, put into others. What copies is done on a thread. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "host/files/snapshot.h"
#include "host/keeper/internal.h"

static bool open_store(KeeperJob *job)
{
    job->store = template_files_store(job->keeper->state_dir);
    if (job->store >= 0)
        return true;
    job_fail_errno(job, "there is no place for the files of templates", job->store);
    return false;
}

static void take_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    template_files_take(job->store, job->entry, job->files, job->request.as_TAKE_TEMPLATE.budget, &job->size,
                        &job->problem);
}

static void take_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    if (job->problem.code == ERR_NONE)
        job_done(job, JobTaken, &(JobTaken){.bytes = job->size});
    else
        job_end(job);
}

static void put_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    template_files_put(job->store, job->entry, job->files, &job->problem);
}

static void put_done(WorkerJob *work)
{
    job_end(container_of(work, KeeperJob, work));
}

static void begin(KeeperJob *job, void (*run)(WorkerJob *), void (*done)(WorkerJob *))
{
    int r;

    job->entry = job_id(job, job->request.as_PUT_TEMPLATE.template);
    if (!job->entry) {
        job_fail(job);
        return;
    }
    if (!open_store(job))
        return;
    job->files = fcntl(job->tenant->directory.files_fd, F_DUPFD_CLOEXEC, 3);
    r = job->files < 0 ? -errno : worker_submit(job->keeper->worker, &job->work, run, done);
    if (r < 0)
        job_fail_errno(job, "files cannot be copied now", r);
}

void do_take_template(KeeperJob *job)
{
    begin(job, take_run, take_done);
}

void do_put_template(KeeperJob *job)
{
    begin(job, put_run, put_done);
}

void do_drop_template(KeeperJob *job)
{
    job->entry = job_id(job, job->request.as_DROP_TEMPLATE.template);
    if (!job->entry) {
        job_fail(job);
        return;
    }
    if (!open_store(job))
        return;
    snapshot_set_aside(job->store, job->entry, job->keeper->worker);
    job_end(job);
}

static bool is_kept(void *userdata, const char *id)
{
    const Value *kept = userdata;

    for (uint32_t i = 0; i < value_count(kept); i++)
        if (text_equal(value_text(kept, i), id))
            return true;
    return false;
}

void do_sweep_templates(KeeperJob *job)
{
    if (!open_store(job))
        return;
    template_files_sweep(job->store, job->keeper->worker, is_kept,
                         &job->request.as_SWEEP_TEMPLATES.templates);
    job_end(job);
}
