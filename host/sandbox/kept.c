#include "host/sandbox/kept.h"

#include "host/files/retention.h"
#include "host/sandbox/sweep.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* How often, and how soon after a session has ended. */
#define REVIEW_NSEC (600 * NSEC_PER_SEC)
#define SOON_NSEC   NSEC_PER_SEC
/* Looking is to take no more than that share of the time. */
#define SHARE 20

struct Kept {
    const Sandboxes *all;
    WorkerJob job;
    LoopTimer timer;
    bool looking;
    bool again; /* a session has ended meanwhile */
    Leftovers found;
    int result;
    uint64_t took, pause; /* nanoseconds */
};

static void set_timer(Kept *kept, uint64_t after);

/* They neither go nor count. */
static void leave_out_open(Kept *kept)
{
    Leftovers *found = &kept->found;
    size_t n = 0;

    for (size_t i = 0; i < found->n; i++) {
        if (sandboxes_use(kept->all, found->entries[i].id))
            free(found->entries[i].id);
        else
            found->entries[n++] = found->entries[i];
    }
    found->n = n;
}

static void remove_chosen(Kept *kept)
{
    const Sandboxes *all = kept->all;
    Retention retention = {all->options->keep_for, all->options->keep_size};
    size_t chosen = retention_choose(&kept->found, &retention, clock_unix()), removed = 0;
    uint64_t bytes = 0;

    for (size_t i = 0; i < chosen; i++) {
        const Leftover *leftover = &kept->found.entries[i];

        if (!leftover_remove(leftover, all->paths->state_dir, all->worker))
            continue;
        bytes += leftover->bytes;
        removed++;
    }
    if (removed > 0)
        log_info("removed files of ended sessions", "sessions=%zu bytes=%llu", removed,
                 (unsigned long long)bytes);
}

static void look_run(WorkerJob *job)
{
    Kept *kept = container_of(job, Kept, job);

    uint64_t began = clock_now();

    kept->result = leftovers_find(&kept->found, kept->all->paths->state_dir);
    kept->took = clock_now() - began;
}

static void look_done(WorkerJob *job)
{
    Kept *kept = container_of(job, Kept, job);

    kept->looking = false;
    kept->pause = MAX(SHARE * kept->took, SOON_NSEC);
    if (kept->result == 0) {
        leave_out_open(kept);
        remove_chosen(kept);
    }
    leftovers_deinit(&kept->found);
    set_timer(kept, kept->again ? kept->pause : REVIEW_NSEC);
    kept->again = false;
}

static void on_due(LoopTimer *timer)
{
    Kept *kept = container_of(timer, Kept, timer);

    kept->looking = worker_submit(kept->all->worker, &kept->job, look_run, look_done) == 0;
    if (!kept->looking)
        set_timer(kept, REVIEW_NSEC);
}

static void set_timer(Kept *kept, uint64_t after)
{
    loop_timer_set(kept->all->loop, &kept->timer, clock_now() + after, on_due);
}

Kept *kept_begin(const Sandboxes *all)
{
    Kept *kept = calloc(1, sizeof(*kept));

    if (!kept) {
        log_error("out of memory", "consequence=%s", "files of ended sessions are not removed");
        return NULL;
    }
    kept->all = all;
    kept->pause = SOON_NSEC;
    set_timer(kept, SOON_NSEC);
    return kept;
}

void kept_wake(Kept *kept)
{
    if (!kept)
        return;
    if (kept->looking)
        kept->again = true;
    else if (!loop_timer_is_set(&kept->timer) || kept->timer.due > clock_now() + kept->pause)
        set_timer(kept, kept->pause);
}

Kept *kept_end(Kept *kept)
{
    if (kept)
        loop_timer_cancel(&kept->timer);
    free(kept);
    return NULL;
}
