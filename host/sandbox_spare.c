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

typedef struct Prepared {
    const msgpack_object_array *failed;
} Prepared;

static const Field prepared_fields[] = {FIELD(FIELD_ARRAY, Prepared, failed, true, 0)};

static int check_failed(const msgpack_object_array *failed, Problem *problem)
{
    for (uint32_t i = 0; i < failed->size; i++)
        if (failed->size > LIMIT_IMPORTS || failed->ptr[i].type != MSGPACK_OBJECT_STR)
            return problem_set(problem, ERR_BAD_REQUEST, "`failed` is not a short array of texts");
    return 0;
}

/* Of a session that was claimed a moment ago it is news of the past. */
int spare_prepared(Sandbox *sandbox, const Message *message, Problem *problem)
{
    Prepared prepared = {0};

    if (fields_decode(&prepared, prepared_fields, ARRAY_SIZE(prepared_fields), &message->body, problem) < 0 ||
        check_failed(prepared.failed, problem) < 0)
        return -EPROTO;
    if (!sandbox->spare)
        return 0;
    pool_not_imported(sandbox->controller->pool, prepared.failed);
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
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;
    int r;

    writer_message(&w, &message, MSG_CLAIM, sandbox_next_number(sandbox->controller), 2);
    write_key(&w, "checkpoint");
    write_text(&w, options->checkpoint);
    write_key(&w, "env");
    r = writer_finish(&w);
    if (r == 0)
        r = buf_append(&message, buf_head(&options->env), options->env.size);
    return r < 0 ? r : guest_send(sandbox->guest, &message);
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
