#include "host/journal_sandbox.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/adopt.h"
#include "host/journal_entry.h"
#include "host/session.h"

static int write_session(Buf *batch, const Sandbox *sandbox)
{
    const Session *trunk = sandbox->trunk;
    Buf options _cleanup_(buf_deinit) = BUF_NULL;
    JournalSession session = {
        .name = text_of(trunk->name),
        .instance = text_of(trunk->instance),
        .directory = text_of(sandbox->directory.id),
        .ephemeral = sandbox->ephemeral,
        .engine = text_of(sandbox->controller->engine->ops->name),
        .container = text_of(sandbox->container_name),
        .link = text_of(guest_name(sandbox->guest)),
        .secret = {(const char *)sandbox->guest->secret, GUEST_SECRET_SIZE},
        .created = trunk->created,
        .options = value_encoded(&options),
    };
    const MsgOptions said = session_options_say(&sandbox->options);
    int r = body_encode(&options, MsgOptions, &said);

    return r < 0 ? r : journal_write_session(batch, &session);
}

static int write_branch(Buf *batch, const Session *branch)
{
    return journal_write_branch(batch, &(JournalBranch){.branch = branch->branch,
                                                        .name = text_of(branch->name),
                                                        .instance = text_of(branch->instance),
                                                        .created = branch->created});
}

/* Clients were told of it: now, or by an earlier controller. */
static bool is_open(const Sandbox *sandbox)
{
    return (sandbox->state == SANDBOX_READY && !sandbox->spare) ||
           (sandbox->adoption && sandbox->adoption->open);
}

/* A branch that was not there yet is nobody's; one that ends is not any more. */
static bool is_branch(const Session *session)
{
    return session->branch != 0 && (session->state == SESSION_READY ||
                                    (session->state == SESSION_STARTING && session->sandbox->adoption));
}

static int write_life(Buf *batch, const Sandbox *sandbox)
{
    int r = write_session(batch, sandbox);
    Session *session;

    if (r == 0 && is_open(sandbox))
        r = journal_write_plain(batch, ENTRY_READY);
    list_foreach (session, &sandbox->sessions, Session, in_sandbox)
        if (r == 0 && is_branch(session))
            r = write_branch(batch, session);
    if (r == 0 && sandbox->state == SANDBOX_CLOSING)
        r = journal_write_plain(batch, ENTRY_CLOSING);
    return r;
}

int journal_add_call(Buf *batch, const Call *call)
{
    const Session *session = call->turn.session;
    JournalCall entry = {
        .run_id = text_of(call->run_id),
        .code_hash = call->code_hash,
        .branch = session->branch,
        .record = {(const char *)buf_head(&call->record), call->record.size},
        .oom_kills = session->sandbox->oom_kills,
    };

    return journal_write_call(batch, &entry);
}

static int put_files(void *userdata, const Buf *files)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = journal_write_files(&batch, files);
    return r < 0 ? r : journal_put(userdata, &batch);
}

static int put_call(Journal *journal, const Call *call)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = journal_add_call(&batch, call);
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

/* While artifacts are being published nobody knows which are. */
static int snapshot(Journal *journal, void *userdata)
{
    Sandbox *sandbox = userdata;
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);
    Session *session;

    if (r == 0)
        r = write_life(&batch, sandbox);
    if (r == 0)
        r = journal_put(journal, &batch);
    list_foreach (session, &sandbox->sessions, Session, in_sandbox)
        if (r == 0)
            r = put_calls(journal, session);
    if (r == 0 && sandbox->artifacts && !sandbox->ephemeral)
        r = artifacts_write_baseline(sandbox->artifacts, true, put_files, journal);
    return r;
}

void journal_path(char *ret, size_t size, const Controller *controller, const char *id)
{
    snprintf(ret, size, "%s/sessions/%s/journal", controller->paths->state_dir, id);
}

int journal_begin(Sandbox *sandbox)
{
    char path[PATH_MAX];

    journal_path(path, sizeof(path), sandbox->controller, sandbox->directory.id);
    return journal_open(&sandbox->journal, path, snapshot, sandbox);
}

int journal_go_on(Sandbox *sandbox, uint64_t size)
{
    char path[PATH_MAX];

    journal_path(path, sizeof(path), sandbox->controller, sandbox->directory.id);
    return journal_resume(&sandbox->journal, path, size, snapshot, sandbox);
}

static void append(Sandbox *sandbox, Buf *batch, int r)
{
    if (r < 0)
        journal_refresh(&sandbox->journal);
    else
        journal_append(&sandbox->journal, batch);
}

static void append_plain(Sandbox *sandbox, EntryKind kind)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = journal_write_plain(&batch, kind);
    append(sandbox, &batch, r);
}

void journal_ready(Sandbox *sandbox)
{
    append_plain(sandbox, ENTRY_READY);
}

void journal_closing(Sandbox *sandbox)
{
    append_plain(sandbox, ENTRY_CLOSING);
}

void journal_branch(const Session *branch)
{
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r = journal_batch(&batch);

    if (r == 0)
        r = write_branch(&batch, branch);
    append(branch->sandbox, &batch, r);
}

void journal_branch_closed(const Session *branch)
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
void journal_call(const Call *call)
{
    Sandbox *sandbox = call->turn.session->sandbox;
    Buf batch _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    if (!sandbox->journal.path)
        return;
    r = journal_batch(&batch);
    if (r == 0)
        r = journal_add_call(&batch, call);
    if (r == 0 && sandbox->artifacts && !sandbox->ephemeral)
        r = artifacts_write_baseline(sandbox->artifacts, false, add_files, &batch);
    append(sandbox, &batch, r == -EBUSY ? 0 : r);
}
