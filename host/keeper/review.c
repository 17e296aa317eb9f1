/* Review of the files of sessions that have ended, on a thread: the too old and the too many go. Files of
 * open sessions stay. The asker is told which saved sessions are too old or too many, and ends them. */
#include "host/files/leftovers.h"
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

/* The asker says which are saved; an id of none of ours takes nothing. */
static int measure_saved(KeeperJob *job)
{
    const Value *rows = &job->request.as_REVIEW.saved;
    JobSleeper row;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < value_count(rows); i++) {
        value_row(&row, JobSleeper, rows, i);
        r = leftovers_add_saved(&job->saved, job->keeper->state_dir, row.id, row.since);
    }
    return r;
}

typedef struct Chosen {
    const Leftovers *saved;
    size_t n;
} Chosen;

static void write_chosen(Writer *w, const void *source)
{
    const Chosen *chosen = source;

    write_array(w, (uint32_t)chosen->n);
    for (size_t i = 0; i < chosen->n; i++)
        write_text(w, chosen->saved->entries[i].id);
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

    if (leftovers_find(&job->leftovers, job->keeper->state_dir) < 0 || measure_saved(job) < 0)
        problem_set(&job->problem, ERR_INTERNAL, "out of memory");
}

static void review_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);
    const JobReview *review = &job->request.as_REVIEW;
    Leftovers found = job->leftovers, saved = job->saved;
    Chosen chosen = {.saved = &saved};
    JobReviewed removed;

    if (job->problem.code != ERR_NONE) {
        job_fail(job);
    } else {
        leave_out_open(job->keeper, &found);
        removed = remove_chosen(job->keeper, review, &found);
        chosen.n = retention_choose(&saved, &(Retention){review->keep_for, review->keep_size}, clock_unix());
        removed.saved = (Value){.write = write_chosen, .source = &chosen};
        job_done(job, JobReviewed, &removed);
    }
    leftovers_deinit(&found);
    leftovers_deinit(&saved);
}

void do_review(KeeperJob *job)
{
    if (worker_submit(job->keeper->worker, &job->work, review_run, review_done) < 0) {
        problem_set(&job->problem, ERR_INTERNAL, "no thread can look now");
        job_fail(job);
    }
}
