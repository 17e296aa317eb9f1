#include "guest/supervisor/call/ladder.h"

#include "proto/base/clock.h"
#include "proto/limits.h"

static void on_due(LoopTimer *timer);

static void climb(Ladder *ladder)
{
    /* Until the next step, from when this one is taken: where the supervisor itself was held up, the call has
     * its time all the same. */
    static const double pause[] = {
        [LADDER_STEP_ASK] = LADDER_SECOND_SIGINT,
        [LADDER_STEP_ASK_MORE] = LADDER_KILL - LADDER_SECOND_SIGINT,
    };

    ladder->step++;
    /* Setting a timer of this ladder again needs no memory: it was set before. */
    if (ladder->step < LADDER_STEP_KILL)
        loop_timer_set(ladder->loop, &ladder->timer, clock_now() + clock_from_seconds(pause[ladder->step]),
                       on_due);
    ladder->on_step(ladder, ladder->step);
}

static void on_due(LoopTimer *timer)
{
    Ladder *ladder = container_of(timer, Ladder, timer);

    if (ladder->cause == LADDER_CAUSE_NONE)
        ladder->cause = LADDER_CAUSE_DEADLINE;
    climb(ladder);
}

int ladder_begin(Ladder *ladder, Loop *loop, uint64_t deadline, void (*on_step)(Ladder *, LadderStep))
{
    *ladder = (Ladder){.loop = loop, .on_step = on_step};
    return loop_timer_set(loop, &ladder->timer, deadline, on_due);
}

void ladder_interrupt(Ladder *ladder)
{
    if (ladder->step != LADDER_STEP_WAIT)
        return;
    ladder->cause = LADDER_CAUSE_INTERRUPT;
    climb(ladder);
}

void ladder_pause(Ladder *ladder)
{
    uint64_t now;

    if (ladder->step != LADDER_STEP_WAIT || ladder->paused)
        return;
    now = clock_now();
    ladder->left = ladder->timer.due > now ? ladder->timer.due - now : 0;
    ladder->paused = true;
    /* The timer is not cancelled, so that it keeps its memory. */
    loop_timer_set(ladder->loop, &ladder->timer, UINT64_MAX, on_due);
}

void ladder_resume(Ladder *ladder)
{
    if (ladder->step != LADDER_STEP_WAIT || !ladder->paused)
        return;
    ladder->paused = false;
    loop_timer_set(ladder->loop, &ladder->timer, clock_now() + ladder->left, on_due);
}

void ladder_end(Ladder *ladder)
{
    if (ladder->loop)
        loop_timer_cancel(&ladder->timer);
}
