/* Files that clients send and fetch, a piece at a time. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/files/transfer.h"
#include "host/keeper/internal.h"

#define UPLOAD_KEY_SIZE (16 + 1 + LIMIT_PATH + 1)

static void begin(KeeperJob *job, void (*run)(WorkerJob *), void (*done)(WorkerJob *))
{
    int r;

    job->files = fcntl(job->tenant->directory.files_fd, F_DUPFD_CLOEXEC, 3);
    r = job->files < 0 ? -errno : worker_submit(job->keeper->worker, &job->work, run, done);
    if (r < 0)
        job_fail_errno(job, "the file cannot be moved now", r);
}

static bool put_is_one(KeeperJob *job)
{
    const JobPut *put = &job->request.as_PUT;

    if (!put->descriptor || (put->offset == 0 && put->data.size == 0 && !put->last))
        return true;
    problem_set(&job->problem, ERR_BAD_REQUEST, "descriptor: is asked for before there is any data");
    return false;
}

/* The file belongs to the interpreter's user, so that code may change it. Where that has no uid of its own it
 * is ours, and code may read and replace it. */
static void put_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    const JobPut *put = &job->request.as_PUT;
    uid_t owner = put->give ? GUEST_UID : (uid_t)-1;
    char key[UPLOAD_KEY_SIZE];

    snprintf(key, sizeof(key), "%" PRIx64 ":%.*s", put->client, (int)put->path.size, put->path.data);
    if (put->descriptor)
        job->passed = transfer_begin_upload(job->files, put->path, key, &job->problem);
    else
        transfer_put(job->files, put->path, put->offset, put->data, put->last, owner, owner, key, &job->size,
                     &job->problem);
}

static void put_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    int descriptors[JOB_DESCRIPTORS] = {take_fd(&job->passed), -1};

    if (job->problem.code != ERR_NONE)
        job_fail(job);
    else
        job_done_with(job, JobPutDone, &(JobPutDone){.size = job->size}, descriptors);
}

void do_put(KeeperJob *job)
{
    if (put_is_one(job))
        begin(job, put_run, put_done);
    else
        job_fail(job);
}

static void forget_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    char key[UPLOAD_KEY_SIZE];

    snprintf(key, sizeof(key), "%" PRIx64 ":", job->request.as_FORGET_UPLOADS.client);
    transfer_forget(job->files, key);
}

static void forget_done(WorkerJob *work)
{
    job_end(container_of(work, KeeperJob, work));
}

void do_forget_uploads(KeeperJob *job)
{
    begin(job, forget_run, forget_done);
}

static void get_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    const JobGet *get = &job->request.as_GET;

    if (get->descriptor)
        job->passed = transfer_open(job->files, get->path, &job->size, &job->problem);
    else
        transfer_get(job->files, get->path, get->offset, get->size, &job->data, &job->size, &job->problem);
}

static void get_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    int descriptors[JOB_DESCRIPTORS] = {take_fd(&job->passed), -1};
    const JobGot got = {
        .data =
            job->data.size > 0 ? (Text){(const char *)buf_head(&job->data), job->data.size} : (Text){"", 0},
        .size = job->size,
    };

    if (job->problem.code != ERR_NONE)
        job_fail(job);
    else
        job_done_with(job, JobGot, &got, descriptors);
}

void do_get(KeeperJob *job)
{
    begin(job, get_run, get_done);
}
