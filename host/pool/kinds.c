#include <errno.h>

#include "host/pool/internal.h"
#include "proto/base/clock.h"

/* Kinds at once, so that clients that ask for ever other limits do not fill the host. */
#define KINDS_MAX 8

/* ---- kinds ---- */

static PoolKind *add(Pool *pool, const SessionOptions *options, bool ephemeral, Template *tmpl)
{
    PoolKind *kind = calloc(1, sizeof(*kind));

    if (!kind || session_options_copy_container(&kind->options, options) < 0) {
        free(kind);
        return NULL;
    }
    kind->pool = pool;
    kind->ephemeral = ephemeral;
    kind->template = template_ref(tmpl);
    kind->target = kind->base = pool->sandboxes->options->pool;
    kind->claimed = clock_now();
    list_init(&kind->spares);
    list_init(&kind->waiters);
    list_append(&pool->kinds, &kind->link);
    return kind;
}

void kind_free(PoolKind *kind)
{
    PoolFailure ends = {.problem = PROBLEM_NULL};

    problem_set(&ends.problem, ERR_UNAVAILABLE, "the controller is shutting down");
    while (!list_empty(&kind->waiters))
        kind_disappoint(kind, &ends);
    kind_trim(kind, 0);
    list_remove(&kind->link);
    session_options_deinit(&kind->options);
    template_unref(kind->template);
    free(kind);
}

static bool is_of(const PoolKind *kind, const SessionOptions *options, bool ephemeral, const Template *tmpl)
{
    return kind->ephemeral == ephemeral && kind->template == tmpl &&
           session_options_same_container(&kind->options, options);
}

/* The one that was not asked for longest goes when there would be too many. */
static void make_room(Pool *pool)
{
    PoolKind *kind, *oldest = NULL;
    size_t n = 0;

    list_foreach (kind, &pool->kinds, PoolKind, link) {
        n++;
        if (!kind->standard && list_empty(&kind->waiters) && (!oldest || kind->claimed < oldest->claimed))
            oldest = kind;
    }
    if (n >= KINDS_MAX && oldest)
        kind_free(oldest);
}

PoolKind *kind_of(Pool *pool, const SessionOptions *options, bool ephemeral, Template *tmpl)
{
    PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link)
        if (is_of(kind, options, ephemeral, tmpl))
            return kind;
    make_room(pool);
    return add(pool, options, ephemeral, tmpl);
}

int kind_add_standard(Pool *pool, Problem *problem)
{
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    MsgOptions given;
    PoolKind *kind;

    body_clear(&given, MsgOptions);
    if (session_options_settle(&options, &given, pool->sandboxes->options, problem) < 0)
        return -EPROTO;
    kind = add(pool, &options, false, NULL);
    if (!kind)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    kind->standard = true;
    return 0;
}

/* ---- their spares ---- */

size_t kind_count(const PoolKind *kind)
{
    size_t n = 0;

    for (const List *at = kind->spares.next; at != &kind->spares; at = at->next)
        n++;
    return n;
}

size_t kind_count_warming(const PoolKind *kind)
{
    const Spare *spare;
    size_t n = 0;

    list_foreach (spare, &kind->spares, Spare, in_kind)
        n += spare->ready == 0;
    return n;
}

void kind_give_up(Spare *spare)
{
    list_remove(&spare->in_kind);
    spare->kind = NULL;
}

void kind_trim(PoolKind *kind, size_t count)
{
    size_t n = kind_count(kind);
    Spare *spare;

    list_foreach (spare, &kind->spares, Spare, in_kind) {
        if (n-- <= count)
            return;
        kind_give_up(spare);
        sandbox_close(spare->sandbox, "it is no longer needed");
    }
}

Spare *kind_find_ready(PoolKind *kind)
{
    Spare *spare;

    list_foreach (spare, &kind->spares, Spare, in_kind) {
        bool outdated = !*kind->options.image && spare_is_outdated(spare);

        if (spare->ready == 0)
            continue;
        if (!outdated && spare_is_alive(spare))
            return spare;
        if (outdated)
            kind_give_up(spare);
        sandbox_close(spare->sandbox, outdated ? "there is a newer image" : "its process 1 has ended");
    }
    return NULL;
}
