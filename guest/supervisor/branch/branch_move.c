/* The states of a branch, by the table in branch_states.def. */
#include <assert.h>
#include <inttypes.h>

#include "guest/supervisor/branch/branch.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static const struct {
    const char *name;
    uint64_t seconds;
    const char *late;
} states[] = {
#define BRANCH_STATE(state, seconds, late, awaits) {#state, seconds, late},
#include "guest/supervisor/branch/branch_states.def"
};

/* The state after an event, and 1; 0: none. */
static const uint8_t moves[ARRAY_SIZE(states)][BRANCH_ON_CLOSED + 1] = {
#define BRANCH_MOVE(from, event, to) [BRANCH_##from][BRANCH_ON_##event] = BRANCH_##to + 1,
#include "guest/supervisor/branch/branch_states.def"
};

static void on_limit_due(LoopTimer *timer)
{
    Branch *branch = container_of(timer, Branch, limit);

    branch_lose(branch, states[branch->state].late);
}

/* Begins the limit of its state. All copies that a recovery tries have one limit together. */
static int limit_state(Branch *branch)
{
    uint64_t end = clock_now() + states[branch->state].seconds * NSEC_PER_SEC;

    if (branch->state == BRANCH_COPYING)
        end = MIN(end, branch->recovery.end);
    return loop_timer_set(branch->set->loop, &branch->limit, end, on_limit_due);
}

static BranchState state_after(Branch *branch, BranchEvent event)
{
    unsigned next = moves[branch->state][event];

    if (next > 0)
        return (BranchState)(next - 1);
    log_error("a branch has made a move that there is not", "branch=%" PRIu64 " state=%s event=%d",
              branch->number, states[branch->state].name, (int)event);
    assert(!"a move that there is not");
    reason_set(branch->why, "the supervisor made a mistake");
    branches_changed(branch->set);
    return BRANCH_KILLING;
}

int branch_move(Branch *branch, BranchEvent event)
{
    branch->state = state_after(branch, event);
    loop_timer_cancel(&branch->limit);
    return states[branch->state].seconds > 0 ? limit_state(branch) : 0;
}
