#include "host/sandbox/courtesy.h"

#include <unistd.h>

#include "proto/base/clock.h"

/* A turn that has taken so long takes long. */
#define LONG_NSEC (20 * NSEC_PER_MSEC)
/* Interval at which a turn that takes long is looked at. */
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

static void set_timer(Courtesies *all, uint64_t due)
{
    loop_timer_set(all->loop, &all->timer, due, on_due);
}

static void step(Courtesy *courtesy, bool aside)
{
    if (courtesy->aside != aside && courtesy->ops->set_idle(courtesy, aside) == 0)
        courtesy->aside = aside;
}

static double part(const Courtesies *all)
{
    double processors = (double)sysconf(_SC_NPROCESSORS_ONLN);

    return MIN(1.0, processors / all->busy_count);
}

static void judge(Courtesy *courtesy, uint64_t now, uint64_t used)
{
    double got = (double)(used - courtesy->used);
    double whole = (double)(now - courtesy->looked) * part(courtesy->all);

    if (courtesy->aside && got < LITTLE * whole) {
        step(courtesy, false);
        courtesy->due = now + BACK_NSEC;
    } else if (!courtesy->aside && got > MUCH * whole) {
        step(courtesy, true);
    }
}

static void look(Courtesy *courtesy, uint64_t now)
{
    uint64_t used;

    courtesy->due = now + LOOK_NSEC;
    if (courtesy->ops->time(courtesy, &used) < 0)
        return;
    if (courtesy->looked == 0)
        step(courtesy, true);
    else
        judge(courtesy, now, used);
    courtesy->looked = now;
    courtesy->used = used;
}

/* Returns whether another sandbox was called lately. */
static bool is_courteous(const Courtesy *courtesy, uint64_t now)
{
    const Courtesies *all = courtesy->all;
    uint64_t wanted = all->caller == courtesy ? all->wanted_by_others : all->wanted;

    return wanted != 0 && now < wanted + WANTED_NSEC;
}

static void on_due(LoopTimer *timer)
{
    Courtesies *all = container_of(timer, Courtesies, timer);
    uint64_t now = clock_now(), next = UINT64_MAX;
    Courtesy *courtesy;

    list_foreach (courtesy, &all->busy, Courtesy, link) {
        if (!is_courteous(courtesy, now)) {
            step(courtesy, false);
            continue;
        }
        if (courtesy->due <= now)
            look(courtesy, now);
        next = MIN(next, courtesy->due);
    }
    if (next != UINT64_MAX)
        set_timer(all, next);
}

/* The first one of the others is looked at when it is due; that looks at the rest. */
static void wake(Courtesies *all, const Courtesy *caller)
{
    Courtesy *courtesy;

    if (loop_timer_is_set(&all->timer))
        return;
    list_foreach (courtesy, &all->busy, Courtesy, link)
        if (courtesy != caller) {
            set_timer(all, courtesy->due);
            return;
        }
}

void courtesy_wanted(Courtesy *courtesy)
{
    Courtesies *all = courtesy->all;

    if (all->caller != courtesy)
        all->wanted_by_others = all->wanted;
    all->caller = courtesy;
    all->wanted = clock_now();
    wake(all, courtesy);
}

void courtesy_began(Courtesy *courtesy)
{
    Courtesies *all = courtesy->all;

    courtesy_wanted(courtesy);
    list_append(&all->busy, &courtesy->link);
    all->busy_count++;
    courtesy->due = all->wanted + LONG_NSEC;
    courtesy->looked = 0;
}

static bool leave_busy(Courtesy *courtesy)
{
    if (list_empty(&courtesy->link))
        return false;
    list_remove(&courtesy->link);
    courtesy->all->busy_count--;
    return true;
}

void courtesy_ended(Courtesy *courtesy)
{
    if (leave_busy(courtesy))
        step(courtesy, false);
}

/* An earlier controller may have ended while it stood aside. */
void courtesy_adopted(Courtesy *courtesy)
{
    courtesy->aside = true;
    step(courtesy, false);
    courtesy->aside = false;
}

void courtesy_init(Courtesy *courtesy, Courtesies *all, const CourtesyOps *ops)
{
    courtesy->all = all;
    courtesy->ops = ops;
    list_init(&courtesy->link);
}

void courtesy_deinit(Courtesy *courtesy)
{
    Courtesies *all = courtesy->all;

    leave_busy(courtesy);
    if (all->caller == courtesy)
        all->caller = NULL;
}

void courtesies_init(Courtesies *all)
{
    list_init(&all->busy);
}

void courtesies_deinit(Courtesies *all)
{
    loop_timer_cancel(&all->timer);
}
