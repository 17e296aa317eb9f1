/* Courtesy: sandboxes that compute for long step aside for those that are called.
 *
 * A process that is woken while another one loops on its processor often waits for the scheduler's next tick,
 * some milliseconds and much longer than most calls take; it gets the processor at once where the one that
 * loops is in an idle group. So a sandbox whose turn has taken a while is made one (EngineOps.set_idle) as
 * long as others begin turns. It is taken back when the turn ends, when nobody else has begun one for a
 * second, and when it gets little of a processor that way: the host may be busy with something else, or it
 * may be waiting for something itself. Where the engine cannot do it nothing happens.
 *
 * What a container does beside its turns is left alone, and so is a sandbox while no other one is called. */
#pragma once

#include "proto/base/list.h"
#include "proto/base/loop.h"

typedef struct Courtesy Courtesy;
typedef struct Courtesies Courtesies;

/* Operations on the sandbox that has the courtesy. 0 or negative. */
typedef struct CourtesyOps {
    int (*set_idle)(Courtesy *courtesy, bool idle);
    int (*time)(const Courtesy *courtesy, uint64_t *ret_nsec); /* on a processor */
} CourtesyOps;

/* Courtesy of one sandbox. Times are those of clock_now(). */
struct Courtesy {
    Courtesies *all;
    const CourtesyOps *ops;
    List link;       /* Courtesies.busy; itself when it runs nothing */
    uint64_t due;    /* when it is to be looked at */
    uint64_t looked; /* when it was last, 0: not in this turn */
    uint64_t used;   /* nanoseconds on a processor until then */
    bool aside;
};

/* State that all sandboxes share. */
struct Courtesies {
    Loop *loop; /* set before the first of them */
    LoopTimer timer;
    List busy; /* sandboxes that run a turn, the longest first */
    unsigned busy_count;
    const Courtesy *caller;    /* wanted last; only to be compared */
    uint64_t wanted;           /* when */
    uint64_t wanted_by_others; /* when another one was, at last */
};

void courtesies_init(Courtesies *all);
void courtesies_deinit(Courtesies *all);

void courtesy_init(Courtesy *courtesy, Courtesies *all, const CourtesyOps *ops);
void courtesy_deinit(Courtesy *courtesy);
void courtesy_wanted(Courtesy *courtesy); /* its sandbox is about to work for somebody */
void courtesy_began(Courtesy *courtesy);  /* a turn, which is wanted */
void courtesy_ended(Courtesy *courtesy);  /* the turn, if one had begun */
void courtesy_adopted(Courtesy *courtesy);
