#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "host/pool_parts.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Kinds at once, so that clients that ask for ever other limits do not fill the host. */
#define KINDS_MAX 8
/* With less memory than that a session would miss what the modules take of it. */
#define IMPORTS_MEMORY (UINT64_C(512) << 20)

/* ---- kinds -----------------------------------------------------------------------------------------------
 */

int kind_options(const PoolKind *kind, SessionOptions *ret)
{
    return session_options_copy_container(ret, &kind->options);
}

static PoolKind *add(Pool *pool, const SessionOptions *options, bool ephemeral)
{
    PoolKind *kind = calloc(1, sizeof(*kind));

    if (!kind || session_options_copy_container(&kind->options, options) < 0) {
        free(kind);
        return NULL;
    }
    kind->pool = pool;
    kind->ephemeral = ephemeral;
    kind->target = kind->base = pool->controller->options->pool;
    kind->claimed = clock_now();
    list_init(&kind->spares);
    list_append(&pool->kinds, &kind->link);
    return kind;
}

void kind_free(PoolKind *kind)
{
    kind_trim(kind, 0);
    list_remove(&kind->link);
    session_options_deinit(&kind->options);
    free(kind);
}

static bool is_of(const PoolKind *kind, const SessionOptions *options, bool ephemeral)
{
    return kind->ephemeral == ephemeral && session_options_same_container(&kind->options, options);
}

/* The one that was not asked for longest goes when there would be too many. */
static void make_room(Pool *pool)
{
    PoolKind *kind, *oldest = NULL;
    size_t n = 0;

    list_foreach (kind, &pool->kinds, PoolKind, link) {
        n++;
        if (!kind->standard && (!oldest || kind->claimed < oldest->claimed))
            oldest = kind;
    }
    if (n >= KINDS_MAX && oldest)
        kind_free(oldest);
}

PoolKind *kind_of(Pool *pool, const SessionOptions *options, bool ephemeral)
{
    PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link)
        if (is_of(kind, options, ephemeral))
            return kind;
    make_room(pool);
    return add(pool, options, ephemeral);
}

int kind_add_standard(Pool *pool, Problem *problem)
{
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    MsgOptions given;
    PoolKind *kind;

    body_clear(&given, MsgOptions);
    if (session_options_settle(&options, &given, pool->controller->options, problem) < 0)
        return -EPROTO;
    kind = add(pool, &options, false);
    if (!kind)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    kind->standard = true;
    return 0;
}

/* ---- their spares ----------------------------------------------------------------------------------------
 */

size_t kind_count(const PoolKind *kind)
{
    size_t n = 0;

    for (const List *at = kind->spares.next; at != &kind->spares; at = at->next)
        n++;
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
        sandbox_close(spare->sandbox, "it is not needed any more");
    }
}

/* ---- imports ---------------------------------------------------------------------------------------------
 */

/* The next name of the list; empty at the end. */
static Text next_import(const char **at)
{
    const char *from = *at + strspn(*at, ", ");
    size_t size = strcspn(from, ", ");

    *at = from + size;
    return (Text){from, size};
}

static bool is_module(Text name)
{
    for (size_t i = 0; i < name.size; i++)
        if (!isalnum((unsigned char)name.data[i]) && name.data[i] != '_' && name.data[i] != '.')
            return false;
    return name.size <= LIMIT_NOTE;
}

static size_t count_imports(const char *imports)
{
    size_t n = 0;

    while (next_import(&imports).size > 0)
        n++;
    return n;
}

int imports_check(const char *imports, Problem *problem)
{
    size_t n = count_imports(imports);
    Text name;

    if (n > LIMIT_IMPORTS)
        return problem_set(problem, ERR_BAD_REQUEST, "imports may name %u modules at most", LIMIT_IMPORTS);
    while ((name = next_import(&imports)).size > 0)
        if (!is_module(name))
            return problem_set(problem, ERR_BAD_REQUEST, "imports: '%.*s' is not the name of a module",
                               (int)MIN(name.size, LIMIT_NOTE), name.data);
    return 0;
}

void pool_write_imports(Writer *w, const void *source)
{
    const Sandbox *sandbox = source;
    const char *imports =
        sandbox->options.memory >= IMPORTS_MEMORY ? sandbox->controller->options->imports : "";
    Text name;

    write_array(w, count_imports(imports));
    while ((name = next_import(&imports)).size > 0)
        write_text_n(w, name.data, name.size);
}

void pool_not_imported(Pool *pool, const Value *failed)
{
    for (uint32_t i = 0; i < value_count(failed) && !pool->told; i++) {
        Text module = value_text(failed, i);

        log_warn("module not imported", "module=%.*s consequence=%s", (int)module.size, module.data,
                 "spare containers do without it");
    }
    pool->told |= value_count(failed) > 0;
}
