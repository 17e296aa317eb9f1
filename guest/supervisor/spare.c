#include "guest/supervisor/spare.h"

#include <errno.h>
#include <string.h>

#include "guest/channel.h"
#include "guest/supervisor/supervisor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Modules that are not imported after this never will be. */
#define IMPORT_LIMIT (60 * NSEC_PER_SEC)

bool spare_is_one(const Spare *spare)
{
    return spare->step != SPARE_NONE;
}

void spare_deinit(Spare *spare)
{
    loop_timer_cancel(&spare->limit);
    buf_deinit(&spare->imports);
    buf_deinit(&spare->failed);
    spare->step = SPARE_NONE;
}

/* Names of modules */

/* NULL: none. */
static int keep_names(Buf *ret, const Value *names)
{
    uint32_t n = names ? value_count(names) : 0;
    Writer w;

    buf_clear(ret);
    writer_init(&w, ret);
    write_array(&w, n);
    for (uint32_t i = 0; i < n; i++) {
        Text name = value_text(names, i);

        write_text_n(&w, name.data, name.size);
    }
    return writer_finish(&w);
}

/* To the interpreter */

static void write_environment(Writer *w, const void *source)
{
    const Environment *environment = source;

    write_map(w, environment->n);
    for (size_t i = 0; i < environment->n; i++) {
        const char *entry = environment->entries[i];
        size_t name = strcspn(entry, "=");

        write_text_n(w, entry, name);
        write_text(w, entry + name + 1);
    }
}

/* Either may be NULL. */
static int send_prepare(Branch *branch, const Environment *environment, const Buf *imports)
{
    Interpreter *interpreter = &branch->interpreter;
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    MsgPrepare prepare = {0};
    int r;

    if (environment)
        prepare.env = (Value){.write = write_environment, .source = environment};
    if (imports)
        prepare.imports = value_encoded(imports);
    r = channel_say(&frame, MSG_PREPARE, interpreter->prepares + 1, MsgPrepare, &prepare);
    if (r < 0)
        return r;
    interpreter->prepares++;
    return interpreter_send(interpreter, &frame);
}

static void tell_environment(Branch *branch)
{
    int r;

    if (!branch->outdated || !branch_is_ready(branch))
        return;
    branch->outdated = false;
    r = send_prepare(branch, &branch->supervisor->settings.environment, NULL);
    if (r < 0)
        branch_doom(branch, strerror(-r));
}

/* To the controller */

void spare_tell(Supervisor *supervisor)
{
    const MsgPrepared prepared = {.failed = value_encoded(&supervisor->spare.failed)};

    if (supervisor->spare.step == SPARE_READY && supervisor->controller.welcomed)
        link_say(&supervisor->controller.link, MSG_PREPARED, 0, MsgPrepared, &prepared);
}

/* From step to step */

int spare_begin(Supervisor *supervisor, const Value *imports, Problem *problem)
{
    Spare *spare = &supervisor->spare;

    if (keep_names(&spare->imports, imports) < 0 || keep_names(&spare->failed, NULL) < 0)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    spare->step = SPARE_STARTS;
    return 0;
}

static void become_ready(Supervisor *supervisor)
{
    loop_timer_cancel(&supervisor->spare.limit);
    supervisor->spare.step = SPARE_READY;
    spare_tell(supervisor);
}

static void take_birth(Branch *branch)
{
    Supervisor *supervisor = branch->supervisor;
    Reason why = "there is one";

    loop_timer_cancel(&supervisor->spare.limit);
    if (!checkpoints_birth(&supervisor->checkpoints) &&
        branch_freeze(branch, CHECKPOINT_BIRTH, "", why) == 0) {
        supervisor->spare.step = SPARE_FREEZES;
        return;
    }
    log_info("no checkpoint of the birth", "reason=%s", why);
    become_ready(supervisor);
}

static void on_import_due(LoopTimer *timer)
{
    Supervisor *supervisor = container_of(timer, Supervisor, spare.limit);

    branch_lose(supervisor_find(supervisor, 0), &(Loss){.fault = "it did not import its modules in time"});
}

static int limit_imports(Supervisor *supervisor)
{
    return loop_timer_set(supervisor->loop, &supervisor->spare.limit, clock_now() + IMPORT_LIMIT,
                          on_import_due);
}

/* Since the checkpoint each page costs who writes to it first: with nothing left to import, what a session
 * does first is done once for nobody. */
static void warm_up(Branch *branch)
{
    Supervisor *supervisor = branch->supervisor;
    Buf nothing _cleanup_(buf_deinit) = BUF_NULL;

    supervisor->spare.step = SPARE_WARMS;
    if (!branch_is_ready(branch) || keep_names(&nothing, NULL) < 0 || limit_imports(supervisor) < 0 ||
        send_prepare(branch, &supervisor->settings.environment, &nothing) < 0)
        become_ready(supervisor);
}

/* An interpreter that ended over its imports is followed by one that is not to import anything. */
static void import(Branch *branch)
{
    Supervisor *supervisor = branch->supervisor;
    Spare *spare = &supervisor->spare;
    bool again = spare->step == SPARE_IMPORTS;
    int r = 0;

    if (again) {
        buf_clear(&spare->failed);
        r = buf_append(&spare->failed, buf_head(&spare->imports), spare->imports.size);
    } else {
        spare->step = SPARE_IMPORTS;
        r = send_prepare(branch, NULL, &spare->imports);
    }
    if (r == 0 && !again)
        r = limit_imports(supervisor);
    if (r < 0)
        branch_doom(branch, strerror(-r));
    else if (again)
        take_birth(branch);
}

void spare_on_ready(Branch *branch)
{
    Supervisor *supervisor = branch->supervisor;

    if (!spare_is_one(&supervisor->spare))
        tell_environment(branch);
    else if (!branch->interpreter.copied)
        import(branch);
    else if (supervisor->spare.step == SPARE_WARMS) /* a copy of the birth checkpoint has all */
        become_ready(supervisor);
}

int spare_on_prepared(Branch *branch, const Message *message, Problem *problem)
{
    Spare *spare = &branch->supervisor->spare;
    Interpreter *interpreter = &branch->interpreter;
    MsgPrepared said;
    int r = body_decode(&said, MsgPrepared, &message->body, problem);

    if (r < 0)
        return r;
    if (message->id != interpreter->prepared + 1 || message->id > interpreter->prepares)
        return problem_set(problem, ERR_BAD_REQUEST, "`prepared` that answers nothing");
    interpreter->prepared++;
    if (spare->step == SPARE_WARMS)
        become_ready(branch->supervisor);
    if (spare->step != SPARE_IMPORTS)
        return 0;
    if (keep_names(&spare->failed, &said.failed) < 0)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    take_birth(branch);
    return 0;
}

void spare_on_birth(Supervisor *supervisor)
{
    if (supervisor->spare.step == SPARE_FREEZES)
        warm_up(supervisor_find(supervisor, 0));
}

/* Of no use to anyone: whoever keeps spares sees it end. */
void spare_on_start_failed(Supervisor *supervisor)
{
    if (spare_is_one(&supervisor->spare))
        loop_stop(supervisor->loop, 1);
}

/* The claim */

static void start_anew(Branch *branch)
{
    Checkpoint *birth;

    branch->ending = true;
    branch_end_processes(branch);
    branch->ending = false;
    recovery_abandon(branch);
    birth = checkpoints_birth(&branch->supervisor->checkpoints);
    if (birth)
        checkpoint_drop(birth, NULL);
    branch_spawn(branch);
}

/* What happened to it while it was nobody's is nobody's business. */
static void forget_past(Branch *branch)
{
    branch->epoch = 1;
    branch->idle_losses = 0;
    fate_deinit(&branch->untold);
    branch->recovery.fresh = branch->recovery.active;
}

void spare_become_session(Supervisor *supervisor, const Settings *settings)
{
    Branch *branch = supervisor_find(supervisor, 0);
    bool anew = environment_needs_start(&supervisor->settings.environment, &settings->environment);

    spare_deinit(&supervisor->spare);
    supervisor_apply(supervisor, settings);
    forget_past(branch);
    log_info("claimed", "start=%d", anew);
    if (anew) {
        start_anew(branch);
        return;
    }
    branch->outdated = supervisor->environment_changed;
    tell_environment(branch);
    if (!branch->recovery.active)
        branch_stand_on_birth(branch);
    policy_on_quiet(branch, clock_now());
}
