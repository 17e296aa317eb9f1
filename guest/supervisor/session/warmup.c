#include "guest/supervisor/session/warmup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "guest/channel.h"
#include "guest/supervisor/process/spawn.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* The time for all imports. Modules that are not imported after this never will be. */
#define IMPORT_LIMIT (60 * NSEC_PER_SEC)

void warmup_init(Warmup *warmup, Branches *branches, Link *link)
{
    *warmup = (Warmup){.branches = branches, .link = link, .kept = -1};
}

void warmup_deinit(Warmup *warmup)
{
    loop_timer_cancel(&warmup->limit);
    buf_deinit(&warmup->imports);
    buf_deinit(&warmup->failed);
    free(warmup->setup);
    warmup->setup = NULL;
    for (size_t i = 0; i < ARRAY_SIZE(warmup->error); i++) {
        free(warmup->error[i]);
        warmup->error[i] = NULL;
    }
    close_fd(&warmup->kept);
    warmup->step = WARMUP_NONE;
}

/* The branch of the session itself. */
static Branch *first_branch(const Warmup *warmup)
{
    return branches_find(warmup->branches, 0);
}

/* ---- names of modules ---- */

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

/* ---- to the interpreter ---- */

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

static void write_proxies(Writer *w, const void *source)
{
    const Environment *environment = source;
    size_t n = 0;

    for (size_t i = 0; i < environment->n; i++)
        n += environment_is_of_proxy(environment->entries[i]);
    write_map(w, n);
    for (size_t i = 0; i < environment->n; i++) {
        const char *entry = environment->entries[i];

        if (!environment_is_of_proxy(entry))
            continue;
        write_text_n(w, entry, strcspn(entry, "="));
        write_text(w, entry + strcspn(entry, "=") + 1);
    }
}

/* Each may be NULL. Where the branch has a place the interpreter is told of that too, while it has run
 * nothing. */
static int send_prepare(Branch *branch, const Environment *environment, const Buf *imports, const char *setup)
{
    Interpreter *interpreter = &branch->interpreter;
    Buf frame _cleanup_(buf_deinit) = BUF_NULL;
    MsgPrepare prepare = {.setup = text_of(setup)};
    int r;

    if (branch->news & NEWS_PLACE)
        prepare.cwd = text_of(branch->place.cwd);
    if (branch->news & NEWS_PLACE && branch_is_foreign(branch))
        prepare.language = text_of(branch->place.language);
    if (branch->news & NEWS_PROXY)
        prepare.added = (Value){.write = write_proxies, .source = &branch->set->environment};
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

/* Tells a new interpreter what it does not know yet. */
static void tell_news(Branch *branch)
{
    const Environment *environment = branch->news & NEWS_ENVIRONMENT ? &branch->set->environment : NULL;
    int r;

    if (!branch->news || !branch_is_ready(branch))
        return;
    r = send_prepare(branch, environment, NULL, NULL);
    branch->news = 0;
    if (r < 0)
        branch_kill(branch, strerror(-r));
}

/* The first thing that could not be done stands for all. */
static void note_failure(Branch *branch, const Value *failed)
{
    Text text = value_count(failed) > 0 ? value_text(failed, 0) : (Text){0};

    reason_set(branch->misplaced, "%.*s", (int)text.size, text.data ? text.data : "");
    branches_changed(branch->set);
}

/* ---- to the controller ---- */

void warmup_tell(Warmup *warmup)
{
    MsgPrepared prepared = {.failed = value_encoded(&warmup->failed),
                            .has_error = warmup->step == WARMUP_FAILED,
                            .shared = warmup->shares};

    if (prepared.has_error)
        prepared.error =
            (MsgPythonError){text_of(warmup->error[0]), text_of(warmup->error[1]), text_of(warmup->error[2])};
    if (warmup->step < WARMUP_READY || !warmup->link->accepted ||
        link_say(warmup->link, MSG_PREPARED, 0, MsgPrepared, &prepared) < 0)
        return;
    if (warmup->kept >= 0)
        link_pass(warmup->link, warmup->kept);
    close_fd(&warmup->kept);
}

/* ---- from step to step ---- */

int warmup_begin(Warmup *warmup, const Value *imports, SetupCode setup, bool keeps, Problem *problem)
{
    warmup->keeps = keeps;
    warmup->setup = setup.code.data ? text_dup(setup.code) : NULL;
    warmup->setup_seconds = setup.seconds;
    if ((setup.code.data && !warmup->setup) || keep_names(&warmup->imports, imports) < 0 ||
        keep_names(&warmup->failed, NULL) < 0)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    warmup->step = WARMUP_STARTS;
    return 0;
}

static void become_ready(Warmup *warmup)
{
    loop_timer_cancel(&warmup->limit);
    warmup->step = WARMUP_READY;
    warmup_tell(warmup);
}

/* Fails with an error whose parts are empty if they cannot be kept. */
static void fail(Warmup *warmup, Text name, Text message, Text traceback)
{
    const Text said[] = {name, message, traceback};

    loop_timer_cancel(&warmup->limit);
    warmup->step = WARMUP_FAILED;
    for (size_t i = 0; i < ARRAY_SIZE(said); i++) {
        warmup->error[i] = text_dup(said[i]);
        if (!warmup->error[i])
            warmup->error[i] = strdup("");
    }
    warmup_tell(warmup);
}

static void take_pristine(Warmup *warmup, Branch *branch)
{
    Reason why = "there is one, or the interpreter has ended";

    loop_timer_cancel(&warmup->limit);
    if (branch->state == BRANCH_IDLE && !checkpoints_pristine(&warmup->branches->checkpoints) &&
        branch_freeze(branch, CHECKPOINT_PRISTINE, "", why) == 0) {
        warmup->step = WARMUP_FREEZES;
        return;
    }
    log_info("no pristine checkpoint", "reason=%s", why);
    become_ready(warmup);
}

static void on_import_due(LoopTimer *timer)
{
    branch_lose(first_branch(container_of(timer, Warmup, limit)), "it did not import its modules in time");
}

static void on_setup_due(LoopTimer *timer)
{
    Warmup *warmup = container_of(timer, Warmup, limit);
    char message[96];

    snprintf(message, sizeof(message), "the setup code took longer than %g s, and was ended",
             warmup->setup_seconds);
    fail(warmup, text_of("TimeoutKilled"), text_of(message), text_of(""));
    branch_lose(first_branch(warmup), "its setup code took too long");
}

static int limit_imports(Warmup *warmup)
{
    return loop_timer_set(warmup->branches->loop, &warmup->limit, clock_now() + IMPORT_LIMIT, on_import_due);
}

static int limit_setup(Warmup *warmup)
{
    uint64_t time = clock_from_seconds(warmup->setup_seconds);

    return loop_timer_set(warmup->branches->loop, &warmup->limit, clock_now() + time, on_setup_due);
}

/* The modules are there. */
static void set_up(Warmup *warmup, Branch *branch)
{
    int r;

    if (!warmup->setup) {
        take_pristine(warmup, branch);
        return;
    }
    warmup->step = WARMUP_SETS_UP;
    r = limit_setup(warmup);
    if (r == 0)
        r = send_prepare(branch, NULL, NULL, warmup->setup);
    if (r < 0)
        branch_kill(branch, strerror(-r));
}

/* Runs the first steps of a session once, so that their copy-on-write faults are paid now and not by the
 * first call. */
static void warm_up(Warmup *warmup, Branch *branch)
{
    Buf nothing _cleanup_(buf_deinit) = BUF_NULL;

    warmup->step = WARMUP_WARMS;
    if (!branch_is_ready(branch) || keep_names(&nothing, NULL) < 0 || limit_imports(warmup) < 0 ||
        send_prepare(branch, &warmup->branches->environment, &nothing, NULL) < 0)
        become_ready(warmup);
}

static void start_anew(Branch *branch)
{
    Checkpoint *pristine;

    branch_end_processes(branch);
    branch_forget_line(branch);
    pristine = checkpoints_pristine(&branch->set->checkpoints);
    if (pristine)
        checkpoint_drop(pristine, NULL);
    branch_spawn(branch);
}

/* An interpreter that replaces one that died during its imports imports nothing. */
static void import(Warmup *warmup, Branch *branch)
{
    bool again = warmup->step == WARMUP_IMPORTS;
    int r = 0;

    if (again) {
        buf_clear(&warmup->failed);
        r = buf_append(&warmup->failed, buf_head(&warmup->imports), warmup->imports.size);
    } else {
        warmup->step = WARMUP_IMPORTS;
        r = send_prepare(branch, NULL, &warmup->imports, NULL);
    }
    if (r == 0 && !again)
        r = limit_imports(warmup);
    if (r < 0)
        branch_kill(branch, strerror(-r));
    else if (again)
        set_up(warmup, branch);
}

/* Begins a spare anew whose memory is that of an interpreter with children or connections, which it lacks.
 * Not at once: its interpreter speaks. */
static void share_over(Warmup *warmup, const Branch *branch, bool copied)
{
    warmup->lacks = copied && branch->lacks;
    warmup->shares = copied && !warmup->lacks;
    if (!warmup->lacks)
        return;
    warmup->keeps = false;
    branches_changed(warmup->branches);
}

void warmup_on_ready(Warmup *warmup, Branch *branch, bool copied)
{
    if (warmup->step == WARMUP_STARTS && warmup->shares)
        share_over(warmup, branch, copied);
    if (!warmup_is_spare(warmup))
        tell_news(branch);
    else if (warmup->step == WARMUP_FAILED || warmup->lacks)
        return;
    else if (!copied)
        import(warmup, branch);
    else if (warmup->step == WARMUP_STARTS) /* all has been prepared in the memory */
        warm_up(warmup, branch);
    else if (warmup->step == WARMUP_WARMS) /* a copy of the pristine checkpoint has all */
        become_ready(warmup);
}

static int imported(Warmup *warmup, Branch *branch, const MsgPrepared *said, Problem *problem)
{
    if (keep_names(&warmup->failed, &said->failed) < 0)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    warmup->keeps &= value_count(&said->failed) == 0;
    set_up(warmup, branch);
    return 0;
}

/* Keeps no memory of setup code that has changed files: those of another sandbox would be without that. */
static void was_set_up(Warmup *warmup, Branch *branch, const MsgPrepared *said)
{
    Text changed = value_count(&said->failed) > 0 ? value_text(&said->failed, 0) : (Text){0};

    if (changed.data)
        log_info("memory not kept", "reason=%.*s", (int)changed.size, changed.data);
    warmup->keeps &= !changed.data;
    take_pristine(warmup, branch);
}

int warmup_on_prepared(Warmup *warmup, Branch *branch, const Message *message, Problem *problem)
{
    MsgPrepared said;
    int r = body_decode(&said, MsgPrepared, &message->body, problem);

    if (r < 0)
        return r;
    if (!inquiries_answered(&branch->interpreter.preparations, message->id))
        return problem_set(problem, ERR_BAD_REQUEST, "`prepared` that answers nothing");
    if (!warmup_is_spare(warmup))
        note_failure(branch, &said.failed);
    if (warmup->step == WARMUP_WARMS)
        become_ready(warmup);
    else if (warmup->step == WARMUP_SETS_UP && said.has_error)
        fail(warmup, said.error.name, said.error.message, said.error.traceback);
    else if (warmup->step == WARMUP_SETS_UP)
        was_set_up(warmup, branch, &said);
    else if (warmup->step == WARMUP_IMPORTS)
        return imported(warmup, branch, &said, problem);
    return 0;
}

/* A directory that the copy writes it to, with the rights of the code in it. */
#define KEEP_PLACE SESSION_PATH "/.limpet-memory"
#define KEEP_FILE  KEEP_PLACE "/memory"
#define KEEP_LIMIT (20 * NSEC_PER_SEC)

void warmup_share(Warmup *warmup, int shared)
{
    int r = branch_thaw_pristine(first_branch(warmup), shared);

    warmup->shares = r == 0;
    if (r < 0)
        log_info("memory not shared", "error=%s", strerror(-r));
}

static int take_file(const CommandLine *command_line)
{
    int fd = -1, r = act_as(command_line->uid);

    if (r == 0)
        fd = open(KEEP_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (r == 0)
        unlink(KEEP_FILE);
    if (r == 0)
        rmdir(KEEP_PLACE);
    act_as_self();
    return fd;
}

static void take_kept(Warmup *warmup)
{
    Checkpoint *pristine = checkpoints_pristine(&warmup->branches->checkpoints);
    bool saved = pristine && pristine->saved;
    int fd;

    if (pristine && pristine->saves && loop_timer_is_set(&warmup->limit))
        return;
    loop_timer_cancel(&warmup->limit);
    fd = take_file(warmup->branches->command_line);
    if (saved)
        warmup->kept = take_fd(&fd);
    close_fd(&fd);
    warm_up(warmup, first_branch(warmup));
}

static void begin_anew(Warmup *warmup)
{
    warmup->lacks = false;
    start_anew(first_branch(warmup));
}

void warmup_advance(Warmup *warmup)
{
    if (warmup->lacks)
        begin_anew(warmup);
    if (warmup->step == WARMUP_KEEPS)
        take_kept(warmup);
}

static void on_keep_due(LoopTimer *timer)
{
    take_kept(container_of(timer, Warmup, limit));
}

/* Returns whether it is about to be written. */
static bool keep(Warmup *warmup)
{
    Branches *set = warmup->branches;
    Checkpoint *pristine = checkpoints_pristine(&set->checkpoints);
    int directory _cleanup_(closep) = -1;
    int r;

    if (!warmup->keeps || !pristine || !branch_make_place(first_branch(warmup), KEEP_PLACE))
        return false;
    warmup->step = WARMUP_KEEPS;
    directory = open(KEEP_PLACE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    r = directory < 0 ? -errno : checkpoint_save(pristine, directory, false);
    if (r == 0)
        r = loop_timer_set(set->loop, &warmup->limit, clock_now() + KEEP_LIMIT, on_keep_due);
    if (r < 0)
        branches_changed(set);
    return true;
}

void warmup_on_pristine(Warmup *warmup)
{
    if (warmup->step == WARMUP_FREEZES && !keep(warmup))
        warm_up(warmup, first_branch(warmup));
}

/* Such a spare is of no use. Whoever keeps spares sees it end. */
void warmup_on_start_failed(Warmup *warmup)
{
    if (warmup_is_spare(warmup))
        loop_stop(warmup->branches->loop, 1);
}

/* Fails a set-up that has lost its interpreter. Nothing is said of one that ends over its imports alone: the
 * next one does without. */
void warmup_on_lost(Warmup *warmup, const Branch *branch)
{
    int status = branch->interpreter.status;
    char message[128];

    if (warmup->step != WARMUP_SETS_UP)
        return;
    if (WIFSIGNALED(status))
        snprintf(message, sizeof(message), "signal %d ended the interpreter while it ran the setup code%s",
                 WTERMSIG(status), WTERMSIG(status) == SIGKILL ? "; it may have needed more memory" : "");
    else
        snprintf(message, sizeof(message), "the setup code ended its interpreter with exit code %d",
                 WEXITSTATUS(status));
    fail(warmup, text_of(WIFSIGNALED(status) ? "Crashed" : "Exited"), text_of(message), text_of(""));
}

/* ---- the network ---- */

void warmup_proxy(Warmup *warmup)
{
    Branch *branch;

    warmup->branches->proxied_late = true;
    list_foreach (branch, &warmup->branches->all, Branch, link) {
        branch->news |= NEWS_PROXY;
        tell_news(branch);
    }
}

/* ---- the claim ---- */

void warmup_become_session(Warmup *warmup, bool anew)
{
    Branch *branch = first_branch(warmup);

    warmup_deinit(warmup);
    branch_forget_past(branch);
    log_info("claimed", "start=%d", anew);
    if (anew) {
        start_anew(branch);
        return;
    }
    if (branch->set->environment_changed)
        branch->news |= NEWS_ENVIRONMENT;
    tell_news(branch);
    if (!branch_is_recovering(branch))
        branch_stand_on_pristine(branch);
    policy_on_quiet(branch, clock_now());
}
