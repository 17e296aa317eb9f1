/* Spares, one by one: the pool is the owner of their sandboxes. */
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

/* The environment is the spare's own: whoever claims it brings one. */
static int take_template(SandboxBirth *birth, SessionOptions *options, const Template *tmpl)
{
    if (!tmpl)
        return 0;
    birth->setup = text_of(tmpl->setup);
    birth->packages = tmpl->packages;
    birth->template = tmpl->files == NO_UINT ? NULL : tmpl->id;
    buf_clear(&options->env);
    return template_env(&options->env, tmpl, NULL);
}

static int begin(Spare *spare, Problem *problem)
{
    const PoolKind *kind = spare->kind;
    Sandboxes *all = spare->pool->sandboxes;
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    SandboxBirth birth;

    if (session_options_copy_container(&options, &kind->options) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    birth = (SandboxBirth){.imports =
                               imports_value(options.memory >= IMPORTS_MEMORY ? all->options->imports : "")};
    if (take_template(&birth, &options, spare->template) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    return sandbox_start_spare(&spare->sandbox, all, kind->ephemeral, &options, &birth, &spare_owner, spare,
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
    snprintf(spare->image, sizeof(spare->image), "%s", sandboxes_image(kind->pool->sandboxes));
    list_append(&kind->spares, &spare->in_kind);
    kind->pool->spares++;
    r = begin(spare, problem);
    if (r < 0)
        spare_forget(spare);
    return r;
}
