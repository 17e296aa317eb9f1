/* Kinds of spares, and the spares: what they import, how each begins and what becomes of it. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/pool/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/proc.h"

/* ---- the modules that they import ---- */

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
        return problem_set(problem, ERR_BAD_REQUEST, "imports may name at most %u modules", LIMIT_IMPORTS);
    while ((name = next_import(&imports)).size > 0)
        if (!is_module(name))
            return problem_set(problem, ERR_BAD_REQUEST, "imports: '%.*s' is not a module name",
                               (int)MIN(name.size, LIMIT_NOTE), name.data);
    return 0;
}

static void write_imports(Writer *w, const void *source)
{
    const char *imports = source;
    Text name;

    write_array(w, count_imports(imports));
    while ((name = next_import(&imports)).size > 0)
        write_text_n(w, name.data, name.size);
}

/* As an encoded array; points into `imports`. */
static Value imports_value(const char *imports)
{
    return (Value){.write = write_imports, .source = imports};
}

/* ---- the memory that they share ---- */

/* So many that could not use it show that none can. */
#define MISFITS_MAX 3

static bool shares_memory(const PoolKind *kind)
{
    return strcmp(kind->pool->sandboxes->options->memory_images, "on") == 0 && kind->misfits < MISFITS_MAX;
}

/* The image that new spares have. */
static const char *kind_image(const PoolKind *kind)
{
    return sandboxes_image(kind->pool->sandboxes, kind->options.image);
}

MemoryImage *kind_memory(const PoolKind *kind)
{
    return shares_memory(kind) && strcmp(kind->image, kind_image(kind)) == 0 ? kind->memory : NULL;
}

void kind_memory_made(PoolKind *kind)
{
    MemoryImage *image = take(kind->making);
    Spare *writer = take(kind->writer);
    bool made = !image->gone;

    if (made) {
        memory_image_unref(kind->memory);
        kind->memory = image;
        log_info("memory shared", "template=%s", kind->template ? kind->template->name : "");
    } else {
        memory_image_unref(image);
    }
    if (writer && made)
        pool_spare_written(writer);
    else if (writer)
        sandbox_supervisor_ready(writer->sandbox);
}

/* Notes one that has not begun with the memory of its kind. */
static void note_misfit(Spare *spare)
{
    spare->sandbox->memory = memory_image_unref(spare->sandbox->memory);
    if (spare->kind) {
        spare->kind->misfits++;
        spare->pool->misfits++;
    }
}

/* Takes the memory that a spare may have passed once it is prepared. `shared`: it has begun with that of its
 * kind. Returns whether an image is being made of it. */
static bool take_memory(Spare *spare, bool shared)
{
    PoolKind *kind = spare->kind;
    int passed = guest_take_passed(spare->sandbox->guest);

    if (spare->sandbox->memory && !shared)
        note_misfit(spare);
    if (!kind || passed < 0 || kind->making) {
        close_fd(&passed);
        return false;
    }
    memcpy(kind->image, spare->image, sizeof(kind->image));
    kind->making = memory_image_make(&kind->pool->sandboxes->images, passed);
    kind->writer = kind->making ? spare : NULL;
    return kind->making;
}

/* ---- one spare ----
 *
 * Spares, one by one: the pool is the owner of their sandboxes. */

/* With less memory than that a session would miss what the modules take of it; of a memory that it shares it
 * takes little. */
#define IMPORTS_MEMORY        (UINT64_C(512) << 20)
#define IMPORTS_MEMORY_SHARED (UINT64_C(256) << 20)

/* Process 1 of a container that was killed waits for all the others, and until then no end of it is told. In
 * another container of a pod it has no number here. */
static bool spare_is_alive(const Spare *spare)
{
    const pid_t pid = spare->sandbox->guest->credentials.pid;

    return pid == 0 || proc_is_alive(pid);
}

void spare_forget(Spare *spare)
{
    list_remove(&spare->in_kind);
    spare->pool->spares--;
    template_unref(spare->template);
    free(spare->traceback);
    free(spare);
}

/* Notes how the setup code failed: the spare ends with its traceback told. */
static void note_setup(Spare *spare, const MsgPythonError *error)
{
    problem_set(&spare->failure, ERR_TEMPLATE_FAILED,
                "the setup code of the template '%s' did not end well: %.*s: %.*s",
                spare->template ? spare->template->name : "", (int)MIN(error->name.size, 128),
                error->name.data, (int)MIN(error->message.size, 640), error->message.data);
    spare->traceback = text_dup(error->traceback);
}

/* Nothing was sent but the welcome, which an older one does not know all of. */
static int refused(Spare *spare, const Message *message, Problem *problem)
{
    const char *image = spare->sandbox->options.image;
    MsgError error;
    int r = body_decode(&error, MsgError, &message->body, problem);

    if (r < 0)
        return r;
    problem_set(&spare->failure, ERR_TEMPLATE_FAILED,
                "the image '%s' is of an older version; build it again with `limpet image build`: %.*s",
                *image ? image : "default", (int)MIN(error.message.size, 512), error.message.data);
    sandbox_close(spare->sandbox, "its supervisor refused the welcome");
    return 0;
}

/* Its interpreter has imported what it could, and run the setup code. */
static int on_message(Sandbox *sandbox, const Message *message, Problem *problem)
{
    Spare *spare = sandbox->userdata;
    MsgPrepared prepared;

    if (message->kind == MSG_ERROR)
        return refused(spare, message, problem);
    if (message->kind != MSG_PREPARED)
        return 0;
    if (body_decode(&prepared, MsgPrepared, &message->body, problem) < 0)
        return -EPROTO;
    pool_not_imported(spare->pool, &prepared.failed);
    if (take_memory(spare, prepared.shared))
        return 0;
    if (!prepared.has_error) {
        sandbox_supervisor_ready(sandbox);
        return 0;
    }
    note_setup(spare, &prepared.error);
    sandbox_close(sandbox, "its setup code did not end well");
    return 0;
}

/* The container could not be had. */
static void on_failed(Sandbox *sandbox, const Problem *problem)
{
    Spare *spare = sandbox->userdata;

    spare->failure = *problem;
}

static void on_ready(Sandbox *sandbox)
{
    pool_spare_ready(sandbox->userdata);
}

static void on_closing(Sandbox *sandbox, const char *reason)
{
    pool_spare_lost(sandbox->userdata, reason);
}

static void on_gone(Sandbox *sandbox)
{
    Spare *spare = sandbox->userdata;

    sandbox_free(sandbox);
    spare_forget(spare);
}

static const SandboxOwner spare_owner = {
    .message = on_message,
    .ready = on_ready,
    .failed = on_failed,
    .closing = on_closing,
    .gone = on_gone,
};

/* The environment is the spare's own: whoever is assigned it brings one. */
static int take_template(SpareSpec *spec, SessionOptions *options, const Template *tmpl)
{
    if (!tmpl)
        return 0;
    spec->setup = text_of(tmpl->setup);
    spec->packages = tmpl->packages;
    spec->template = tmpl->files == NO_UINT ? NULL : tmpl->id;
    buf_clear(&options->env);
    return template_env(&options->env, tmpl, NULL);
}

static int begin(Spare *spare, Problem *problem)
{
    const PoolKind *kind = spare->kind;
    Sandboxes *all = spare->pool->sandboxes;
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    SpareSpec spec;

    if (session_options_copy_container(&options, &kind->options) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    uint64_t least = shares_memory(kind) ? IMPORTS_MEMORY_SHARED : IMPORTS_MEMORY;
    spec = (SpareSpec){.imports = imports_value(options.memory >= least ? all->options->imports : "")};
    if (take_template(&spec, &options, spare->template) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    spec.memory = kind_memory(kind);
    spec.keeps = shares_memory(kind);
    return sandbox_start_spare(&spare->sandbox, all, kind->ephemeral, &options, &spec, &spare_owner, spare,
                               problem);
}

int spare_start(PoolKind *kind, Problem *problem)
{
    Spare *spare = calloc(1, sizeof(*spare));
    int r;

    if (!spare)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    spare->pool = kind->pool;
    spare->kind = kind;
    spare->template = template_ref(kind->template);
    snprintf(spare->image, sizeof(spare->image), "%s", kind_image(kind));
    list_append(&kind->spares, &spare->in_kind);
    kind->pool->spares++;
    r = begin(spare, problem);
    if (r < 0)
        spare_forget(spare);
    return r;
}

/* ---- kinds ---- */

/* Kinds at once, so that clients that ask for ever other limits do not fill the host. */
#define KINDS_MAX 8

static PoolKind *add_kind(Pool *pool, const SessionOptions *options, bool ephemeral, Template *tmpl)
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
        kind_fail_waiter(kind, &ends);
    kind_trim(kind, 0);
    list_remove(&kind->link);
    session_options_deinit(&kind->options);
    template_unref(kind->template);
    memory_image_unref(kind->making);
    memory_image_unref(kind->memory);
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

PoolKind *kind_find(const Pool *pool, const SessionOptions *options, bool ephemeral, const Template *tmpl)
{
    PoolKind *kind;

    list_foreach (kind, &pool->kinds, PoolKind, link)
        if (is_of(kind, options, ephemeral, tmpl))
            return kind;
    return NULL;
}

PoolKind *kind_of(Pool *pool, const SessionOptions *options, bool ephemeral, Template *tmpl)
{
    PoolKind *kind = kind_find(pool, options, ephemeral, tmpl);

    if (kind)
        return kind;
    make_room(pool);
    return add_kind(pool, options, ephemeral, tmpl);
}

int kind_add_standard(Pool *pool, Problem *problem)
{
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    MsgOptions given;
    PoolKind *kind;

    body_clear(&given, MsgOptions);
    if (session_options_settle(&options, &given, pool->sandboxes->options, problem) < 0)
        return -EPROTO;
    kind = add_kind(pool, &options, false, NULL);
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
    if (spare->kind->writer == spare)
        spare->kind->writer = NULL;
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
        bool outdated = strcmp(spare->image, kind_image(kind)) != 0;

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
