#include "host/front/ops/transfer.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static void job_free(TransferJob *job)
{
    close_fd(&job->dirfd);
    close_fd(&job->passed);
    buf_deinit(&job->data);
    buf_deinit(&job->reply);
    free(job->path);
    free(job);
}

static void run(WorkerJob *worker_job)
{
    TransferJob *job = container_of(worker_job, TransferJob, job);

    if (!job->work(job) && job->problem.code == ERR_NONE)
        problem_set(&job->problem, ERR_INTERNAL, "out of memory");
}

static void done(WorkerJob *worker_job)
{
    TransferJob *job = container_of(worker_job, TransferJob, job);

    if (job->problem.code != ERR_NONE)
        request_fail(job->request, &job->problem);
    else if (job->passed >= 0)
        request_reply_passing(job->request, &job->reply, job->passed);
    else
        request_reply(job->request, &job->reply);
    job_free(job);
}

void transfer_begin(Front *front, Session *session, const TransferJob *given, Text path)
{
    TransferJob *job = malloc(sizeof(*job));
    int r = -ENOMEM;

    if (!job) {
        request_fail_text(given->request, ERR_INTERNAL, "out of memory");
        return;
    }
    *job = *given;
    job->passed = -1;
    job->path = text_dup(path);
    job->dirfd = fcntl(session->sandbox->directory.files_fd, F_DUPFD_CLOEXEC, 3);
    job->isolated = sandboxes_isolate(front->sandboxes);
    if (job->path && job->dirfd >= 0)
        r = worker_submit(front->sandboxes->worker, &job->job, run, done);
    if (r < 0) {
        request_fail_text(job->request, ERR_INTERNAL, "cannot transfer the file: %s", strerror(-r));
        job_free(job);
    }
}
