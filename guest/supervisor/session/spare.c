#include "guest/supervisor/session/spare.h"

#include <errno.h>
#include <string.h>

#include "guest/channel.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* The time for all imports. Modules that are not imported after this never will be. */
#define IMPORT_LIMIT (60 * NSEC_PER_SEC)

bool spare_is_one(const Spare *spare)
{
    return spare->step != SPARE_NONE;
}

void spare_init(Spare *spare, Branches *branches, Link *link)
{
    *spare = (Spare){.branches = branches, .link = link};
}

void spare_deinit(Spare *spare)
{
    loop_timer_cancel(&spare->limit);
    buf_deinit(&spare->imports);
    buf_deinit(&spare->failed);
    spare->step = SPARE_NONE;
}

/* The branch of the session itself. */
static Branch *first_branch(const Spare *spare)
{
    return branches_find(spare->branches, 0);
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
    r = channel_say(&frame, MSG_PREPARE, interpreter->preparations.asked + 1, MsgPrepare, &prepare);
    if (r < 0)
        return r;
    interpreter->preparations.asked++;
    return interpreter_send(interpreter, &frame);
}

static void tell_environment(Branch *branch)
{
    int r;

    if (!branch->outdated || !branch_is_ready(branch))
        return;
    branch->outdated = false;
    r = send_prepare(branch, &branch->set->environment, NULL);
    if (r < 0)
        branch_doom(branch, strerror(-r));
}

/* To the controller */

void spare_tell(Spare *spare)
{
    const MsgPrepared prepared = {.failed = value_encoded(&spare->failed)};

    if (spare->step == SPARE_READY && spare->link->accepted)
        link_say(spare->link, MSG_PREPARED, 0, MsgPrepared, &prepared);
}

/* From step to step */

int spare_begin(Spare *spare, const Value *imports, Problem *problem)
{
    if (keep_names(&spare->imports, imports) < 0 || keep_names(&spare->failed, NULL) < 0)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    spare->step = SPARE_STARTS;
    return 0;
}

static void become_ready(Spare *spare)
{
    loop_timer_cancel(&spare->limit);
    spare->step = SPARE_READY;
    spare_tell(spare);
}

static void take_birth(Spare *spare, Branch *branch)
{
    Reason why = "there is one";

    loop_timer_cancel(&spare->limit);
    if (!checkpoints_birth(&spare->branches->checkpoints) &&
        branch_freeze(branch, CHECKPOINT_BIRTH, "", why) == 0) {
        spare->step = SPARE_FREEZES;
        return;
    }
    log_info("no checkpoint of the birth", "reason=%s", why);
    become_ready(spare);
}

static void on_import_due(LoopTimer *timer)
{
    branch_lose(first_branch(container_of(timer, Spare, limit)), "it did not import its modules in time");
}

static int limit_imports(Spare *spare)
{
    return loop_timer_set(spare->branches->loop, &spare->limit, clock_now() + IMPORT_LIMIT, on_import_due);
}

/* Does once, for nobody, what a session does first. Since the checkpoint each page costs whoever writes to it
 * first. */
static void warm_up(Spare *spare, Branch *branch)
{
    Buf nothing _cleanup_(buf_deinit) = BUF_NULL;

    spare->step = SPARE_WARMS;
    if (!branch_is_ready(branch) || keep_names(&nothing, NULL) < 0 || limit_imports(spare) < 0 ||
        send_prepare(branch, &spare->branches->environment, &nothing) < 0)
        become_ready(spare);
}

/* An interpreter that ended over its imports is followed by one that is not to import anything. */
static void import(Spare *spare, Branch *branch)
{
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
        r = limit_imports(spare);
    if (r < 0)
        branch_doom(branch, strerror(-r));
    else if (again)
        take_birth(spare, branch);
}

void spare_on_ready(Spare *spare, Branch *branch)
{
    if (!spare_is_one(spare))
        tell_environment(branch);
    else if (!branch->interpreter.copied)
        import(spare, branch);
    else if (spare->step == SPARE_WARMS) /* a copy of the birth checkpoint has all */
        become_ready(spare);
}

int spare_on_prepared(Spare *spare, Branch *branch, const Message *message, Problem *problem)
{
    MsgPrepared said;
    int r = body_decode(&said, MsgPrepared, &message->body, problem);

    if (r < 0)
        return r;
    if (!questions_answered(&branch->interpreter.preparations, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`prepared` that answers nothing");
    if (spare->step == SPARE_WARMS)
        become_ready(spare);
    if (spare->step != SPARE_IMPORTS)
        return 0;
    if (keep_names(&spare->failed, &said.failed) < 0)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    take_birth(spare, branch);
    return 0;
}

void spare_on_birth(Spare *spare)
{
    if (spare->step == SPARE_FREEZES)
        warm_up(spare, first_branch(spare));
}

/* Such a spare is of no use. Whoever keeps spares sees it end. */
void spare_on_start_failed(Spare *spare)
{
    if (spare_is_one(spare))
        loop_stop(spare->branches->loop, 1);
}

/* The claim */

static void start_anew(Branch *branch)
{
    Checkpoint *birth;

    branch_end_processes(branch);
    branch_forget_line(branch);
    birth = checkpoints_birth(&branch->set->checkpoints);
    if (birth)
        checkpoint_drop(birth, NULL);
    branch_spawn(branch);
}

void spare_become_session(Spare *spare, bool anew)
{
    Branch *branch = first_branch(spare);

    spare_deinit(spare);
    branch_forget_past(branch);
    log_info("claimed", "start=%d", anew);
    if (anew) {
        start_anew(branch);
        return;
    }
    branch->outdated = branch->set->environment_changed;
    tell_environment(branch);
    if (!branch_is_recovering(branch))
        branch_stand_on_birth(branch);
    policy_on_quiet(branch, clock_now());
}
