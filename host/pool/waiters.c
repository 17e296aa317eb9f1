/* Waiters for a spare of a template: these are made at once, whatever else runs. */
#include "host/pool/internal.h"
#include "proto/base/clock.h"

/* Kinds for which somebody waits at once. */
#define WAITED_FOR_MAX 8

size_t kind_count_waiters(const PoolKind *kind)
{
    size_t n = 0;

    for (const List *at = kind->waiters.next; at != &kind->waiters; at = at->next)
        n++;
    return n;
}

static PoolWaiter *take_first(PoolKind *kind)
{
    List *link = list_first(&kind->waiters);

    if (link)
        list_remove(link);
    return link ? list_entry(link, PoolWaiter, link) : NULL;
}

/* ---- making ---- */

static void tell(List *waiters, const PoolFailure *failure)
{
    PoolWaiter *waiter;

    list_foreach (waiter, waiters, PoolWaiter, link) {
        list_remove(&waiter->link);
        waiter->done(waiter, failure);
    }
}

void kind_feed(PoolKind *kind)
{
    PoolFailure failure = {.problem = PROBLEM_NULL};
    List failed = LIST_INIT(failed);

    for (size_t n = kind_count_warming(kind); n < MIN(kind_count_waiters(kind), MAX(kind->pool->limit, 1));)
        if (spare_start(kind, &failure.problem) < 0)
            list_append(&failed, &take_first(kind)->link);
        else
            n++;
    tell(&failed, &failure);
}

/* The others may still get theirs. */
void kind_disappoint(PoolKind *kind, const PoolFailure *failure)
{
    PoolWaiter *waiter = take_first(kind);

    if (!waiter)
        return;
    if (!kind->pool->stopped)
        kind_feed(kind);
    waiter->done(waiter, failure);
}

/* ---- serving ---- */

static PoolKind *find_served(Pool *pool)
{
    PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link)
        if (!list_empty(&kind->waiters) && kind_find_ready(kind))
            return kind;
    return NULL;
}

/* Serves one waiter at a time: its callback may change everything. */
static void on_serving(LoopTimer *timer)
{
    PoolKind *kind = find_served(container_of(timer, Pool, serving));
    PoolWaiter *waiter = kind ? take_first(kind) : NULL;

    if (!waiter)
        return;
    kind_serve(kind);
    kind_feed(kind);
    waiter->done(waiter, NULL);
}

void kind_serve(PoolKind *kind)
{
    Pool *pool = kind->pool;

    if (!pool->stopped && !list_empty(&kind->waiters))
        loop_timer_set(pool->sandboxes->loop, &pool->serving, clock_now(), on_serving);
}

/* ---- waiting ---- */

static size_t count_waited_for(const Pool *pool)
{
    const PoolKind *kind;
    size_t n = 0;

    list_foreach (kind, &pool->kinds, PoolKind, link)
        n += !list_empty(&kind->waiters);
    return n;
}

int pool_wait(Pool *pool, Template *tmpl, const SessionOptions *options, bool ephemeral, PoolWaiter *waiter,
              Problem *problem)
{
    PoolKind *kind;

    if (pool->stopped)
        return problem_set(problem, ERR_UNAVAILABLE, "the controller is shutting down");
    kind = kind_of(pool, options, ephemeral, tmpl);
    if (!kind)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    if (list_empty(&kind->waiters) && count_waited_for(pool) >= WAITED_FOR_MAX)
        return problem_set(problem, ERR_BUSY,
                           "sandboxes of %u templates are being made already; try again when one is ready",
                           WAITED_FOR_MAX);
    kind->claimed = clock_now();
    list_append(&kind->waiters, &waiter->link);
    if (kind_find_ready(kind))
        kind_serve(kind);
    else
        kind_feed(kind);
    return 0;
}

void pool_forget(Pool *pool, const Template *tmpl)
{
    PoolFailure failure = {.problem = PROBLEM_NULL};
    List waiters = LIST_INIT(waiters);
    PoolWaiter *waiter;
    PoolKind *kind;

    if (pool->stopped)
        return; /* its kinds are gone, or about to be */
    problem_set(&failure.problem, ERR_NO_SUCH_TEMPLATE, "the template '%s' was removed or replaced",
                tmpl->name);
    list_foreach (kind, &pool->kinds, PoolKind, link) {
        if (kind->template != tmpl)
            continue;
        while ((waiter = take_first(kind)))
            list_append(&waiters, &waiter->link);
        kind_free(kind);
    }
    tell(&waiters, &failure);
}
