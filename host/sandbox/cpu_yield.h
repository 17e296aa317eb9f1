/* CpuYield: sandboxes that compute for long step aside for those that are called.
 *
 * A process that is woken while another one loops on its processor often waits for the scheduler's next tick,
 * some milliseconds and much longer than most calls take; it gets the processor at once where the one that
 * loops is in an idle group. So a sandbox whose exclusive request has taken a while is put into one
 * (EngineOps.set_idle) as long as others begin requests. It is taken back when the request ends, when nobody
 * else has begun one for a second, and when it gets little of a processor that way: the host may be busy with
 * something else, or it may be waiting for something itself. Where the engine cannot do it nothing happens.
 *
 * What a container does beside its requests is left alone, and so is a sandbox while no other one is called.
 */
#pragma once

#include "proto/base/list.h"
#include "proto/base/loop.h"

typedef struct CpuYield CpuYield;
typedef struct CpuYields CpuYields;

/* Operations on the sandbox that it is part of. 0 or negative. */
typedef struct CpuYieldOps {
    int (*set_idle)(CpuYield *cpu_yield, bool idle);
    int (*time)(const CpuYield *cpu_yield, uint64_t *ret_nsec); /* on a processor */
} CpuYieldOps;

/* State of one sandbox. Times are those of clock_now(). */
struct CpuYield {
    CpuYields *all;
    const CpuYieldOps *ops;
    List link;        /* CpuYields.busy; itself when it runs nothing */
    uint64_t due;     /* when it is to be looked at */
    uint64_t sampled; /* when it was last, 0: not during this request */
    uint64_t used;    /* nanoseconds on a processor until then */
    bool yields;
};

/* State that all sandboxes share. */
struct CpuYields {
    Loop *loop; /* set before the first of them */
    LoopTimer timer;
    List busy; /* sandboxes that run a request, the longest first */
    unsigned busy_count;
    const CpuYield *caller;    /* wanted last; only to be compared */
    uint64_t wanted;           /* when */
    uint64_t wanted_by_others; /* when another one was, at last */
};

void cpu_yields_init(CpuYields *all);
void cpu_yields_deinit(CpuYields *all);

void cpu_yield_init(CpuYield *cpu_yield, CpuYields *all, const CpuYieldOps *ops);
void cpu_yield_deinit(CpuYield *cpu_yield);
void cpu_yield_wanted(CpuYield *cpu_yield); /* its sandbox is about to work for somebody */
void cpu_yield_began(CpuYield *cpu_yield);  /* a request, which is wanted */
void cpu_yield_ended(CpuYield *cpu_yield);  /* the request, if one had begun */
void cpu_yield_adopted(CpuYield *cpu_yield);
