#include "host/journal/adoption.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host/call/record.h"
#include "host/journal/journal.h"
#include "host/journal/session_journal.h"
#include "host/session/checkpoint_files.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static const SandboxOwner adoption_owner;

/* As a journal names it; `root session` is in no sandbox yet. NULL, and the root session as it was, when out
 * of memory. */
static Sandbox *adoption_begin(Adopting *all, Session *root, const char *instance, bool ephemeral,
                               double created, SessionOptions *options)
{
    Adoption *adoption = calloc(1, sizeof(*adoption));
    Sandbox *sandbox = NULL;

    if (adoption)
        sandbox = sandbox_restore(all->sandboxes, root->user, root->name, instance, ephemeral, created,
                                  options, &adoption_owner, adoption);
    if (!sandbox) {
        free(adoption);
        return NULL;
    }
    adoption->all = all;
    list_init(&adoption->waiting);
    all->count++;
    session_move_in(root, sandbox);
    return sandbox;
}

Adoption *adoption_of(const Session *session)
{
    const Sandbox *sandbox = session->sandbox;

    return sandbox && sandbox->owner == &adoption_owner ? sandbox->userdata : NULL;
}

/* Ends an adoption: the requests that waited go on. */
static void settle(Adoption *adoption)
{
    Adopting *all = adoption->all;

    all->count--;
    all->events->settled(all->userdata, &adoption->waiting, adoption->lost);
    free(adoption);
    if (all->count == 0)
        all->events->all_settled(all->userdata);
}

/* ---- what its supervisor says ---- */

/* A call that the supervisor speaks of becomes the one that runs. NULL when out of memory. */
static Call *run_call(Sandbox *sandbox, Session *session, const char *run_id, uint64_t code_hash,
                      uint64_t number)
{
    const Adoption *adoption = sandbox->userdata;
    Call *call = call_adopt(adoption->all->calls, &call_turn_ops, session, run_id, code_hash);

    if (call)
        call_resume(call, number);
    return call;
}

/* Takes over a command; one of a branch that was closed meanwhile is the session's. False when out of
 * memory. */
static bool take_command(Sandbox *sandbox, const GuestRunning *command)
{
    const Adoption *adoption = sandbox->userdata;
    Session *session = session_find_branch(sandbox->root, command->branch);
    Call *call;

    if (!session)
        session = sandbox->root;
    if (call_find(adoption->all->calls, session->user, command->run_id))
        return true;
    call = call_adopt(adoption->all->calls, command->background ? &process_turn_ops : &command_turn_ops,
                      session, command->run_id, command->code_hash);
    if (!call)
        return false;
    call->started = true;
    call_resume(call, command->id);
    return true;
}

static bool take_commands(Sandbox *sandbox, const GuestHello *hello)
{
    for (size_t i = 0; i < hello->command_count; i++)
        if (!take_command(sandbox, &hello->commands[i]))
            return false;
    return true;
}

/* False when no honest supervisor says so. */
static bool take_running(Sandbox *sandbox, const GuestRunning *running)
{
    const Adoption *adoption = sandbox->userdata;
    Session *session = session_find_branch(sandbox->root, running->branch);

    if (running->id == 0 || (sandbox->running && sandbox->running->number == running->id))
        return true;
    if (!session || sandbox->running || call_find(adoption->all->calls, session->user, running->run_id))
        return false;
    return run_call(sandbox, session, running->run_id, running->code_hash, running->id);
}

static int inquire(Sandbox *sandbox)
{
    Adoption *adoption = sandbox->userdata;

    adoption->inquiry = sandboxes_next_number(sandbox->all);
    return sandbox_send(sandbox, MSG_CHECKPOINTS, adoption->inquiry);
}

static void on_hello(Sandbox *sandbox, const GuestHello *hello)
{
    session_match(sandbox->root, hello);
    if (sandbox_is_ending(sandbox))
        return;
    if (!take_commands(sandbox, hello))
        sandbox_close(sandbox, "out of memory");
    else if (!take_running(sandbox, &hello->running))
        sandbox_close(sandbox, "its supervisor reports a call that cannot be running");
    else if (hello->running.id != 0) /* nothing older follows */
        sandbox_supervisor_ready(sandbox);
    else if (inquire(sandbox) < 0)
        sandbox_close(sandbox, "its supervisor cannot be reached");
}

/* The call that ended while no controller listened; NULL when there is none of that name to end. */
static Call *find_ended(Sandbox *sandbox, const MsgExecuted *executed, uint64_t number)
{
    const Adoption *adoption = sandbox->userdata;
    Session *session = session_find_branch(sandbox->root, executed->branch);
    char run_id[LIMIT_RUN_ID + 1];

    if (!session || sandbox->running || !run_id_valid(executed->run_id))
        return NULL;
    snprintf(run_id, sizeof(run_id), "%.*s", (int)executed->run_id.size, executed->run_id.data);
    if (call_find(adoption->all->calls, session->user, run_id))
        return NULL;
    return run_call(sandbox, session, run_id, executed->code_hash, number);
}

/* Handles the end of a call, which is found or made to run now for that. */
static int on_executed(Sandbox *sandbox, const Message *message, Problem *problem)
{
    MsgExecuted executed;
    Call *call;
    int r = record_decode(&executed, &message->body, problem);

    if (r < 0)
        return r;
    call = find_ended(sandbox, &executed, message->id);
    if (call)
        return call->to_guest.ops->message(&call->to_guest, message, problem);
    sandbox_send(sandbox, MSG_SETTLED, message->id); /* stored, or asked for by nobody any more */
    return 0;
}

/* With an error instead of checkpoints nothing is known of their files. */
static void on_answer(Sandbox *sandbox, const Message *message)
{
    const Adoption *adoption = sandbox->userdata;
    Problem problem = PROBLEM_NULL;
    MsgGuestCheckpoints answer;

    if (adoption->inquiry == 0 || adoption->inquiry != message->id)
        return;
    if (message->kind == MSG_REPLY &&
        body_decode(&answer, MsgGuestCheckpoints, &message->body, &problem) == 0)
        checkpoint_files_prune(sandbox, &answer.checkpoints);
    sandbox_supervisor_ready(sandbox);
}

static int on_message(Sandbox *sandbox, const Message *message, Problem *problem)
{
    if (message->kind == MSG_EXECUTED)
        return on_executed(sandbox, message, problem);
    if (message->kind == MSG_REPLY || message->kind == MSG_ERROR)
        on_answer(sandbox, message);
    return 0;
}

/* ---- the end of it ---- */

static void lose(Sandbox *sandbox, const char *reason)
{
    Adoption *adoption = sandbox->userdata;

    if (sandbox->root->hidden)
        return;
    log_warn("adopted session lost", "session=%s reason=%s", sandbox->name, reason);
    snprintf(adoption->lost, sizeof(adoption->lost), "%s", reason);
}

/* A container for one call that runs none has either had it or will not get it. */
static void on_ready(Sandbox *sandbox)
{
    Adoption *adoption = sandbox->userdata;
    Session *root = sandbox->root;

    session_prepare(root);
    if (sandbox->ephemeral && !sandbox->running) {
        root->hidden = true;
        sandbox_close(sandbox, "its call has ended");
        return;
    }
    if (sandbox->running && sandbox->running->state == REQUEST_SENT)
        sandbox_watch(sandbox, TIMEOUT_MAXIMUM);
    log_info("session adopted", "session=%s calls=%llu", root->name,
             (unsigned long long)root->execution_count);
    sandbox->owner = &session_owner;
    sandbox->userdata = NULL;
    settle(adoption);
}

static void on_failed(Sandbox *sandbox, const Problem *problem)
{
    session_owner.failed(sandbox, problem);
}

static void on_rested(Sandbox *sandbox, Session *session)
{
    session_owner.rested(sandbox, session);
}

static void on_closing(Sandbox *sandbox, const char *reason)
{
    lose(sandbox, reason);
    session_owner.closing(sandbox, reason);
}

static void on_gone(Sandbox *sandbox)
{
    Adoption *adoption = sandbox->userdata;

    session_owner.gone(sandbox);
    settle(adoption);
}

static const SandboxOwner adoption_owner = {
    .hello = on_hello,
    .message = on_message,
    .ready = on_ready,
    .failed = on_failed,
    .rested = on_rested,
    .closing = on_closing,
    .gone = on_gone,
};

/* The engine knows nothing of it, and nothing is to be waited for: what is left of it is swept away. */
static void adoption_abandon(Sandbox *sandbox, const Problem *problem)
{
    Session *session;

    log_error("session not adopted", "session=%s reason=%s", sandbox->name, problem->text);
    list_foreach (session, &sandbox->root->branches, Session, in_branches) {
        session->hidden = false;
        session_note_end(session, problem->text);
    }
    lose(sandbox, problem->text);
    sandbox_abandon(sandbox);
}

/* Ends the adoption of a session that is saved: there is nothing to be waited for. */
static void adoption_saved(Sandbox *sandbox)
{
    Adoption *adoption = sandbox->userdata;

    sandbox->owner = &session_owner;
    sandbox->userdata = NULL;
    session_restore_saved(sandbox->root);
    log_info("session is saved", "session=%s", sandbox->name);
    settle(adoption);
}

/* ---- from the journal ---- */

#define ENGINE_NAME_SIZE 16

typedef struct Replay {
    Adopting *all;
    Sandbox *sandbox; /* NULL until its session is known */
    uint64_t size;    /* of what makes sense */
    size_t sessions;  /* as many `session` are still to come: what is before the last was another's */
    bool sleeps;      /* the last `saved` or `ready` is a `saved` */
    bool ready, saved, closing;
    Problem problem; /* why it cannot go on */
} Replay;

static void copy_text(char *ret, size_t size, Text text)
{
    snprintf(ret, size, "%.*s", (int)text.size, text.data);
}

static uid_t user_of(const Adopting *all, const JournalSession *session)
{
    return journal_user(session->user, all->sandboxes->paths->user);
}

/* The names are those that a controller gives, and nobody has them. */
static bool is_sound(const Adopting *all, const JournalSession *session)
{
    const Sandboxes *sandboxes = all->sandboxes;
    char container[64];

    snprintf(container, sizeof(container), "limpet-%s-%.*s", sandboxes->paths->owner,
             (int)session->instance.size, session->instance.data);
    if (!text_equal(session->engine, sandboxes_engine(sandboxes))) {
        log_error("session of another engine", "session=%.*s engine=%.*s consequence=%s",
                  (int)session->name.size, session->name.data, (int)session->engine.size,
                  session->engine.data, "the session is lost, and its container ends after orphan_timeout");
        return false;
    }
    return text_equal(session->container, container) &&
           !sessions_holder(all->sessions, user_of(all, session), session->name) &&
           (session->name.data[0] == *PRIVATE_MARK || (!session->ephemeral && name_valid(session->name)));
}

static Sandbox *new_sandbox(Adopting *all, const JournalSession *entry, SessionOptions *options)
{
    char name[LIMIT_SESSION_PATH + 1], instance[INSTANCE_SIZE];
    Sandbox *sandbox = NULL;
    Session *root;

    copy_text(name, sizeof(name), entry->name);
    copy_text(instance, sizeof(instance), entry->instance);
    root = session_new(all->sessions, user_of(all, entry), name);
    if (root && sessions_add(root) == 0)
        sandbox = adoption_begin(all, root, instance, entry->ephemeral, entry->created, options);
    if (sandbox) {
        sandbox->forked = entry->forked;
        sandbox->memory = memory_image_find(&all->sandboxes->images, entry->memory);
        root->announced = true;
    } else {
        session_free(root);
    }
    return sandbox;
}

/* Whatever of it is gone: there is still the container to be removed. One that is saved needs none of it
 * before it is woken. */
static void attach(Replay *replay, const JournalSession *entry)
{
    Sandbox *sandbox = replay->sandbox;
    Problem problem = PROBLEM_NULL;
    char id[NAME_MAX + 1], link[NAME_MAX + 1];

    copy_text(id, sizeof(id), entry->directory);
    copy_text(link, sizeof(link), entry->link);
    sandbox_restore_files(sandbox, id, replay->sleeps, &problem);
    if (*link)
        sandbox_restore_link(sandbox, link, (const uint8_t *)entry->secret.data, &problem);
    if (!replay->sleeps)
        replay->problem = problem;
    else if (problem.code != ERR_NONE)
        log_warn("saved session is not whole", "session=%s reason=%s", sandbox->name, problem.text);
}

static int replay_session(Replay *replay, const JournalEntry *entry)
{
    SessionOptions options _cleanup_(session_options_deinit) = {0};

    if (!is_sound(replay->all, &entry->session) ||
        session_options_read(&options, entry->session.options.map, &replay->problem) < 0)
        return -EBADMSG;
    replay->sandbox = new_sandbox(replay->all, &entry->session, &options);
    if (!replay->sandbox)
        return -ENOMEM;
    attach(replay, &entry->session);
    return 0;
}

static int replay_ready(Replay *replay, const JournalEntry *entry)
{
    replay->ready = true;
    replay->saved = false;
    return 0;
}

static int replay_saved(Replay *replay, const JournalEntry *entry)
{
    replay->saved = true;
    session_note(replay->sandbox->root, entry->saved.execution_count, entry->saved.epoch);
    replay->sandbox->parked = isnan(entry->saved.since) ? clock_unix() : entry->saved.since;
    return session_keep_unreported(replay->sandbox->root, &entry->saved.unreported);
}

static int replay_closing(Replay *replay, const JournalEntry *entry)
{
    replay->closing = true;
    return 0;
}

static int replay_branch(Replay *replay, const JournalEntry *entry)
{
    const JournalBranch *said = &entry->branch;
    Session *root = replay->sandbox->root, *branch;
    char name[LIMIT_SESSION_PATH + 1];

    if (sessions_holder(replay->all->sessions, root->user, said->name) ||
        session_find_branch(root, said->branch))
        return -EBADMSG;
    copy_text(name, sizeof(name), said->name);
    branch = session_restore_branch(root, said->branch, name);
    if (!branch)
        return -ENOMEM;
    if (session_set_place(branch, said->language, said->cwd) < 0)
        return -ENOMEM;
    copy_text(branch->instance, sizeof(branch->instance), said->instance);
    branch->created = said->created;
    branch->announced = true;
    return 0;
}

/* Its records have a file of their own since. */
static int replay_branch_closed(Replay *replay, const JournalEntry *entry)
{
    Session *branch = session_find_branch(replay->sandbox->root, entry->branch.branch);

    if (branch && branch->branch != 0) {
        calls_orphan(replay->all->calls, &branch->stored);
        session_forget_branch(branch);
    }
    return 0;
}

static int replay_call(Replay *replay, const JournalEntry *entry)
{
    const JournalCall *said = &entry->call;
    Session *session = session_find_branch(replay->sandbox->root, said->branch);
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Call *call;

    replay->sandbox->oom_kills = said->oom_kills;
    copy_text(run_id, sizeof(run_id), said->run_id);
    if (!session || call_find(replay->all->calls, session->user, run_id))
        return 0;
    if (buf_append(&record, said->record.data, said->record.size) < 0 ||
        !(call = call_adopt(replay->all->calls, &call_turn_ops, session, run_id, said->code_hash)))
        return -ENOMEM;
    call_end(call, &record);
    return 0;
}

static int replay_files(Replay *replay, const JournalEntry *entry)
{
    session_files_reported(&replay->sandbox->files, entry->files);
    return 0;
}

static int replay_packages(Replay *replay, const JournalEntry *entry)
{
    copy_text(replay->sandbox->packages, sizeof(replay->sandbox->packages), entry->packages);
    return 0;
}

/* Entries before the last `session` do not. */
static bool counts(Replay *replay, EntryKind kind)
{
    if (kind == ENTRY_SESSION)
        replay->sessions--;
    return replay->sessions == 0;
}

static int replay_entry(void *userdata, const void *bytes, size_t size)
{
    static int (*const replays[ENTRY_KINDS])(Replay *, const JournalEntry *) = {
        [ENTRY_SESSION] = replay_session, [ENTRY_READY] = replay_ready,
        [ENTRY_BRANCH] = replay_branch,   [ENTRY_BRANCH_CLOSED] = replay_branch_closed,
        [ENTRY_CALL] = replay_call,       [ENTRY_FILES] = replay_files,
        [ENTRY_CLOSING] = replay_closing, [ENTRY_PACKAGES] = replay_packages,
        [ENTRY_SAVED] = replay_saved,
    };
    Replay *replay = userdata;
    Problem problem = PROBLEM_NULL;
    JournalEntry entry;
    int r = journal_entry_decode(&entry, bytes, size, &problem);

    if (r < 0)
        return r;
    if (counts(replay, entry.kind))
        r = replays[entry.kind] && (replay->sandbox || entry.kind == ENTRY_SESSION)
                ? replays[entry.kind](replay, &entry)
                : -EBADMSG;
    journal_entry_deinit(&entry);
    return r;
}

/* ---- at start ---- */

static void hide(const Session *root)
{
    Session *session;

    list_foreach (session, &root->branches, Session, in_branches)
        session->hidden = true;
}

/* Restores the container of a sandbox. One of a saved session is only to be removed. */
static int restore_container(const Replay *replay, Problem *problem)
{
    if (!replay->saved)
        return sandbox_restore_container(replay->sandbox, problem);
    sandbox_restore_parked(replay->sandbox);
    return 0;
}

static void begin(Replay *replay)
{
    Sandbox *sandbox = replay->sandbox;
    bool open = replay->ready && !replay->closing;
    Problem problem = PROBLEM_NULL;

    if (!open)
        hide(sandbox->root);
    if (sandbox->files.id)
        session_journal_go_on(sandbox, replay->size);
    if ((!sandbox->guest && !replay->saved) || !sandbox->files.id)
        adoption_abandon(sandbox, &replay->problem);
    else if (restore_container(replay, &problem) < 0)
        adoption_abandon(sandbox, &problem);
    else if (replay->problem.code != ERR_NONE)
        sandbox_close(sandbox, replay->problem.text);
    else if (!open)
        sandbox_close(sandbox, "its controller ended while the session was opened or closed");
    else if (replay->saved)
        adoption_saved(sandbox);
    else
        log_info("adopting session", "session=%s container=%s", sandbox->name, sandbox->container_name);
}

/* Notes what is to be known before the first entry is replayed. */
static int survey_entry(void *userdata, const void *bytes, size_t size)
{
    Problem problem = PROBLEM_NULL;
    JournalEntry entry;
    Replay *replay = userdata;
    int r = journal_entry_decode(&entry, bytes, size, &problem);

    if (r < 0)
        return r;
    if (entry.kind == ENTRY_SAVED || entry.kind == ENTRY_READY)
        replay->sleeps = entry.kind == ENTRY_SAVED;
    replay->sessions += entry.kind == ENTRY_SESSION;
    journal_entry_deinit(&entry);
    return 0;
}

/* Replays one journal and begins to adopt its session. Returns whether its container was there, or the
 * journal is gone. */
static bool adopt_one(Adopting *all, const char *id)
{
    Replay replay = {.all = all};
    char path[PATH_MAX];
    struct stat st;

    session_journal_path(path, sizeof(path), all->sandboxes->paths, id);
    if (lstat(path, &st) < 0)
        return true;
    journal_read(path, survey_entry, &replay, &replay.size);
    journal_read(path, replay_entry, &replay, &replay.size);
    if (stat(path, &st) == 0 && (uint64_t)st.st_size > replay.size)
        log_warn("journal truncated", "path=%s bytes=%llu of=%lld", path, (unsigned long long)replay.size,
                 (long long)st.st_size);
    if (!replay.sandbox)
        log_error("journal unusable", "path=%s consequence=%s", path, "the rest of its session is removed");
    if (!replay.sandbox || !replay.sandbox->files.id)
        unlink(path);
    if (replay.sandbox)
        begin(&replay);
    return replay.ready;
}

static int take_engine(void *userdata, const void *bytes, size_t size)
{
    Problem problem = PROBLEM_NULL;
    JournalEntry entry;

    if (journal_entry_decode(&entry, bytes, size, &problem) == 0) {
        if (entry.kind == ENTRY_SESSION)
            copy_text(userdata, ENGINE_NAME_SIZE, entry.session.engine);
        journal_entry_deinit(&entry);
    }
    return -ECANCELED; /* the first entry is enough */
}

/* Calls `on_journal` with the ids of all journals, until it returns true. What was being written when a
 * controller was killed goes. */
static void for_each_journal(const Paths *paths, bool (*on_journal)(void *userdata, const char *id),
                             void *userdata)
{
    struct dirent *entry;
    bool done = false;
    DIR *journals;

    mkdir(paths->journals, 0700);
    journals = opendir(paths->journals);
    while (!done && journals && (entry = readdir(journals))) {
        size_t n = strlen(entry->d_name), suffix = strlen(JOURNAL_SUFFIX);

        if (entry->d_name[0] == '.')
            continue;
        if (n <= suffix || strcmp(entry->d_name + n - suffix, JOURNAL_SUFFIX) != 0) {
            unlinkat(dirfd(journals), entry->d_name, 0);
            continue;
        }
        entry->d_name[n - suffix] = '\0';
        done = on_journal(userdata, entry->d_name);
    }
    if (journals)
        closedir(journals);
}

typedef struct AdoptedEngine {
    const Paths *paths;
    char name[ENGINE_NAME_SIZE];
} AdoptedEngine;

static bool find_engine(void *userdata, const char *id)
{
    AdoptedEngine *engine = userdata;
    char path[PATH_MAX];
    uint64_t size;

    session_journal_path(path, sizeof(path), engine->paths, id);
    journal_read(path, take_engine, engine->name, &size);
    return *engine->name;
}

const EngineOps *adopt_engine(const Paths *paths)
{
    AdoptedEngine engine = {.paths = paths};

    for_each_journal(paths, find_engine, &engine);
    return *engine.name ? engine_find(engine.name) : NULL;
}

typedef struct AdoptAll {
    Adopting *all;
    bool complete;
} AdoptAll;

static bool adopt_next(void *userdata, const char *id)
{
    AdoptAll *adopt = userdata;

    adopt->complete &= adopt_one(adopt->all, id);
    return false;
}

bool adopt_all(Adopting *all)
{
    AdoptAll adopt = {all, true};

    for_each_journal(all->sandboxes->paths, adopt_next, &adopt);
    history_sweep(all->sandboxes->paths);
    return !adopt.complete;
}
