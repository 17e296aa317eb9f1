/* Installed packages: what an installer has left is kept for the sessions that ask for it. All on a thread.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "host/keeper/internal.h"

typedef struct AskedPackages {
    char before[SHA256_HEX_SIZE], request[SHA256_HEX_SIZE];
} AskedPackages;

/* False, with the problem set, where it is not made of digits as it should be. */
static bool read_question(KeeperJob *job, Text before, Text request, AskedPackages *ret,
                          PackageQuestion *ret_question)
{
    snprintf(ret->before, sizeof(ret->before), "%.*s", (int)before.size, before.data);
    snprintf(ret->request, sizeof(ret->request), "%.*s", (int)request.size, request.data);
    *ret_question = (PackageQuestion){ret->before, ret->request};
    if (package_name_valid(ret->request) && (!*ret->before || package_name_valid(ret->before)))
        return true;
    problem_set(&job->problem, ERR_BAD_REQUEST, "packages are named by %u hexadecimal digits",
                2 * SHA256_SIZE);
    return false;
}

static void submit(KeeperJob *job, void (*run)(WorkerJob *), void (*done)(WorkerJob *))
{
    if (job->problem.code == ERR_NONE && worker_submit(job->keeper->worker, &job->work, run, done) == 0)
        return;
    if (job->problem.code == ERR_NONE)
        problem_set(&job->problem, ERR_INTERNAL, "no thread can look after packages now");
    job_fail(job);
}

static void packages_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    const PackageSet *set = &job->packages;
    JobPackages packages = {.bytes = NO_UINT};

    if (job->problem.code != ERR_NONE) {
        job_fail(job);
        return;
    }
    if (*set->hash)
        packages = (JobPackages){.hash = text_of(set->hash),
                                 .lock = {(const char *)buf_head(&set->lock), set->lock.size},
                                 .bytes = set->bytes};
    job_done(job, JobPackages, &packages);
}

static void take_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    const JobTakePackages *take = &job->request.as_PACKAGES_TAKE;
    PackageQuestion question;
    AskedPackages copy;
    char id[NAME_MAX];

    if (!read_question(job, take->before, take->request, &copy, &question))
        return;
    snprintf(id, sizeof(id), "%.*s", (int)take->id.size, take->id.data);
    package_store_take(&job->packages, job->keeper->state_dir, job->files, id, &question, take->budget,
                       &job->problem);
}

void do_packages_take(KeeperJob *job)
{
    job->files = fcntl(job->tenant->directory.files_fd, F_DUPFD_CLOEXEC, 3);
    if (job->files < 0)
        job_fail_errno(job, "packages cannot be kept", -errno);
    else
        submit(job, take_run, packages_done);
}

static void find_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    const JobFindPackages *find = &job->request.as_PACKAGES_FIND;
    PackageQuestion question;
    AskedPackages copy;

    if (read_question(job, find->before, find->request, &copy, &question) &&
        package_store_find(&job->packages, job->keeper->state_dir, &question, find->max_age, &job->problem) <
            0)
        *job->packages.hash = '\0';
}

void do_packages_find(KeeperJob *job)
{
    submit(job, find_run, packages_done);
}

static bool is_in_use(void *userdata, const char *hash)
{
    const Value *in_use = userdata;

    for (uint32_t i = 0; i < value_count(in_use); i++)
        if (text_equal(value_text(in_use, i), hash))
            return true;
    return false;
}

static void trim_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    JobTrimPackages *trim = &job->request.as_PACKAGES_TRIM;

    job->size =
        package_store_trim(job->keeper->state_dir, trim->budget, trim->before, is_in_use, &trim->in_use);
}

static void trim_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    job_done(job, JobTrimmed, &(JobTrimmed){.removed = job->size});
}

void do_packages_trim(KeeperJob *job)
{
    submit(job, trim_run, trim_done);
}
