#include "host/sandbox/kept.h"

#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Time between reviews, and from the end of a session to the next at the earliest. */
#define REVIEW_NSEC (600 * NSEC_PER_SEC)
#define SOON_NSEC   NSEC_PER_SEC
/* Looking is to take no more than that share of the time. */
#define SHARE 20

struct Kept {
    const Sandboxes *all;
    LoopTimer timer;
    bool looking;
    bool again;            /* a session has ended meanwhile */
    uint64_t began, pause; /* nanoseconds */
};

static void set_timer(Kept *kept, uint64_t after);

static void on_reviewed(void *userdata, KeeperAnswer *answer)
{
    Kept *kept = userdata;
    uint64_t took = clock_now() - kept->began;

    kept->looking = false;
    kept->pause = MAX(SHARE * took, SOON_NSEC);
    if (answer->body && answer->body->as_REVIEW.sessions > 0)
        log_info("removed files of ended sessions", "sessions=%llu bytes=%llu",
                 (unsigned long long)answer->body->as_REVIEW.sessions,
                 (unsigned long long)answer->body->as_REVIEW.bytes);
    set_timer(kept, kept->again ? kept->pause : REVIEW_NSEC);
    kept->again = false;
}

static void on_due(LoopTimer *timer)
{
    Kept *kept = container_of(timer, Kept, timer);

    const Options *options = kept->all->options;
    const JobReview review = {.keep_for = options->keep_for, .keep_size = options->keep_size};

    kept->began = clock_now();
    kept->looking = keeper_ask(kept->all->keeper, NOBODYS, JOB_REVIEW, &review, on_reviewed, kept) == 0;
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
