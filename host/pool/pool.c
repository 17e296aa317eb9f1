#include "host/pool/pool.h"

#include <errno.h>

#include "host/pool/memory.h"
#include "host/pool/internal.h"
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
        if (sandbox->trunk &&
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

static PoolKind *wanted(const Pool *pool, uint64_t now)
{
    const bool occupied[] = {is_occupied(pool, false), is_occupied(pool, true)};
    PoolKind *kind;

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
    kind_trim(kind, MAX(short_of_memory ? 0 : kind->target, kind_count_waiters(kind)));
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
    kind_serve(kind);
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
        kind_disappoint(kind, &failure);
    else
        kind_feed(kind); /* a lost spare was counted on */
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
static int claim(Sandbox **ret, Spare *spare, const SandboxHolder *holder, SessionOptions *options,
                 const SandboxOwner *owner, Problem *problem)
{
    Sandbox *sandbox = spare->sandbox;
    int r = sandbox_claim(sandbox, holder, options, problem);

    if (r == -EOPNOTSUPP && spare->template)
        return r;
    if (r < 0) {
        if (r != -EOPNOTSUPP)
            sandbox_close(sandbox, problem->text);
        *problem = PROBLEM_NULL;
        return 0;
    }
    spare->kind->failures = 0;
    kind_feed(spare->kind);
    spare_forget(spare);
    sandbox->owner = owner;
    sandbox->userdata = NULL;
    *ret = sandbox;
    return 0;
}

int pool_claim(Sandbox **ret, Pool *pool, Template *tmpl, const SandboxHolder *holder,
               SessionOptions *options, const SandboxOwner *owner, Problem *problem)
{
    bool none = pool->stopped || (pool->off && !tmpl);
    PoolKind *kind = none ? NULL : kind_of(pool, options, holder->output_id != NULL, tmpl);
    Spare *spare = kind ? kind_find_ready(kind) : NULL;

    *ret = NULL;
    if (!kind)
        return 0;
    kind->claimed = clock_now();
    wake(pool);
    if (spare)
        return claim(ret, spare, holder, options, owner, problem);
    raise_target(kind);
    return 0;
}

/* ---- as a whole ---- */

size_t pool_ready(const Pool *pool)
{
    return count(pool, SANDBOX_SPARE);
}

bool pool_yield(Pool *pool)
{
    bool any = !pool_is_empty(pool);
    PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link) {
        kind->not_before = clock_now() + YIELD_NSEC;
        kind_trim(kind, kind_count_waiters(kind));
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
