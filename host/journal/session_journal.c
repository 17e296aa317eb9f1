#include "host/journal/session_journal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>

#include "host/journal/history.h"
#include "host/journal/journal.h"
#include "host/session/session.h"

struct SessionJournal {
    Journal file;
    History history;
    const Value *reported; /* while the file is written anew with what the file service says was reported */
};

/* Adds the place where the sandbox's supervisor connects. */
static void say_link(JournalSession *session, const Sandbox *sandbox)
{
    if (!sandbox->guest || sandbox->state == SANDBOX_PARKED)
        return;
    session->link = text_of(guest_name(sandbox->guest));
    session->secret = (Text){(const char *)sandbox->guest->secret, GUEST_SECRET_SIZE};
}

static int write_session(Buf *batch, const Sandbox *sandbox)
{
    Buf options _cleanup_(buf_deinit) = BUF_NULL;
    JournalSession session = {
        .name = text_of(sandbox->name),
        .user = sandbox->user,
        .instance = text_of(sandbox->instance),
        .directory = text_of(sandbox->files.id),
        .ephemeral = sandbox->ephemeral,
        .engine = text_of(sandboxes_engine(sandbox->all)),
        .container = text_of(sandbox->container_name),
        .created = sandbox->created,
        .options = value_encoded(&options),
    };
    const MsgOptions said = session_options_to_wire(&sandbox->options);
    int r = body_encode(&options, MsgOptions, &said);

    say_link(&session, sandbox);
    return r < 0 ? r : journal_write_session(batch, &session);
}

static int write_branch(Buf *batch, const Session *branch)
{
    return journal_write_branch(
        batch, &(JournalBranch){.branch = branch->branch,
                                .name = text_of(branch->name),
                                .instance = text_of(branch->instance),
                                .created = branch->created,
                                .language = text_of(branch->language[0] ? branch->language : NULL),
                                .cwd = text_of(branch->cwd)});
}

static bool is_saved(const Sandbox *sandbox)
{
    return sandbox->root && sandbox->root->state == SESSION_SAVED;
}

static int write_saved(Buf *batch, const Session *root)
{
    return journal_write_saved(batch, &(JournalSaved){.execution_count = root->execution_count,
                                                      .epoch = root->epoch,
                                                      .since = root->sandbox->parked,
                                                      .unreported = session_unreported(root)});
}

/* Clients were told of it, and it is whole: now, or by an earlier controller. */
static bool is_open(const Sandbox *sandbox)
{
    return is_saved(sandbox) || (sandbox->state == SANDBOX_READY && !sandbox->restorer) ||
           (sandbox->state == SANDBOX_ADOPTING && !sandbox->root->hidden);
}

/* Clients were told of it, and it does not end. */
static bool is_branch(const Session *session)
{
    return session->branch != 0 &&
           (session->state == SESSION_READY ||
            (session->state == SESSION_STARTING && session->sandbox->state == SANDBOX_ADOPTING));
}

static int write_branches(Buf *batch, const Session *root)
{
    Session *session;
    int r = 0;

    list_foreach (session, &root->branches, Session, in_branches)
        if (r == 0 && is_branch(session))
            r = write_branch(batch, session);
    return r;
}

static int write_life(Buf *batch, const Sandbox *sandbox)
{
    int r = write_session(batch, sandbox);

    if (r == 0 && is_open(sandbox))
        r = journal_write_plain(batch, ENTRY_READY);
    if (r == 0 && *sandbox->packages)
        r = journal_write_packages(batch, sandbox->packages);
    if (r == 0 && sandbox->root)
        r = write_branches(batch, sandbox->root);
    if (r == 0 && is_saved(sandbox))
        r = write_saved(batch, sandbox->root);
    if (r == 0 && sandbox->state == SANDBOX_CLOSING)
        r = journal_write_plain(batch, ENTRY_CLOSING);
    return r;
}

int session_journal_add_call(Buf *batch, const Call *call)
{
    const Session *session = call->to_guest.session;
    JournalCall entry = {
        .run_id = text_of(call->run_id),
        .user = call->user,
        .code_hash = call->code_hash,
        .branch = session->branch,
        .record = {(const char *)buf_head(&call->record), call->record.size},
        .oom_kills = session->sandbox->oom_kills,
    };

    return journal_write_call(batch, &entry);
}

static int put_call(Journal *journal, const Call *call)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = session_journal_add_call(&batch, call);
    return r < 0 ? r : journal_put(journal, &batch);
}

static int put_calls(Journal *journal, const Session *session)
{
    int r = 0;
    Call *call;

    list_foreach (call, &session->stored, Call, in_session)
        if (r == 0)
            r = put_call(journal, call);
    return r;
}

static int put_all_calls(Journal *journal, const Session *root)
{
    Session *session;
    int r = 0;

    list_foreach (session, &root->branches, Session, in_branches)
        if (r == 0)
            r = put_calls(journal, session);
    return r;
}

/* ---- what was reported ---- */

static int put_files(Journal *journal, const Buf *files)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = journal_write_files(&batch, files);
    return r < 0 ? r : journal_put(journal, &batch);
}

static int put_noted(void *userdata, const Buf *files)
{
    return put_files(userdata, files);
}

static int put_arrays(Journal *journal, const Value *arrays)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < value_count(arrays); i++) {
        const msgpack_object *bytes = &arrays->array->ptr[i];
        Buf files _cleanup_(buf_deinit) = BUF_NULL;

        r = bytes->type == MSGPACK_OBJECT_BIN ? buf_append(&files, bytes->via.bin.ptr, bytes->via.bin.size)
                                              : -EBADMSG;
        if (r == 0)
            r = put_files(journal, &files);
    }
    return r;
}

/* Puts an entry of the file that is there, as it is. */
static int copy_entry(Journal *journal, const void *bytes, size_t size)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);
    size_t begin = batch.size;

    if (r == 0)
        r = record_begin(&batch);
    if (r == 0)
        r = buf_append(&batch, bytes, size);
    if (r == 0)
        r = record_end(&batch, begin);
    return r < 0 ? r : journal_put(journal, &batch);
}

static int copy_files(void *userdata, const void *bytes, size_t size)
{
    Problem problem = PROBLEM_NULL;
    JournalEntry entry;
    int r = journal_entry_decode(&entry, bytes, size, &problem);

    if (r < 0)
        return r;
    if (entry.kind == ENTRY_FILES)
        r = copy_entry(userdata, bytes, size);
    journal_entry_deinit(&entry);
    return r;
}

static void on_reported(void *userdata, const Value *reported)
{
    Sandbox *sandbox = userdata;

    if (!sandbox->session_journal || !reported)
        return;
    sandbox->session_journal->reported = reported;
    session_journal_rewrite(sandbox);
    sandbox->session_journal->reported = NULL;
}

/* Puts what was reported, as the file that is there has it. The file service, which knows what of it still
 * matters, is asked where that will not do: with its answer the journal is written anew, and until then goes
 * on. */
static int put_reported(Journal *journal, Sandbox *sandbox)
{
    const Value *reported = sandbox->session_journal->reported;
    uint64_t size;
    int r;

    if (!sandbox->files.has_reported || sandbox->ephemeral)
        return 0;
    if (reported)
        return put_arrays(journal, reported);
    if (journal->stale) {
        r = session_files_ask_reported(&sandbox->files, on_reported, sandbox);
        return r < 0 ? r : -EINPROGRESS;
    }
    r = journal_read(journal->path, copy_files, journal, &size);
    return r < 0 ? r : session_files_put_reported(&sandbox->files, put_noted, journal);
}

static int snapshot(Journal *journal, void *userdata)
{
    Sandbox *sandbox = userdata;
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = write_life(&batch, sandbox);
    if (r == 0)
        r = journal_put(journal, &batch);
    if (r == 0 && sandbox->root)
        r = put_all_calls(journal, sandbox->root);
    if (r == 0)
        r = put_reported(journal, sandbox);
    return r;
}

void session_journal_path(char *ret, size_t size, const Paths *paths, const char *id)
{
    snprintf(ret, size, "%s/%s" JOURNAL_SUFFIX, paths->journals, id);
}

static SessionJournal *session_journal_new(Sandbox *sandbox)
{
    SessionJournal *journal = calloc(1, sizeof(*journal));

    if (journal)
        *journal = (SessionJournal){.file = JOURNAL_NULL, .history = HISTORY_NULL};
    return sandbox->session_journal = journal;
}

void session_journal_begin(Sandbox *sandbox)
{
    SessionJournal *journal = session_journal_new(sandbox);
    char path[PATH_MAX];

    session_journal_path(path, sizeof(path), sandbox->all->paths, sandbox->files.id);
    if (!journal)
        return;
    journal_open(&journal->file, path, snapshot, sandbox);
    history_begin(&journal->history, sandbox);
}

void session_journal_go_on(Sandbox *sandbox, uint64_t size)
{
    SessionJournal *journal = session_journal_new(sandbox);
    char path[PATH_MAX];

    session_journal_path(path, sizeof(path), sandbox->all->paths, sandbox->files.id);
    if (!journal)
        return;
    journal_resume(&journal->file, path, size, snapshot, sandbox);
    history_go_on(&journal->history, sandbox);
}

void session_journal_end(Sandbox *sandbox)
{
    SessionJournal *journal = take(sandbox->session_journal);

    if (journal)
        history_end(&journal->history, sandbox, sandbox->state == SANDBOX_LEFT);
    if (journal && sandbox->state == SANDBOX_LEFT)
        journal_leave(&journal->file);
    else if (journal)
        journal_remove(&journal->file);
    free(journal);
}

void session_journal_rewrite(Sandbox *sandbox)
{
    if (sandbox->session_journal)
        journal_refresh(&sandbox->session_journal->file);
}

static void append(Sandbox *sandbox, Buf *batch, int r)
{
    if (r < 0)
        session_journal_rewrite(sandbox);
    else if (sandbox->session_journal)
        journal_append(&sandbox->session_journal->file, batch);
}

/* A new file would cost a tenth of what opening a session from the pool takes. It is written where artifacts
 * were reported, which are not said again. */
void session_journal_claimed(Sandbox *sandbox)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = sandbox->files.has_reported ? -EAGAIN : journal_batch(&batch);

    if (r == 0)
        r = write_life(&batch, sandbox);
    append(sandbox, &batch, r);
}

static void append_plain(Sandbox *sandbox, EntryKind kind)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = journal_write_plain(&batch, kind);
    append(sandbox, &batch, r);
}

void session_journal_ready(Sandbox *sandbox)
{
    append_plain(sandbox, ENTRY_READY);
}

void session_journal_packages(Sandbox *sandbox)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = journal_write_packages(&batch, sandbox->packages);
    append(sandbox, &batch, r);
}

bool session_journal_saved(Sandbox *sandbox)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = write_saved(&batch, sandbox->root);
    append(sandbox, &batch, r);
    return sandbox->session_journal && sandbox->session_journal->file.path &&
           !sandbox->session_journal->file.lost;
}

void session_journal_closing(Sandbox *sandbox)
{
    append_plain(sandbox, ENTRY_CLOSING);
}

void session_journal_branch(const Session *branch)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = write_branch(&batch, branch);
    append(branch->sandbox, &batch, r);
}

void session_journal_branch_closed(const Session *branch)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = journal_write_branch_closed(&batch, branch->branch);
    append(branch->sandbox, &batch, r);
}

static int add_files(void *userdata, const Buf *files)
{
    return journal_write_files(userdata, files);
}

/* The artifacts that its record names are reported if and only if it is. */
void session_journal_call(const Call *call)
{
    Sandbox *sandbox = call->to_guest.sandbox;
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    if (!sandbox->session_journal)
        return;
    r = journal_batch(&batch);
    if (r == 0)
        r = session_journal_add_call(&batch, call);
    if (r == 0)
        r = session_files_put_reported(&sandbox->files, add_files, &batch);
    append(sandbox, &batch, r);
    history_call(&sandbox->session_journal->history, call);
}

void session_journal_back(const Session *session, uint64_t execution_count)
{
    if (session->sandbox->session_journal)
        history_back(&session->sandbox->session_journal->history, session->branch, execution_count);
}

void session_journal_committed(const Session *session, uint64_t from)
{
    if (session->sandbox->session_journal)
        history_committed(&session->sandbox->session_journal->history, session->branch, from);
}
