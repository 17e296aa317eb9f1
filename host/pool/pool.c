#include "host/pool/pool.h"

#include <errno.h>
#include <stdio.h>

#include "host/pool/internal.h"
#include "proto/base/base.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Nothing has run for so long before a spare is made, so that one is not made between two calls of a client
 * that has more to ask. */
#define QUIET_NSEC (250 * NSEC_PER_MSEC)
/* After that it is made although something runs. */
#define PATIENCE_NSEC (10 * NSEC_PER_SEC)
/* Interval at which targets and the host's memory are looked at. */
#define REVIEW_NSEC (30 * NSEC_PER_SEC)
/* A target goes down after so long without a session. */
#define EASE_NSEC (60 * NSEC_PER_SEC)
/* A kind is not in use after so long without a session, that of the defaults excepted. */
#define KIND_NSEC (600 * NSEC_PER_SEC)
/* No spares are made for so long where the host had no room for a session, or its memory is short. */
#define YIELD_NSEC (60 * NSEC_PER_SEC)
/* The pause after a spare that could not be made, or ended; it doubles each time. */
#define PAUSE_NSEC    NSEC_PER_SEC
#define PAUSE_DOUBLES 6u
#define LIVED_NSEC    (60 * NSEC_PER_SEC) /* the end of one that lived so long is the first again */

static void wake(Pool *pool);
static void make_for_waiters(PoolKind *kind);
static void serve_waiters(PoolKind *kind);
static size_t count_waiters(const PoolKind *kind);

/* ---- the host's memory ---- */

uint64_t memory_available(void)
{
    unsigned long long kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    char line[128];
    bool found = false;

    while (file && !found && fgets(line, sizeof(line), file))
        found = sscanf(line, "MemAvailable: %llu kB", &kib) == 1;
    if (file)
        fclose(file);
    return found ? kib << 10 : UINT64_MAX;
}

/* ---- making ---- */

static size_t count(const Pool *pool, SandboxState state)
{
    const Sandbox *sandbox;
    size_t n = 0;

    list_foreach (sandbox, &pool->sandboxes->list, Sandbox, link)
        n += sandbox->state == state;
    return n;
}

static bool is_quiet(const Pool *pool, uint64_t now)
{
    const Sandbox *sandbox;

    list_foreach (sandbox, &pool->sandboxes->list, Sandbox, link)
        if (sandbox->root &&
            (sandbox->state < SANDBOX_READY || sandbox_is_busy(sandbox) || now - sandbox->used < QUIET_NSEC))
            return false;
    return true;
}

/* The pauses grow, and it is said once. */
static void note_failure(PoolKind *kind, const char *reason)
{
    if (kind->failures == 0)
        log_warn("spare container failed", "reason=%s", reason);
    kind->not_before = clock_now() + (PAUSE_NSEC << MIN(kind->failures, PAUSE_DOUBLES));
    kind->failures++;
    wake(kind->pool);
}

static void make_one(PoolKind *kind)
{
    Problem problem = PROBLEM_NULL;

    if (spare_start(kind, &problem) < 0)
        note_failure(kind, problem.text);
}

/* Returns whether the host has room for a session of this kind: without it there is none for the kind's
 * spares, for a while. */
static bool has_memory(PoolKind *kind, uint64_t now)
{
    if (memory_available() >= kind->options.memory)
        return true;
    log_debug("no memory for a spare container", "wanted=%llu", (unsigned long long)kind->options.memory);
    kind->not_before = now + YIELD_NSEC;
    return false;
}

/* Returns whether a spare of the same sort is being made. The setup code of a template may take minutes, for
 * which the others do not wait. */
static bool is_occupied(const Pool *pool, bool of_template)
{
    const PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link)
        if ((kind->template != NULL) == of_template && kind_count_warming(kind) > 0)
            return true;
    return false;
}

/* In a pod the spare becomes its session, and there is no other. */
static PoolKind *wanted(const Pool *pool, uint64_t now)
{
    const bool occupied[] = {is_occupied(pool, false), is_occupied(pool, true)};
    PoolKind *kind;

    if (pool->sandboxes->engine->ops->single && !list_empty(&pool->sandboxes->list))
        return NULL;
    list_foreach (kind, &pool->kinds, PoolKind, link)
        if (kind_count(kind) < kind->target && kind->not_before <= now && !occupied[kind->template != NULL])
            return kind;
    return NULL;
}

static void make_if_wanted(Pool *pool, uint64_t now)
{
    PoolKind *kind = wanted(pool, now);

    if (!kind) {
        pool->wanting = 0;
        return;
    }
    if (pool->wanting == 0)
        pool->wanting = now;
    if (!is_quiet(pool, now) && now - pool->wanting < PATIENCE_NSEC)
        return;
    pool->wanting = 0;
    if (has_memory(kind, now))
        make_one(kind);
}

/* ---- reviewing ---- */

static void review(PoolKind *kind, uint64_t now)
{
    bool short_of_memory = kind_count(kind) > 0 && memory_available() < kind->options.memory / 4;

    if (kind->target > kind->base && now - MAX(kind->claimed, kind->eased) >= EASE_NSEC) {
        kind->target = MAX(kind->base, kind->target / 2);
        kind->eased = now;
    }
    if (short_of_memory) {
        log_info("spare containers ended", "reason=%s", "the host is short of memory");
        kind->not_before = now + YIELD_NSEC;
    }
    kind_trim(kind, MAX(short_of_memory ? 0 : kind->target, count_waiters(kind)));
    if (!kind->standard && list_empty(&kind->waiters) && now - kind->claimed >= KIND_NSEC)
        kind_free(kind);
}

static uint64_t next_due(const Pool *pool, uint64_t now)
{
    uint64_t due = now + REVIEW_NSEC;
    const PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link)
        if (kind_count(kind) < kind->target)
            due = MIN(due, MAX(now + QUIET_NSEC, kind->not_before));
    return due;
}

static void on_due(LoopTimer *timer)
{
    Pool *pool = container_of(timer, Pool, timer);
    uint64_t now = clock_now();
    PoolKind *kind;

    if (now - pool->reviewed >= REVIEW_NSEC) {
        pool->reviewed = now;
        list_foreach (kind, &pool->kinds, PoolKind, link)
            review(kind, now);
    }
    make_if_wanted(pool, now);
    loop_timer_set(pool->sandboxes->loop, timer, next_due(pool, now), on_due);
}

/* Something has changed: it is looked into when nothing runs any more. */
static void wake(Pool *pool)
{
    uint64_t due = clock_now() + QUIET_NSEC;

    if (!pool->stopped && (!loop_timer_is_set(&pool->timer) || pool->timer.due > due))
        loop_timer_set(pool->sandboxes->loop, &pool->timer, due, on_due);
}

/* ---- what becomes of a spare ---- */

void pool_spare_ready(Spare *spare)
{
    PoolKind *kind = spare->kind;

    spare->ready = clock_now();
    if (!kind)
        return;
    log_debug("spare container ready", "container=%s", spare->sandbox->container_name);
    if (kind->failures > 0)
        log_info("spare containers work again", "container=%s", spare->sandbox->container_name);
    kind->filled = true;
    serve_waiters(kind);
    wake(kind->pool);
}

/* Returns the failure that is told to those who wait for the spare. */
static PoolFailure failure_of(const Spare *spare, const char *reason)
{
    PoolFailure failure = {.problem = spare->failure, .traceback = text_of(spare->traceback)};

    if (failure.problem.code == ERR_NONE)
        problem_set(&failure.problem, ERR_TEMPLATE_FAILED, "no sandbox can be made of the template: %s",
                    reason);
    return failure;
}

void pool_spare_lost(Spare *spare, const char *reason)
{
    PoolFailure failure = failure_of(spare, reason);
    PoolKind *kind = spare->kind;

    if (!kind)
        return;
    if (spare->ready > 0 && clock_now() - spare->ready >= LIVED_NSEC)
        kind->failures = 0;
    kind_give_up(spare);
    note_failure(kind, reason);
    if (spare->ready == 0)
        kind_fail_waiter(kind, &failure);
    else
        make_for_waiters(kind); /* a lost spare was counted on */
}

/* Ends it, as it has all of its memory to itself. The next one shares what it has written. */
void pool_spare_written(Spare *spare)
{
    PoolKind *kind = spare->kind;

    kind_give_up(spare);
    sandbox_close(spare->sandbox, "others begin with its memory");
    make_one(kind);
}

void pool_not_imported(Pool *pool, const Value *failed)
{
    for (uint32_t i = 0; i < value_count(failed) && !pool->told; i++) {
        Text module = value_text(failed, i);

        log_warn("module not imported", "module=%.*s consequence=%s", (int)module.size, module.data,
                 "spare containers start without it");
    }
    pool->told |= value_count(failed) > 0;
}

/* ---- claiming ---- */

/* A target that was met and is not enough grows. */
static void raise_target(PoolKind *kind)
{
    if (kind->filled)
        kind->target = MIN(MAX(1, 2 * kind->target), kind->pool->limit);
}

/* Without data it would be another session: one of a template cannot do without the spare. */
static int claim(Sandbox **ret, Spare *spare, const SandboxAssignment *assignment, SessionOptions *options,
                 const SandboxOwner *owner, Problem *problem)
{
    Sandbox *sandbox = spare->sandbox;
    int r;

    sandbox->retry = spare->template ? RETRY_NEVER : RETRY_ONCE;
    r = sandbox_assign(sandbox, assignment, options, problem);
    if (r == -EOPNOTSUPP && spare->template)
        return r;
    if (r < 0) {
        if (r != -EOPNOTSUPP)
            sandbox_close(sandbox, problem->text);
        *problem = PROBLEM_NULL;
        return 0;
    }
    spare->kind->failures = 0;
    make_for_waiters(spare->kind);
    spare_forget(spare);
    sandbox->owner = owner;
    sandbox->userdata = NULL;
    *ret = sandbox;
    return 0;
}

int pool_assign(Sandbox **ret, Pool *pool, Template *tmpl, const SandboxAssignment *assignment,
                SessionOptions *options, const SandboxOwner *owner, Problem *problem)
{
    bool none = pool->stopped || (pool->off && !tmpl);
    PoolKind *kind = none ? NULL : kind_of(pool, options, assignment->output_id != NULL, tmpl);
    Spare *spare = kind ? kind_find_ready(kind) : NULL;

    *ret = NULL;
    if (!kind)
        return 0;
    kind->claimed = clock_now();
    wake(pool);
    if (spare)
        return claim(ret, spare, assignment, options, owner, problem);
    raise_target(kind);
    return 0;
}

void pool_image_opened(Pool *pool, const MemoryImage *image)
{
    PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link)
        if (kind->making == image)
            kind_memory_made(kind);
}

MemoryImage *pool_memory(const Pool *pool, const SessionOptions *options, bool ephemeral)
{
    const PoolKind *kind = pool->stopped ? NULL : kind_find(pool, options, ephemeral, NULL);

    return kind ? kind_memory(kind) : NULL;
}

/* ---- as a whole ---- */

size_t pool_ready(const Pool *pool)
{
    return count(pool, SANDBOX_SPARE);
}

uint64_t pool_misfits(const Pool *pool)
{
    return pool->misfits;
}

bool pool_evict(Pool *pool)
{
    bool any = !pool_is_empty(pool);
    PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link) {
        kind->not_before = clock_now() + YIELD_NSEC;
        kind_trim(kind, count_waiters(kind));
    }
    return any;
}

bool pool_is_empty(const Pool *pool)
{
    return pool->spares == 0;
}

void pool_begin(Pool *pool)
{
    if (!pool->stopped)
        wake(pool);
}

void pool_stop(Pool *pool)
{
    PoolKind *kind;

    pool->stopped = true;
    loop_timer_cancel(&pool->timer);
    loop_timer_cancel(&pool->serving);
    list_foreach (kind, &pool->kinds, PoolKind, link)
        kind_free(kind);
}

int pool_new(Pool **ret, Sandboxes *sandboxes, Problem *problem)
{
    const Options *options = sandboxes->options;
    Pool *pool = calloc(1, sizeof(*pool));
    int r;

    if (!pool)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    pool->sandboxes = sandboxes;
    pool->limit = MAX(options->pool, options->pool_limit);
    pool->off = options->pool == 0;
    pool->reviewed = clock_now();
    list_init(&pool->kinds);
    r = imports_check(options->imports, problem);
    if (r == 0 && !pool->off)
        r = kind_add_standard(pool, problem);
    if (r < 0) {
        pool_free(pool);
        return r;
    }
    *ret = pool;
    return 0;
}

Pool *pool_free(Pool *pool)
{
    if (pool)
        pool_stop(pool);
    free(pool);
    return NULL;
}

/* ---- waiters for a spare of a template ----
 *
 * Waiters for a spare of a template: these are made at once, whatever else runs. */

/* Kinds for which somebody waits at once. */
#define WAITED_FOR_MAX 8

/* waiters.c */
static size_t count_waiters(const PoolKind *kind)
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

/* As many are being made as somebody waits for, within the limit. */
static void make_for_waiters(PoolKind *kind)
{
    PoolFailure failure = {.problem = PROBLEM_NULL};
    List failed = LIST_INIT(failed);

    for (size_t n = kind_count_warming(kind); n < MIN(count_waiters(kind), MAX(kind->pool->limit, 1));)
        if (spare_start(kind, &failure.problem) < 0)
            list_append(&failed, &take_first(kind)->link);
        else
            n++;
    tell(&failed, &failure);
}

/* The others may still get theirs. */
void kind_fail_waiter(PoolKind *kind, const PoolFailure *failure)
{
    PoolWaiter *waiter = take_first(kind);

    if (!waiter)
        return;
    if (!kind->pool->stopped)
        make_for_waiters(kind);
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
    serve_waiters(kind);
    make_for_waiters(kind);
    waiter->done(waiter, NULL);
}

/* Whoever waits is served soon: a spare is ready. */
static void serve_waiters(PoolKind *kind)
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
        serve_waiters(kind);
    else
        make_for_waiters(kind);
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
