/* The ladder of one call: from its deadline, or from an interrupt, up to the point where it is killed. */
#pragma once

#include "proto/base/loop.h"

typedef enum LadderCause {
    LADDER_CAUSE_NONE,
    LADDER_CAUSE_DEADLINE,
    LADDER_CAUSE_INTERRUPT,
} LadderCause;

typedef enum LadderStep {
    LADDER_STEP_WAIT,     /* for the deadline */
    LADDER_STEP_ASK,      /* SIGINT */
    LADDER_STEP_ASK_MORE, /* SIGINT again, LADDER_SECOND_SIGINT after the first */
    LADDER_STEP_KILL,     /* LADDER_KILL after the first */
} LadderStep;

typedef struct Ladder Ladder;

struct Ladder {
    Loop *loop;
    LoopTimer timer;
    LadderStep step; /* the last one taken */
    LadderCause cause;
    bool paused;
    uint64_t left; /* nanoseconds until the deadline, while paused */
    void (*on_step)(Ladder *ladder, LadderStep step);
};

/* Waits for the deadline. 0 or -ENOMEM. */
int ladder_begin(Ladder *ladder, Loop *loop, uint64_t deadline, void (*on_step)(Ladder *, LadderStep));

/* Takes the first step now, unless it has been taken before. */
void ladder_interrupt(Ladder *ladder);

/* Between these two the deadline comes no nearer. An interrupt is not held up, nor the steps after the first.
 */
void ladder_pause(Ladder *ladder);
void ladder_resume(Ladder *ladder);

void ladder_end(Ladder *ladder);
