/* What checkpoints hold, and which of them have to go. */
#include <string.h>

#include "guest/supervisor/checkpoint/checkpoint.h"
#include "guest/supervisor/process/processes.h"
#include "proto/base/clock.h"

/* Seconds without measuring that follow on each second of it, unless someone asks. */
#define MEASURE_RATIO 50u

/* The memory of a dropped checkpoint counts as free after this. */
#define END_LIMIT NSEC_PER_SEC

/* Memory that copies alone hold, as far as it can be told. The sum of private pages is too small, as a page
 * that two of them share is private to neither. The sum of shares, less all that living processes have, is
 * exact while one of those lives, and never too much. */
static uint64_t held(Checkpoints *set, uint64_t private, uint64_t share)
{
    const Checkpoint *birth = checkpoints_birth(set);
    Footprint living = {0};

    set->add_living(set, &living);
    if (birth && birth->pid > 0)
        footprint_add_opened(&living, birth->memory);
    share += living.share;
    return MAX(private, share > living.all ? share - living.all : 0);
}

uint64_t checkpoints_measure(Checkpoints *set)
{
    uint64_t begun = clock_now(), ended, private = 0, share = 0;
    Checkpoint *checkpoint;

    list_foreach (checkpoint, &set->all, Checkpoint, link) {
        Footprint footprint = {0};

        if (checkpoint->kind == CHECKPOINT_BIRTH || checkpoint->pid <= 0 ||
            footprint_add_opened(&footprint, checkpoint->memory) < 0)
            continue;
        checkpoint->private_bytes = footprint.private;
        private += footprint.private;
        share += footprint.share;
    }
    private = held(set, private, share);
    ended = clock_now();
    set->next_measure = ended + MEASURE_RATIO * (ended - begun);
    return private;
}

static Checkpoint *oldest(const Checkpoints *set, const Checkpoint *except, CheckpointKind kind)
{
    Checkpoint *checkpoint;

    list_foreach (checkpoint, (List *)&set->all, Checkpoint, link)
        if (!checkpoint_is_pending(checkpoint) && checkpoint != except && checkpoint->kind == kind)
            return checkpoint;
    return NULL;
}

static bool evict(Checkpoints *set, const Checkpoint *newest, const char *why)
{
    Checkpoint *checkpoint = oldest(set, newest, CHECKPOINT_AUTOMATIC);
    pid_t pid;

    if (!checkpoint)
        checkpoint = oldest(set, newest, CHECKPOINT_BY_HAND);
    if (!checkpoint)
        return false;
    pid = checkpoint->pid;
    buf_append(&set->evicted, &checkpoint->number, sizeof(checkpoint->number));
    checkpoint_drop(checkpoint, why);
    processes_await_end(pid, END_LIMIT);
    return true;
}

void checkpoints_make_room(Checkpoints *set, const Checkpoint *newest, bool now)
{
    bool more = true;

    while (more && set->kept > LIMIT_CHECKPOINTS)
        more = evict(set, newest, "there were more checkpoints than a session may have");
    if (set->budget == 0 || set->kept < 2 || (!now && clock_now() < set->next_measure))
        return;
    while (more && checkpoints_measure(set) > set->budget)
        more = evict(set, newest, "the checkpoints held more memory than they may");
}
