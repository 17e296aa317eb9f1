/* Review of what sessions that have ended left: looked over on a thread, and removed if it is too old or too
 * much. Nothing of a session that is open goes. */
#include "host/files/retention.h"
#include "host/keeper/internal.h"
#include "proto/base/clock.h"

/* They neither go nor count. */
static void leave_out_open(Keeper *keeper, Leftovers *found)
{
    size_t n = 0;

    for (size_t i = 0; i < found->n; i++) {
        if (tenants_use(keeper, found->entries[i].id))
            free(found->entries[i].id);
        else
            found->entries[n++] = found->entries[i];
    }
    found->n = n;
}

static JobReviewed remove_chosen(Keeper *keeper, const JobReview *review, Leftovers *found)
{
    const Retention retention = {review->keep_for, review->keep_size};
    size_t chosen = retention_choose(found, &retention, clock_unix());
    JobReviewed removed = {0};

    for (size_t i = 0; i < chosen; i++) {
        const Leftover *leftover = &found->entries[i];

        if (!leftover_remove(leftover, keeper->state_dir, keeper->worker))
            continue;
        removed.bytes += leftover->bytes;
        removed.sessions++;
    }
    return removed;
}

static void review_run(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    if (leftovers_find(&job->leftovers, job->keeper->state_dir) < 0)
        problem_set(&job->problem, ERR_INTERNAL, "out of memory");
}

static void review_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    Leftovers found = job->leftovers;
    JobReviewed removed;

    if (job->problem.code != ERR_NONE) {
        job_fail(job);
        return;
    }
    leave_out_open(job->keeper, &found);
    removed = remove_chosen(job->keeper, &job->request.as_REVIEW, &found);
    leftovers_deinit(&found);
    job_done(job, JobReviewed, &removed);
}

void do_review(KeeperJob *job)
{
    if (worker_submit(job->keeper->worker, &job->work, review_run, review_done) < 0) {
        problem_set(&job->problem, ERR_INTERNAL, "no thread can look now");
        job_fail(job);
    }
}
