#include "host/spare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/alive.h"
#include "host/journal_sandbox.h"
#include "host/pool.h"
#include "host/sandbox_parts.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

Spare *spare_free(Spare *spare)
{
    if (spare)
        list_remove(&spare->in_kind);
    free(spare);
    return NULL;
}

static Sandbox *new_sandbox(Controller *controller, bool ephemeral, SessionOptions *options)
{
    Spare *spare _cleanup_(freep) = calloc(1, sizeof(*spare));
    Session *trunk = spare ? session_new(controller, "") : NULL;
    Sandbox *sandbox = trunk ? sandbox_new(controller, trunk, ephemeral, options) : NULL;

    if (!sandbox) {
        free(trunk);
        return NULL;
    }
    snprintf(trunk->name, sizeof(trunk->name), PRIVATE_MARK "%s", trunk->instance);
    list_init(&spare->in_kind);
    spare->sandbox = sandbox;
    sandbox->spare = take(spare);
    return sandbox;
}

int spare_start(Spare **ret, Controller *controller, bool ephemeral, SessionOptions *options,
                Problem *problem)
{
    Sandbox *sandbox = new_sandbox(controller, ephemeral, options);
    Session *trunk = sandbox ? sandbox->trunk : NULL;
    Spare *spare = sandbox ? sandbox->spare : NULL;

    if (!sandbox)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    snprintf(spare->image, sizeof(spare->image), "%s",
             controller->engine->ops->default_image(controller->engine));
    if (sandbox_begin(sandbox, NULL, problem) < 0) {
        free(trunk);
        return -EPROTO;
    }
    *ret = spare;
    return 0;
}

/* ---- being prepared --------------------------------------------------------------------------------------
 */

/* Of a session that was claimed a moment ago it is news of the past. */
int spare_prepared(Sandbox *sandbox, const Message *message, Problem *problem)
{
    MsgPrepared prepared;

    if (body_decode(&prepared, MsgPrepared, &message->body, problem) < 0)
        return -EPROTO;
    if (!sandbox->spare)
        return 0;
    pool_not_imported(sandbox->controller->pool, &prepared.failed);
    sandbox->guest_ready = true;
    sandbox_become_ready(sandbox);
    return 0;
}

bool spare_is_alive(const Spare *spare)
{
    return process_is_alive(spare->sandbox->guest->credentials.pid);
}

/* ---- becoming a session ----------------------------------------------------------------------------------
 */

static int send_claim(Sandbox *sandbox, const SessionOptions *options)
{
    const MsgClaim claim = {.env = value_encoded(&options->env), .checkpoint = text_of(options->checkpoint)};

    return guest_say(sandbox->guest, MSG_CLAIM, sandbox_next_number(sandbox->controller), MsgClaim, &claim);
}

static void look_at_artifacts(Sandbox *sandbox)
{
    artifacts_look(sandbox->artifacts);
    if (sandbox->work_artifacts)
        artifacts_look(sandbox->work_artifacts);
}

static int take_directories(Sandbox *sandbox, const char *id, Problem *problem)
{
    int r = sessiondir_claim(&sandbox->directory, id, sandbox->controller->worker, problem);

    if (r == 0) {
        r = sandbox_watch_artifacts(sandbox, problem);
        if (r < 0)
            sessiondir_disclaim(&sandbox->directory);
        else
            look_at_artifacts(sandbox);
    }
    return r;
}

/* From here on it cannot fail. The journal has it all before anyone is told. */
static void become_session(Sandbox *sandbox, const char *name, SessionOptions *options)
{
    Session *trunk = sandbox->trunk;

    snprintf(trunk->name, sizeof(trunk->name), "%s", name);
    trunk->created = clock_unix();
    session_options_deinit(&sandbox->options);
    sandbox->options = *options;
    *options = (SessionOptions){0};
    spare_free(take(sandbox->spare));
    sandbox_note_kills(sandbox);
    journal_refresh(&sandbox->journal);
    log_info("session ready", "session=%s image=%s container=%s", name, sandbox->options.image,
             sandbox->container_name);
    session_become_ready(trunk);
}

int spare_claim(Spare *spare, const char *name, const char *output_id, SessionOptions *options,
                Problem *problem)
{
    Sandbox *sandbox = spare->sandbox;
    const EngineOps *engine = sandbox->controller->engine->ops;
    int r = options->data ? engine->attach_data(sandbox->container, options->data, problem) : 0;

    if (r < 0)
        return r;
    r = send_claim(sandbox, options);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "its supervisor cannot be reached");
    r = take_directories(sandbox, output_id ? output_id : name, problem);
    if (r == 0)
        become_session(sandbox, name, options);
    return r;
}
