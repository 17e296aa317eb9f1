/* One spare: the pool is the owner of its sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/pool/internal.h"
#include "proto/base/proc.h"

/* With less memory than that a session would miss what the modules take of it. */
#define IMPORTS_MEMORY (UINT64_C(512) << 20)

/* Process 1 of a container that was killed waits for all the others, and until then no end of it is told. */
bool spare_is_alive(const Spare *spare)
{
    return proc_is_alive(spare->sandbox->guest->credentials.pid);
}

bool spare_is_outdated(const Spare *spare)
{
    return strcmp(spare->image, sandboxes_image(spare->pool->sandboxes)) != 0;
}

void spare_forget(Spare *spare)
{
    list_remove(&spare->in_kind);
    spare->pool->spares--;
    free(spare);
}

/* Its interpreter has imported what it could. */
static int on_message(Sandbox *sandbox, const Message *message, Problem *problem)
{
    const Spare *spare = sandbox->userdata;
    MsgPrepared prepared;

    if (message->kind != MSG_PREPARED)
        return 0;
    if (body_decode(&prepared, MsgPrepared, &message->body, problem) < 0)
        return -EPROTO;
    pool_not_imported(spare->pool, &prepared.failed);
    sandbox_supervisor_ready(sandbox);
    return 0;
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
    .closing = on_closing,
    .gone = on_gone,
};

static int begin(Spare *spare, Problem *problem)
{
    const PoolKind *kind = spare->kind;
    Sandboxes *all = spare->pool->sandboxes;
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    const char *imports;

    if (session_options_copy_container(&options, &kind->options) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    imports = options.memory >= IMPORTS_MEMORY ? all->options->imports : "";
    return sandbox_start_spare(&spare->sandbox, all, kind->ephemeral, &options, imports_value(imports),
                               &spare_owner, spare, problem);
}

int spare_start(PoolKind *kind, Problem *problem)
{
    Spare *spare = calloc(1, sizeof(*spare));
    int r;

    if (!spare)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    spare->pool = kind->pool;
    spare->kind = kind;
    snprintf(spare->image, sizeof(spare->image), "%s", sandboxes_image(kind->pool->sandboxes));
    list_append(&kind->spares, &spare->in_kind);
    kind->pool->spares++;
    r = begin(spare, problem);
    if (r < 0)
        spare_forget(spare);
    return r;
}
