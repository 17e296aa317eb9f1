#include "host/sandbox/cpu_yield.h"

#include <unistd.h>

#include "proto/base/clock.h"

/* A request that has taken so long takes long. */
#define LONG_NSEC (20 * NSEC_PER_MSEC)
/* Interval at which a request that takes long is looked at. */
#define LOOK_NSEC (200 * NSEC_PER_MSEC)
/* Time for which a sandbox that came back because it gets little is left alone. */
#define BACK_NSEC NSEC_PER_SEC
/* Time after a call within which the next one is expected. */
#define WANTED_NSEC NSEC_PER_SEC

/* Shares of what a busy sandbox gets when all that are busy share the processors, one processor at most: with
 * less than LITTLE it comes back, with more than MUCH it steps aside again. */
#define LITTLE 0.20
#define MUCH   0.25

static void on_due(LoopTimer *timer);

static void set_timer(CpuYields *all, uint64_t due)
{
    loop_timer_set(all->loop, &all->timer, due, on_due);
}

static void step(CpuYield *cpu_yield, bool yields)
{
    if (cpu_yield->yields != yields && cpu_yield->ops->set_idle(cpu_yield, yields) == 0)
        cpu_yield->yields = yields;
}

static double part(const CpuYields *all)
{
    double processors = (double)sysconf(_SC_NPROCESSORS_ONLN);

    return MIN(1.0, processors / all->busy_count);
}

static void judge(CpuYield *cpu_yield, uint64_t now, uint64_t used)
{
    double got = (double)(used - cpu_yield->used);
    double whole = (double)(now - cpu_yield->sampled) * part(cpu_yield->all);

    if (cpu_yield->yields && got < LITTLE * whole) {
        step(cpu_yield, false);
        cpu_yield->due = now + BACK_NSEC;
    } else if (!cpu_yield->yields && got > MUCH * whole) {
        step(cpu_yield, true);
    }
}

static void look(CpuYield *cpu_yield, uint64_t now)
{
    uint64_t used;

    cpu_yield->due = now + LOOK_NSEC;
    if (cpu_yield->ops->time(cpu_yield, &used) < 0)
        return;
    if (cpu_yield->sampled == 0)
        step(cpu_yield, true);
    else
        judge(cpu_yield, now, used);
    cpu_yield->sampled = now;
    cpu_yield->used = used;
}

/* Returns whether another sandbox was called lately. */
static bool is_due_to_yield(const CpuYield *cpu_yield, uint64_t now)
{
    const CpuYields *all = cpu_yield->all;
    uint64_t wanted = all->caller == cpu_yield ? all->wanted_by_others : all->wanted;

    return wanted != 0 && now < wanted + WANTED_NSEC;
}

static void on_due(LoopTimer *timer)
{
    CpuYields *all = container_of(timer, CpuYields, timer);
    uint64_t now = clock_now(), next = UINT64_MAX;
    CpuYield *cpu_yield;

    list_foreach (cpu_yield, &all->busy, CpuYield, link) {
        if (!is_due_to_yield(cpu_yield, now)) {
            step(cpu_yield, false);
            continue;
        }
        if (cpu_yield->due <= now)
            look(cpu_yield, now);
        next = MIN(next, cpu_yield->due);
    }
    if (next != UINT64_MAX)
        set_timer(all, next);
}

/* The first one of the others is looked at when it is due; that looks at the rest. */
static void wake(CpuYields *all, const CpuYield *caller)
{
    CpuYield *cpu_yield;

    if (loop_timer_is_set(&all->timer))
        return;
    list_foreach (cpu_yield, &all->busy, CpuYield, link)
        if (cpu_yield != caller) {
            set_timer(all, cpu_yield->due);
            return;
        }
}

void cpu_yield_wanted(CpuYield *cpu_yield)
{
    CpuYields *all = cpu_yield->all;

    if (all->caller != cpu_yield)
        all->wanted_by_others = all->wanted;
    all->caller = cpu_yield;
    all->wanted = clock_now();
    wake(all, cpu_yield);
}

void cpu_yield_began(CpuYield *cpu_yield)
{
    CpuYields *all = cpu_yield->all;

    cpu_yield_wanted(cpu_yield);
    list_append(&all->busy, &cpu_yield->link);
    all->busy_count++;
    cpu_yield->due = all->wanted + LONG_NSEC;
    cpu_yield->sampled = 0;
}

static bool leave_busy(CpuYield *cpu_yield)
{
    if (list_empty(&cpu_yield->link))
        return false;
    list_remove(&cpu_yield->link);
    cpu_yield->all->busy_count--;
    return true;
}

void cpu_yield_ended(CpuYield *cpu_yield)
{
    if (leave_busy(cpu_yield))
        step(cpu_yield, false);
}

/* An earlier controller may have ended while it stood aside. */
void cpu_yield_adopted(CpuYield *cpu_yield)
{
    cpu_yield->yields = true;
    step(cpu_yield, false);
    cpu_yield->yields = false;
}

void cpu_yield_init(CpuYield *cpu_yield, CpuYields *all, const CpuYieldOps *ops)
{
    cpu_yield->all = all;
    cpu_yield->ops = ops;
    list_init(&cpu_yield->link);
}

void cpu_yield_deinit(CpuYield *cpu_yield)
{
    CpuYields *all = cpu_yield->all;

    leave_busy(cpu_yield);
    if (all->caller == cpu_yield)
        all->caller = NULL;
}

void cpu_yields_init(CpuYields *all)
{
    list_init(&all->busy);
}

void cpu_yields_deinit(CpuYields *all)
{
    loop_timer_cancel(&all->timer);
}
