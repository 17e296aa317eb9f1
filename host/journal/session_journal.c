#include "host/journal/session_journal.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/journal/journal.h"
#include "host/session/session.h"

/* ---- history: the calls of a sandbox in the order they ended, with their code, for `export` ----
 *
 * It lies beside the journal in a file of its own, to which is only appended, and goes with the session.
 * Nothing here fails: what could not be written is missing.
 *
 *   entry    size (4 bytes, big endian), then one msgpack map (MsgHistory)
 *
 * From HISTORY_RECORDS bytes on entries come without their records, and at HISTORY_BYTES it ends with one
 * that says so. */

#define HISTORY_BYTES   (32u << 20)
#define HISTORY_RECORDS (24u << 20)
#define SUFFIX          ".history"

typedef struct History {
    int fd; /* -1: none is kept */
    uint64_t size;
    bool full;
} History;

#define HISTORY_NULL ((History){.fd = -1})

/* Hidden, so that whoever looks for journals passes it over. */
static void history_path(char *ret, size_t size, const Sandbox *sandbox)
{
    snprintf(ret, size, "%s/.%s" SUFFIX, sandbox->all->paths->journals, sandbox->files.id);
}

static void open_history(History *history, const Sandbox *sandbox, int flags)
{
    char path[PATH_MAX];

    *history = HISTORY_NULL;
    if (sandbox->ephemeral)
        return;
    history_path(path, sizeof(path), sandbox);
    history->fd = open(path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
}

/* An empty one; or that which an earlier controller has left, without what it wrote in part. */
static void history_begin(History *history, const Sandbox *sandbox)
{
    open_history(history, sandbox, O_TRUNC);
}

/* The size of all whole entries. */
static uint64_t whole_history(int fd)
{
    uint8_t head[RECORD_HEAD];
    uint64_t at = 0;
    struct stat st;

    if (fstat(fd, &st) < 0)
        return 0;
    while (pread(fd, head, RECORD_HEAD, (off_t)at) == RECORD_HEAD &&
           record_size(head) <= (uint64_t)st.st_size - at - RECORD_HEAD)
        at += RECORD_HEAD + record_size(head);
    return at;
}

static void history_go_on(History *history, const Sandbox *sandbox)
{
    open_history(history, sandbox, 0);
    if (history->fd < 0)
        return;
    history->size = whole_history(history->fd);
    history->full = history->size >= HISTORY_BYTES;
    if (ftruncate(history->fd, (off_t)history->size) < 0)
        close_fd(&history->fd);
}

/* `leave`: it is the next controller's. Otherwise the file goes. */
static void history_end(History *history, const Sandbox *sandbox, bool leave)
{
    char path[PATH_MAX];

    if (history->fd < 0)
        return;
    close_fd(&history->fd);
    history_path(path, sizeof(path), sandbox);
    if (!leave)
        unlink(path);
}

static bool ends_so(const char *name, const char *suffix)
{
    size_t n = strlen(name), m = strlen(suffix);

    return n > m && strcmp(name + n - m, suffix) == 0;
}

void history_sweep(const Paths *paths)
{
    DIR *journals = opendir(paths->journals);
    const struct dirent *entry;

    while (journals && (entry = readdir(journals))) {
        const char *name = entry->d_name;
        char journal[NAME_MAX + sizeof(JOURNAL_SUFFIX)];
        struct stat st;

        if (name[0] != '.' || !ends_so(name, SUFFIX))
            continue;
        snprintf(journal, sizeof(journal), "%.*s" JOURNAL_SUFFIX, (int)(strlen(name) - 1 - strlen(SUFFIX)),
                 name + 1);
        if (fstatat(dirfd(journals), journal, &st, AT_SYMLINK_NOFOLLOW) < 0)
            unlinkat(dirfd(journals), name, 0);
    }
    if (journals)
        closedir(journals);
}

static void write_entry(History *history, const MsgHistory *entry)
{
    Buf out _cleanup_(buf_deinit) = BUF_NULL;

    if (record_begin(&out) == 0 && body_encode(&out, MsgHistory, entry) == 0 && record_end(&out, 0) == 0)
        record_append(&history->fd, &history->size, &out);
}

static void end_full(History *history)
{
    MsgHistory entry;

    body_clear(&entry, MsgHistory);
    entry.branch = 0;
    entry.full = true;
    history->full = true;
    write_entry(history, &entry);
}

static void append_history(History *history, const MsgHistory *entry, size_t size)
{
    if (history->fd < 0 || history->full)
        return;
    if (history->size + size > HISTORY_BYTES)
        end_full(history);
    else
        write_entry(history, entry);
}

/* The call has ended; its code is known unless an earlier controller sent it. */
static void history_call(History *history, const Call *call)
{
    const Buf program = {.data = (uint8_t *)call->code, .size = call->code_size};
    bool is_command = call->to_guest.lane == LANE_PROGRAM;
    bool has_room = history->size + call->record.size <= HISTORY_RECORDS;
    MsgHistory entry;

    body_clear(&entry, MsgHistory);
    entry.branch = call->to_guest.session->branch;
    if (call->code && is_command)
        entry.program = value_encoded(&program);
    else if (call->code)
        entry.code = (Text){call->code, call->code_size};
    if (has_room)
        entry.record = value_encoded(&call->record);
    append_history(history, &entry, call->code_size + (has_room ? call->record.size : 0));
}

static bool read_entry(int fd, uint64_t at, size_t size, Buf *ret)
{
    uint8_t *to = buf_reserve(ret, size);

    if (!to || pread(fd, to, size, (off_t)at) != (ssize_t)size)
        return false;
    buf_commit(ret, size);
    return true;
}

int history_read(const Sandbox *sandbox, uint64_t *at, size_t most, Buf *ret, uint32_t *ret_count)
{
    uint8_t head[RECORD_HEAD];
    char path[PATH_MAX];

    *ret_count = 0;
    history_path(path, sizeof(path), sandbox);
    _cleanup_(closep) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    while (fd >= 0 && *ret_count < LIMIT_FILE_ENTRIES &&
           pread(fd, head, RECORD_HEAD, (off_t)*at) == RECORD_HEAD) {
        size_t size = record_size(head);

        if (size > HISTORY_BYTES || (*ret_count > 0 && ret->size + size > most) ||
            !read_entry(fd, *at + RECORD_HEAD, size, ret))
            break;
        if (wire_check(buf_head(ret) + ret->size - size, size) == -EBADMSG)
            return -EBADMSG;
        *at += RECORD_HEAD + size;
        ++*ret_count;
    }
    return 0;
}

/* ---- what is written of a sandbox ---- */

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
        .forked = sandbox->forked,
        .memory = text_of(sandbox->memory ? sandbox->memory->id : NULL),
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
    int r = session_journal_add_call(&batch, call);

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
    int r = journal_write_files(&batch, files);

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
    int r = journal_write_copy(&batch, bytes, size);

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
    int r = write_life(&batch, sandbox);

    if (r == 0)
        r = journal_put(journal, &batch);
    if (r == 0 && sandbox->root)
        r = put_all_calls(journal, sandbox->root);
    if (r == 0)
        r = put_reported(journal, sandbox);
    return r;
}

/* ---- when it is written ---- */

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
    int r = sandbox->files.has_reported ? -EAGAIN : write_life(&batch, sandbox);

    append(sandbox, &batch, r);
}

static void append_plain(Sandbox *sandbox, EntryKind kind)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_write_plain(&batch, kind);

    append(sandbox, &batch, r);
}

void session_journal_ready(Sandbox *sandbox)
{
    append_plain(sandbox, ENTRY_READY);
}

void session_journal_packages(Sandbox *sandbox)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_write_packages(&batch, sandbox->packages);

    append(sandbox, &batch, r);
}

bool session_journal_saved(Sandbox *sandbox)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = write_saved(&batch, sandbox->root);

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
    int r = write_branch(&batch, branch);

    append(branch->sandbox, &batch, r);
}

void session_journal_branch_closed(const Session *branch)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_write_branch_closed(&batch, branch->branch);

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
    r = session_journal_add_call(&batch, call);
    if (r == 0 && !list_empty(&sandbox->files.noted))
        r = session_files_put_reported(&sandbox->files, add_files, &batch);
    append(sandbox, &batch, r);
    history_call(&sandbox->session_journal->history, call);
}

/* The variables of a session are those after call `back_to` from now on, or those of the branch `committed`.
 */
static void note_variables(const Session *session, uint64_t back_to, uint64_t committed)
{
    SessionJournal *journal = session->sandbox->session_journal;
    MsgHistory entry;

    if (!journal)
        return;
    body_clear(&entry, MsgHistory);
    entry.branch = session->branch;
    entry.back_to = back_to;
    entry.committed = committed;
    append_history(&journal->history, &entry, 0);
}

void session_journal_back(const Session *session, uint64_t execution_count)
{
    note_variables(session, execution_count, NO_UINT);
}

void session_journal_committed(const Session *session, uint64_t from)
{
    note_variables(session, NO_UINT, from);
}
