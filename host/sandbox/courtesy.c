#include "host/sandbox/courtesy.h"

#include <unistd.h>

#include "host/sandbox/sandbox.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* A turn that has taken so long takes long. */
#define LONG_NSEC (20 * NSEC_PER_MSEC)
/* How often one that takes long is looked at. */
#define LOOK_NSEC (200 * NSEC_PER_MSEC)
/* One that comes back since it gets little is left alone for so long. */
#define BACK_NSEC NSEC_PER_SEC
/* Who has been called will soon be called again. */
#define WANTED_NSEC NSEC_PER_SEC

/* Of its part when all that are busy share the processors, at most one: with less than the first it comes
 * back, with more than the second it steps aside again. */
#define LITTLE 0.20
#define MUCH   0.25

static Courtesies *all_of(const Sandbox *sandbox)
{
    return &sandbox->all->courtesies;
}

static void on_due(LoopTimer *timer);

static void set_timer(Courtesies *all, uint64_t due)
{
    loop_timer_set(container_of(all, Sandboxes, courtesies)->loop, &all->timer, due, on_due);
}

static void step(Sandbox *sandbox, bool aside)
{
    Courtesy *courtesy = &sandbox->courtesy;

    if (courtesy->aside == aside || sandbox->all->engine->ops->set_idle(sandbox->container, aside) < 0)
        return;
    courtesy->aside = aside;
    log_debug(aside ? "session steps aside" : "session is back", "session=%s", sandbox->name);
}

static double part(const Courtesies *all)
{
    double processors = (double)sysconf(_SC_NPROCESSORS_ONLN);

    return MIN(1.0, processors / all->busy_count);
}

static void judge(Sandbox *sandbox, uint64_t now, uint64_t used)
{
    Courtesy *courtesy = &sandbox->courtesy;
    double got = (double)(used - courtesy->used);
    double whole = (double)(now - courtesy->looked) * part(all_of(sandbox));

    if (courtesy->aside && got < LITTLE * whole) {
        step(sandbox, false);
        courtesy->due = now + BACK_NSEC;
    } else if (!courtesy->aside && got > MUCH * whole) {
        step(sandbox, true);
    }
}

static void look(Sandbox *sandbox, uint64_t now)
{
    Courtesy *courtesy = &sandbox->courtesy;
    uint64_t used;

    courtesy->due = now + LOOK_NSEC;
    if (sandbox->all->engine->ops->time(sandbox->container, &used) < 0)
        return;
    if (courtesy->looked == 0)
        step(sandbox, true);
    else
        judge(sandbox, now, used);
    courtesy->looked = now;
    courtesy->used = used;
}

/* Whether another one was lately. */
static bool is_courteous(const Sandbox *sandbox, uint64_t now)
{
    const Courtesies *all = all_of(sandbox);
    uint64_t wanted = all->caller == sandbox ? all->wanted_by_others : all->wanted;

    return wanted != 0 && now < wanted + WANTED_NSEC;
}

static void on_due(LoopTimer *timer)
{
    Courtesies *all = container_of(timer, Courtesies, timer);
    uint64_t now = clock_now(), next = UINT64_MAX;
    Courtesy *courtesy;

    list_foreach (courtesy, &all->busy, Courtesy, link) {
        Sandbox *sandbox = container_of(courtesy, Sandbox, courtesy);

        if (!is_courteous(sandbox, now)) {
            step(sandbox, false);
            continue;
        }
        if (courtesy->due <= now)
            look(sandbox, now);
        next = MIN(next, courtesy->due);
    }
    if (next != UINT64_MAX)
        set_timer(all, next);
}

/* The first one of the others is looked at when it is due; that looks at the rest. */
static void wake(Courtesies *all, const Sandbox *caller)
{
    Courtesy *courtesy;

    if (loop_timer_is_set(&all->timer))
        return;
    list_foreach (courtesy, &all->busy, Courtesy, link)
        if (courtesy != &caller->courtesy) {
            set_timer(all, courtesy->due);
            return;
        }
}

void courtesy_wanted(Sandbox *sandbox)
{
    Courtesies *all = all_of(sandbox);

    if (all->caller != sandbox)
        all->wanted_by_others = all->wanted;
    all->caller = sandbox;
    all->wanted = clock_now();
    wake(all, sandbox);
}

void courtesy_began(Sandbox *sandbox)
{
    Courtesies *all = all_of(sandbox);

    courtesy_wanted(sandbox);
    list_append(&all->busy, &sandbox->courtesy.link);
    all->busy_count++;
    sandbox->courtesy.due = all->wanted + LONG_NSEC;
    sandbox->courtesy.looked = 0;
}

static bool leave_busy(Sandbox *sandbox)
{
    if (list_empty(&sandbox->courtesy.link))
        return false;
    list_remove(&sandbox->courtesy.link);
    all_of(sandbox)->busy_count--;
    return true;
}

void courtesy_ended(Sandbox *sandbox)
{
    if (leave_busy(sandbox))
        step(sandbox, false);
}

/* An earlier controller may have ended while it stood aside. */
void courtesy_adopted(Sandbox *sandbox)
{
    sandbox->courtesy.aside = true;
    step(sandbox, false);
    sandbox->courtesy.aside = false;
}

void courtesy_init(Sandbox *sandbox)
{
    list_init(&sandbox->courtesy.link);
}

void courtesy_deinit(Sandbox *sandbox)
{
    Courtesies *all = all_of(sandbox);

    leave_busy(sandbox);
    if (all->caller == sandbox)
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
