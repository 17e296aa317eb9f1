#include "host/adopt.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/adopt_wait.h"
#include "host/epitaph.h"
#include "host/files/snapshot.h"
#include "host/former.h"
#include "host/journal_ended.h"
#include "host/journal_entry.h"
#include "host/journal_sandbox.h"
#include "host/sandbox_parts.h"
#include "host/sessions.h"
#include "proto/base/log.h"

/* ---- from the journal ------------------------------------------------------------------------------------
 */

#define ENGINE_NAME_SIZE 16

typedef struct Replay {
    Controller *controller;
    Sandbox *sandbox; /* NULL until its session is known */
    uint64_t size;    /* of what makes sense */
    bool ready, closing;
    Problem problem; /* why it cannot go on */
} Replay;

static void copy_text(char *ret, size_t size, Text text)
{
    snprintf(ret, size, "%.*s", (int)text.size, text.data);
}

static Session *new_session(Controller *controller, Text name, Text instance, double created)
{
    char path[LIMIT_SESSION_PATH + 1];
    Session *session;

    copy_text(path, sizeof(path), name);
    session = session_new(controller, path);
    if (!session)
        return NULL;
    copy_text(session->instance, sizeof(session->instance), instance);
    session->created = created;
    session->announced = true;
    return session;
}

/* The names are those that a controller gives, and nobody has them. */
static bool is_sound(const Controller *controller, const JournalSession *session)
{
    char container[64];

    snprintf(container, sizeof(container), "limpet-%s-%.*s", controller->paths->owner,
             (int)session->instance.size, session->instance.data);
    if (!text_equal(session->engine, controller->engine->ops->name)) {
        log_error("session of another engine", "session=%.*s engine=%.*s consequence=%s",
                  (int)session->name.size, session->name.data, (int)session->engine.size,
                  session->engine.data, "it is lost, and its container ends by itself");
        return false;
    }
    return text_equal(session->container, container) &&
           !sessions_holder((Controller *)controller, session->name) &&
           (session->name.data[0] == *PRIVATE_MARK || (!session->ephemeral && name_valid(session->name)));
}

static Sandbox *new_sandbox(Controller *controller, const JournalSession *entry, SessionOptions *options)
{
    Adoption *adoption _cleanup_(freep) = calloc(1, sizeof(*adoption));
    Session *trunk = adoption ? new_session(controller, entry->name, entry->instance, entry->created) : NULL;
    Sandbox *sandbox = trunk ? sandbox_new(controller, trunk, entry->ephemeral, options) : NULL;

    if (!sandbox) {
        free(trunk);
        return NULL;
    }
    list_init(&adoption->waiting);
    sandbox->adoption = take(adoption);
    copy_text(sandbox->container_name, sizeof(sandbox->container_name), entry->container);
    trunk->sandbox = sandbox;
    sessions_add(controller, trunk);
    controller->adopting++;
    return sandbox;
}

/* Whatever of it is gone: there is still the container to be removed. */
static int attach(Sandbox *sandbox, const JournalSession *entry, Problem *problem)
{
    Controller *controller = sandbox->controller;
    const char *name = sandbox->trunk->name, *published_id = sandbox->ephemeral ? name + 1 : name;
    char id[NAME_MAX + 1], link[NAME_MAX + 1];
    int r, s;

    copy_text(id, sizeof(id), entry->directory);
    copy_text(link, sizeof(link), entry->link);
    r = sessiondir_adopt(&sandbox->directory, controller->paths->state_dir, id, published_id,
                         sandbox->ephemeral, problem);
    if (r == 0)
        snapshot_recover(sandbox->directory.files_fd);
    s = guest_adopt(&sandbox->guest, controller, id, link, (const uint8_t *)entry->secret.data,
                    &sandbox_guest_events, sandbox, problem);
    if (r == 0)
        r = sandbox_watch_artifacts(sandbox, problem);
    return r < 0 ? r : s;
}

static int replay_session(Replay *replay, const JournalEntry *entry)
{
    SessionOptions options _cleanup_(session_options_deinit) = {0};

    if (replay->sandbox || !is_sound(replay->controller, &entry->session) ||
        session_options_read(&options, entry->session.options.map, &replay->problem) < 0)
        return -EBADMSG;
    replay->sandbox = new_sandbox(replay->controller, &entry->session, &options);
    if (!replay->sandbox)
        return -ENOMEM;
    attach(replay->sandbox, &entry->session, &replay->problem);
    return 0;
}

static int replay_ready(Replay *replay, const JournalEntry *entry)
{
    replay->ready = true;
    return 0;
}

static int replay_closing(Replay *replay, const JournalEntry *entry)
{
    replay->closing = true;
    return 0;
}

static int replay_branch(Replay *replay, const JournalEntry *entry)
{
    const JournalBranch *branch = &entry->branch;
    Controller *controller = replay->controller;
    Sandbox *sandbox = replay->sandbox;
    Session *session;

    if (sessions_holder(controller, branch->name) || sandbox_find_branch(sandbox, branch->branch))
        return -EBADMSG;
    session = new_session(controller, branch->name, branch->instance, branch->created);
    if (!session)
        return -ENOMEM;
    session->sandbox = sandbox;
    session->branch = branch->branch;
    list_append(&sandbox->sessions, &session->in_sandbox);
    sessions_add(controller, session);
    return 0;
}

/* Its records have a file of their own since. */
static void forget_branch(Session *branch)
{
    Controller *controller = branch->controller;
    Farewell farewell;

    former_add(branch->sandbox, branch->branch, branch->name);
    calls_orphan(controller, &branch->stored);
    farewell_init(&farewell);
    session_free(branch, &farewell);
    farewell_tell(&farewell, controller);
}

static int replay_branch_closed(Replay *replay, const JournalEntry *entry)
{
    Session *branch = sandbox_find_branch(replay->sandbox, entry->branch.branch);

    if (branch && branch->branch != 0)
        forget_branch(branch);
    return 0;
}

static int replay_call(Replay *replay, const JournalEntry *entry)
{
    const JournalCall *said = &entry->call;
    Session *session = sandbox_find_branch(replay->sandbox, said->branch);
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    char run_id[LIMIT_RUN_ID + 1];
    Call *call;

    replay->sandbox->oom_kills = said->oom_kills;
    copy_text(run_id, sizeof(run_id), said->run_id);
    if (!session || call_find(replay->controller, run_id))
        return 0;
    if (buf_append(&record, said->record.data, said->record.size) < 0 ||
        !(call = call_adopt(session, run_id, said->code_hash)))
        return -ENOMEM;
    call_end(call, &record);
    return 0;
}

static int replay_files(Replay *replay, const JournalEntry *entry)
{
    if (replay->sandbox->artifacts)
        artifacts_read_baseline(replay->sandbox->artifacts, entry->files);
    return 0;
}

static int replay_entry(void *userdata, const void *bytes, size_t size)
{
    static int (*const replays[ENTRY_KINDS])(Replay *, const JournalEntry *) = {
        [ENTRY_SESSION] = replay_session, [ENTRY_READY] = replay_ready,
        [ENTRY_BRANCH] = replay_branch,   [ENTRY_BRANCH_CLOSED] = replay_branch_closed,
        [ENTRY_CALL] = replay_call,       [ENTRY_FILES] = replay_files,
        [ENTRY_CLOSING] = replay_closing,
    };
    Replay *replay = userdata;
    Problem problem = PROBLEM_NULL;
    JournalEntry entry;
    int r = journal_entry_decode(&entry, bytes, size, &problem);

    if (r < 0)
        return r;
    r = replays[entry.kind] && (replay->sandbox || entry.kind == ENTRY_SESSION)
            ? replays[entry.kind](replay, &entry)
            : -EBADMSG;
    journal_entry_deinit(&entry);
    return r;
}

/* ---- at start --------------------------------------------------------------------------------------------
 */

/* The engine knows nothing of it, and nothing is to be waited for: what is left of it is swept away. */
static void abandon(Sandbox *sandbox, const Problem *problem)
{
    Session *session;

    log_error("session not adopted", "session=%s reason=%s", sandbox->trunk->name, problem->text);
    sandbox->adoption->open = true;
    list_foreach (session, &sandbox->sessions, Session, in_sandbox)
        epitaph_note(session, problem->text);
    adopt_lose(sandbox, problem->text);
    sandbox_end(sandbox);
}

static void begin(Replay *replay)
{
    Sandbox *sandbox = replay->sandbox;
    Problem problem = PROBLEM_NULL;

    sandbox->adoption->open = replay->ready && !replay->closing;
    if (sandbox->directory.id)
        journal_go_on(sandbox, replay->size);
    if (!sandbox->guest || !sandbox->directory.id)
        abandon(sandbox, &replay->problem);
    else if (sandbox_adopt_container(sandbox, &problem) < 0)
        abandon(sandbox, &problem);
    else if (replay->problem.code != ERR_NONE)
        sandbox_close(sandbox, replay->problem.text);
    else if (!sandbox->adoption->open)
        sandbox_close(sandbox, "its controller ended before it was open, or while it was being closed");
    else
        log_info("adopting session", "session=%s container=%s", sandbox->trunk->name,
                 sandbox->container_name);
}

/* Whether its container was there. */
static bool adopt_one(Controller *controller, const char *id)
{
    Replay replay = {.controller = controller};
    char path[PATH_MAX];
    struct stat st;

    journal_path(path, sizeof(path), controller, id);
    if (access(path, F_OK) < 0)
        return true;
    journal_read(path, replay_entry, &replay, &replay.size);
    if (stat(path, &st) == 0 && (uint64_t)st.st_size > replay.size)
        log_warn("journal cut off", "path=%s bytes=%llu of=%lld", path, (unsigned long long)replay.size,
                 (long long)st.st_size);
    if (replay.sandbox)
        begin(&replay);
    else
        log_error("journal of no use", "path=%s consequence=%s", path,
                  "what is left of its session is removed");
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

const EngineOps *adopt_engine(const Controller *controller)
{
    char name[ENGINE_NAME_SIZE] = "", path[PATH_MAX];
    struct dirent *entry;
    uint64_t size;
    DIR *sessions;

    snprintf(path, sizeof(path), "%s/sessions", controller->paths->state_dir);
    sessions = opendir(path);
    while (!*name && sessions && (entry = readdir(sessions))) {
        journal_path(path, sizeof(path), controller, entry->d_name);
        journal_read(path, take_engine, name, &size);
    }
    if (sessions)
        closedir(sessions);
    return *name ? engine_find(name) : NULL;
}

bool adopt_all(Controller *controller)
{
    char path[PATH_MAX];
    struct dirent *entry;
    bool complete = true;
    DIR *sessions;

    snprintf(path, sizeof(path), "%s/sessions", controller->paths->state_dir);
    sessions = opendir(path);
    while (sessions && (entry = readdir(sessions)))
        if (entry->d_name[0] != '.')
            complete &= adopt_one(controller, entry->d_name);
    if (sessions)
        closedir(sessions);
    ended_load(controller);
    return !complete;
}
