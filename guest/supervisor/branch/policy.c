/* When checkpoints are taken without anyone asking. Nothing here costs a system call for each call that runs.
 */
#include <inttypes.h>

#include "guest/supervisor/branch/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* The pause between calls after which a state is kept. */
#define QUIET (2 * NSEC_PER_MSEC)

/* The delay while something else is to be done with the branch. What is done with others holds up none. */
#define LATER (50 * NSEC_PER_MSEC)

/* The share of the time that checkpoints may take where calls follow each other without a pause: one part in
 * so many. It is smaller where calls are shorter than a checkpoint, as many of them would wait for one. */
#define BUSY_RATIO       40u
#define BUSY_RATIO_SHORT 100u

/* The bound on what a fatal call takes with it, whichever is more, whatever a checkpoint costs. */
#define LOST_CALLS 5u
#define LOST_TIME  (50 * NSEC_PER_MSEC)

/* The first checkpoint is taken to cost this. */
#define COST_UNKNOWN NSEC_PER_MSEC

#define PAUSE_MINIMUM NSEC_PER_SEC
#define PAUSE_MAXIMUM (60 * NSEC_PER_SEC)

CheckpointMode policy_mode(const Branch *branch)
{
    return branch_is_foreign(branch) ? CHECKPOINT_OFF : branch->set->mode;
}

/* Returns whether a checkpoint would be worth while and could be had. */
static bool may_take(const Branch *branch, uint64_t now)
{
    return policy_mode(branch) != CHECKPOINT_OFF && branch_is_ready(branch) && !branch_is_exact(branch) &&
           !branch->interpreter.asked && now >= branch->policy.retry;
}

static void take_one(Branch *branch)
{
    Reason why;

    if (branch_freeze(branch, CHECKPOINT_AUTOMATIC, "", why) < 0)
        policy_on_failure(branch, why);
}

void policy_protect(Branch *branch)
{
    if (may_take(branch, clock_now()))
        take_one(branch);
}

static void on_quiet(Alarm *alarm)
{
    Branch *branch = container_of(alarm, Branch, policy.quiet);
    uint64_t now = clock_now(), quiet = branch->policy.last_end + QUIET;

    if (branch->occupied || !may_take(branch, now))
        return;
    if (now < quiet)
        alarm_set(alarm, quiet);
    else if (branch->set->events->is_wanted(branch))
        alarm_set(alarm, now + LATER);
    else
        take_one(branch);
}

int policy_init(Branch *branch)
{
    return alarm_open(&branch->policy.quiet, branch->set->loop, on_quiet);
}

void policy_deinit(Branch *branch)
{
    alarm_close(&branch->policy.quiet);
}

void policy_on_quiet(Branch *branch, uint64_t now)
{
    Policy *policy = &branch->policy;

    policy->last_end = now;
    if (policy_mode(branch) == CHECKPOINT_AUTO && !policy->quiet.set)
        alarm_set(&policy->quiet, now + QUIET);
}

static uint64_t last_cost(const Policy *policy)
{
    return policy->cost > 0 ? policy->cost : COST_UNKNOWN;
}

void policy_on_cost(Branch *branch, uint64_t cost)
{
    branch->policy.cost = MIN(cost, 2 * last_cost(&branch->policy));
}

static bool is_worth_its_cost(const Branch *branch)
{
    const Policy *policy = &branch->policy;
    uint64_t cost = last_cost(policy);
    bool are_short = policy->busy < branch->calls * cost;

    return policy->busy > (are_short ? BUSY_RATIO_SHORT : BUSY_RATIO) * cost;
}

static bool is_bound_reached(const Branch *branch)
{
    return branch->calls > LOST_CALLS && branch->policy.busy > LOST_TIME;
}

void policy_on_run(Branch *branch, uint64_t now)
{
    /* Without a base there is nothing to go back to, however short the time. */
    bool was_quiet = now >= branch->policy.last_end + QUIET; /* and the alarm found something else to do */
    bool due = policy_mode(branch) == CHECKPOINT_ALWAYS || !branch->base || branch->policy.exposed ||
               was_quiet || is_bound_reached(branch) || is_worth_its_cost(branch);

    if (due && may_take(branch, now))
        take_one(branch);
}

void policy_on_taken(Branch *branch)
{
    branch->policy.busy = 0;
    branch->policy.exposed = false;
}

void policy_on_gone(Branch *branch)
{
    branch->policy.exposed = true;
}

void policy_on_failure(Branch *branch, const char *why)
{
    Policy *policy = &branch->policy;

    reason_set(policy->trouble, "no checkpoint could be taken: %s", why);
    log_warn("no checkpoint", "branch=%" PRIu64 " reason=%s", branch->number, why);
    policy->pause = MIN(MAX(policy->pause * 2, PAUSE_MINIMUM), PAUSE_MAXIMUM);
    policy->retry = clock_now() + policy->pause;
}

void policy_on_success(Branch *branch)
{
    branch->policy.retry = branch->policy.pause = 0;
    branch->policy.trouble[0] = '\0';
}

void policy_forget(Branch *branch)
{
    policy_on_success(branch);
    policy_on_taken(branch);
}

void policy_why_none(const Branch *branch, Reason ret)
{
    bool off = policy_mode(branch) == CHECKPOINT_OFF && !branch->policy.trouble[0];

    if (branch_is_foreign(branch))
        reason_set(ret, "there are no checkpoints of %s", branch->place.language);
    else
        reason_set(ret, "%s", off ? "checkpoints are off" : branch->policy.trouble);
}
