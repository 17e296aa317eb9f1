/* The sessions whose files are here, by the ids of their directories: how those are made, taken over and
 * removed, and files in them that clients send and fetch, a piece at a time. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/files/snapshot.h"
#include "host/files/transfer.h"
#include "host/file_service/internal.h"
#include "proto/file_ask.h"
#include "proto/schema.h"
#include "proto/base/log.h"

/* ---- those whose files are here ---- */

FileSession *file_session_find(FileService *file_service, const char *id)
{
    FileSession *session;

    HASH_FIND(by_id, file_service->sessions, id, strlen(id), session);
    return session;
}

/* NULL when there is one already, or no memory. Takes `directory` over. */
static FileSession *file_session_add(FileService *file_service, SessionDir *directory)
{
    FileSession *session =
        file_session_find(file_service, directory->id) ? NULL : calloc(1, sizeof(*session));

    if (!session)
        return NULL;
    session->file_service = file_service;
    list_init(&session->copies);
    HASH_ADD_KEYPTR(by_id, file_service->sessions, directory->id, strlen(directory->id), session);
    if (file_session_find(file_service, directory->id) != session) {
        free(session);
        return NULL;
    }
    session->directory = *directory;
    *directory = SESSIONDIR_NULL;
    return session;
}

static void free_when_unused(FileSession *session)
{
    if (session->gone && session->jobs == 0)
        free(session);
}

void file_session_remove(FileSession *session, bool discard)
{
    HASH_DELETE(by_id, session->file_service->sessions, session);
    for (ArtifactsPlace place = 0; place < PLACES; place++)
        session->artifacts[place] = artifacts_free(session->artifacts[place]);
    if (discard)
        sessiondir_remove(&session->directory, session->file_service->removers);
    else
        sessiondir_deinit(&session->directory);
    session->gone = true;
    free_when_unused(session);
}

bool file_sessions_use(void *userdata, const char *id)
{
    const FileService *file_service = userdata;

    for (const FileSession *session = file_service->sessions; session; session = session->by_id.next)
        if (sessiondir_uses(&session->directory, id))
            return true;
    return false;
}

void file_session_hold(FileServiceJob *job)
{
    job->session->jobs++;
}

void file_session_release(FileServiceJob *job)
{
    FileSession *session = take(job->session);

    if (session) {
        session->jobs--;
        free_when_unused(session);
    }
}

/* ---- their directories ---- */

/* NULL, with the problem set and nothing left of the directories. */
static FileSession *keep(FileServiceJob *job, SessionDir *directory)
{
    FileSession *session = file_session_add(job->file_service, directory);

    if (session)
        return session;
    sessiondir_remove(directory, NULL);
    problem_set(&job->problem, ERR_INTERNAL, "out of memory");
    return NULL;
}

/* Refuses an id that is in use: what an earlier life of it left is removed. */
static bool is_free(FileServiceJob *job, const char *id)
{
    if (!id)
        problem_set(&job->problem, ERR_INTERNAL, "out of memory");
    else if (file_session_find(job->file_service, id))
        problem_set(&job->problem, ERR_BUSY, "the files of '%s' are in use", id);
    return job->problem.code == ERR_NONE;
}

/* ---- preparing: a job that goes from the loop to a thread that makes disks, and back */

static bool prepare_is_one(FileServiceJob *job)
{
    const JobPrepare *asked = &job->request.as_PREPARE;

    if (!asked->disk || (job->file_service->config.has_disks && asked->bytes >= DISK_MINIMUM &&
                         asked->bytes != NO_UINT && asked->files >= FILES_MINIMUM && asked->files != NO_UINT))
        return true;
    problem_set(&job->problem, ERR_BAD_REQUEST, "there are no disks of that size");
    return false;
}

/* Makes what sandboxed code does not write to. 0, or -EPROTO with the problem set and nothing made. */
static int make_directories(FileServiceJob *job, const char *id, const char *as, SessionDir *ret)
{
    const JobPrepare *asked = &job->request.as_PREPARE;
    bool same = as && strcmp(as, id) == 0;
    FileService *file_service = job->file_service;
    int r = (same ? sessiondir_make : sessiondir_make_spare)(
        ret, file_service->state_dir, id, asked->ephemeral, file_service->removers, &job->problem);

    if (r < 0 || !as || same)
        return r;
    r = sessiondir_claim(ret, as, reader_of(asked->reader), file_service->removers, &job->problem);
    if (r < 0)
        sessiondir_remove(ret, file_service->removers);
    return r;
}

static void fail_prepared(FileServiceJob *job)
{
    job->session->filling = false;
    file_session_remove(job->session, true);
    job_fail(job);
}

/* Nothing else is done with the session before. */
static void end_prepared(FileServiceJob *job)
{
    const JobPrepare *asked = &job->request.as_PREPARE;
    FileSession *session = job->session;

    session->filling = false;
    if (session->directory.published_id &&
        file_session_watch(session, asked->bytes, asked->files, true, &job->problem) < 0)
        fail_prepared(job);
    else
        job_answer_watched(job);
}

static void put_template(FileServiceJob *job)
{
    job->store = template_files_store(job->file_service->state_dir);
    if (job->store < 0)
        problem_set(&job->problem, ERR_INTERNAL, "there is no place for the files of templates: %s",
                    strerror(-job->store));
    else
        template_files_put(job->store, job->entry, job->session->directory.files_fd, &job->problem);
}

static void fill_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const JobPrepare *asked = &job->request.as_PREPARE;
    const DiskSize size = {asked->bytes, asked->files};

    if (sessiondir_fill(&job->session->directory, asked->disk ? &size : NULL, &job->problem) == 0 &&
        job->entry)
        put_template(job);
}

static void fill_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    (job->problem.code == ERR_NONE ? end_prepared : fail_prepared)(job);
}

/* Copies the names that are given. False with the problem set. */
static bool read_names(FileServiceJob *job, char **ret_id, char **ret_as)
{
    const JobPrepare *asked = &job->request.as_PREPARE;

    *ret_id = text_dup(asked->id);
    *ret_as = asked->as.data ? job_id(job, asked->as) : NULL;
    job->entry = asked->template.data ? job_id(job, asked->template) : NULL;
    return job->problem.code == ERR_NONE && is_free(job, *ret_id) && prepare_is_one(job);
}

void do_prepare(FileServiceJob *job)
{
    _cleanup_(freep) char *id = NULL, *as = NULL;
    SessionDir directory = SESSIONDIR_NULL;

    if (read_names(job, &id, &as) && make_directories(job, id, as, &directory) == 0)
        job->session = keep(job, &directory);
    if (!job->session) {
        job_fail(job);
        return;
    }
    file_session_hold(job);
    job->session->filling = true;
    if (worker_submit(job->file_service->makers, &job->work, fill_run, fill_done) == 0)
        return;
    problem_set(&job->problem, ERR_INTERNAL, "no thread can make the files of the session");
    fail_prepared(job);
}

/* ---- taking over ---- */

/* There is something to be removed also when it cannot be used. */
void do_adopt(FileServiceJob *job)
{
    const JobAdopt *adopt = &job->request.as_ADOPT;
    _cleanup_(freep) char *id = text_dup(adopt->id), *as = job_id(job, adopt->as);
    SessionDir directory = SESSIONDIR_NULL;
    int r;

    if (!as || !is_free(job, id)) {
        job_fail(job);
        return;
    }
    r = sessiondir_adopt(&directory, job->file_service->state_dir, id, as, reader_of(adopt->reader),
                         adopt->ephemeral, adopt->mounts, &job->problem);
    if (r == 0)
        snapshot_recover(directory.files_fd);
    if (directory.id)
        job->session = keep(job, &directory);
    if (job->session)
        file_session_hold(job);
    if (job->session && r == 0)
        r = file_session_watch(job->session, adopt->bytes, adopt->files, false, &job->problem);
    if (job->session && r == 0)
        job_answer_watched(job);
    else
        job_fail(job);
}

static void sync_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    sessiondir_sync(job->file_service->state_dir, job->files);
}

static void sync_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    if (job->entry)
        log_debug("session synced", "directory=%s", job->entry);
    job_end(job);
}

static void begin_sync(FileServiceJob *job, bool may)
{
    if (may && worker_submit(job->file_service->worker, &job->work, sync_run, sync_done) == 0)
        return;
    problem_set(&job->problem, ERR_INTERNAL, "the files cannot be synced now");
    job_fail(job);
}

void do_sync(FileServiceJob *job)
{
    const SessionDir *directory = &job->session->directory;

    job->entry = strdup(directory->id);
    job->files = fcntl(directory->files_fd, F_DUPFD_CLOEXEC, 3);
    begin_sync(job, job->entry && job->files >= 0);
}

void do_sync_state(FileServiceJob *job)
{
    begin_sync(job, true);
}

void do_remove(FileServiceJob *job)
{
    file_session_remove(job->session, true);
    job_end(job);
}

void do_leave(FileServiceJob *job)
{
    file_session_remove(job->session, false);
    job_end(job);
}

void do_sweep_removed(FileServiceJob *job)
{
    sessiondir_sweep_removed(job->file_service->state_dir, job->file_service->removers);
    job_end(job);
}

void do_sweep(FileServiceJob *job)
{
    sessiondir_sweep(job->file_service->state_dir, job->file_service->removers, file_sessions_use,
                     job->file_service);
    job_end(job);
}

/* ---- transfers ---- */

#define UPLOAD_KEY_SIZE (16 + 1 + LIMIT_PATH + 1)

static int open_scratch(const FileServiceJob *job)
{
    const SessionDir *directory = &job->session->directory;
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/sessions/%s/scratch", directory->state_dir, directory->id);
    return open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* `data`: of what is below /data, which lies in scratch; otherwise of what is below /session. */
static void begin(FileServiceJob *job, bool data, void (*run)(WorkerJob *), void (*done)(WorkerJob *))
{
    int r;

    job->files = data ? open_scratch(job) : fcntl(job->session->directory.files_fd, F_DUPFD_CLOEXEC, 3);
    r = job->files < 0 ? -errno : worker_submit(job->file_service->worker, &job->work, run, done);
    if (r < 0)
        job_fail_errno(job, "the file cannot be moved now", r);
}

static bool put_is_one(FileServiceJob *job)
{
    const JobPut *put = &job->request.as_PUT;

    if (!put->descriptor || (put->offset == 0 && put->data.size == 0 && !put->last))
        return true;
    problem_set(&job->problem, ERR_BAD_REQUEST, "descriptor: is asked for before there is any data");
    return false;
}

/* As scratch has it. */
static Text in_scratch(Text path)
{
    return (Text){path.data + 1, path.size - 1};
}

/* The file belongs to the interpreter's user, so that code may change it. Where that has no uid of its own it
 * is ours, and code may read and replace it. In /data it is ours in any case. */
static void upload_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const JobPut *put = &job->request.as_PUT;
    uid_t owner = put->give && !file_is_data(put->path) ? GUEST_UID : (uid_t)-1;
    Text path = file_is_data(put->path) ? in_scratch(put->path) : put->path;
    char key[UPLOAD_KEY_SIZE];

    snprintf(key, sizeof(key), "%" PRIx64 ":%.*s", put->client, (int)put->path.size, put->path.data);
    if (put->descriptor)
        job->passed = transfer_begin_upload(job->files, path, key, &job->problem);
    else
        transfer_put(job->files, path, put->offset, put->data, put->last, owner, owner, key, &job->size,
                     &job->problem);
}

static void upload_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    Descriptors passed = {0};

    descriptors_add(&passed, take_fd(&job->passed));
    if (job->problem.code != ERR_NONE)
        job_fail(job);
    else
        job_done_with(job, JobPutDone, &(JobPutDone){.size = job->size}, &passed);
}

void do_put(FileServiceJob *job)
{
    if (put_is_one(job))
        begin(job, file_is_data(job->request.as_PUT.path), upload_run, upload_done);
    else
        job_fail(job);
}

static int store_entry(FileServiceJob *job, Text path, const MsgFileEntry *entry)
{
    char key[UPLOAD_KEY_SIZE];

    if (text_equal(entry->type, "directory"))
        return transfer_mkdirs(job->files, path, &job->problem);
    if (text_equal(entry->type, "symlink"))
        return transfer_link(job->files, path, entry->target, &job->problem);
    snprintf(key, sizeof(key), "store-%" PRIx64, job->id);
    return transfer_put(job->files, path, 0, entry->data, true, (uid_t)-1, (gid_t)-1, key, &job->size,
                        &job->problem);
}

static void store_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const JobStore *store = &job->request.as_STORE;
    Text top = in_scratch(store->path);
    char path[2 * LIMIT_PATH + 2];
    MsgFileEntry entry;
    int r = transfer_mkdirs(job->files, top, &job->problem);

    for (uint32_t i = 0; r == 0 && i < value_count(&store->entries); i++) {
        value_row(&entry, MsgFileEntry, &store->entries, i);
        snprintf(path, sizeof(path), "%.*s/%.*s", (int)top.size, top.data, (int)entry.path.size,
                 entry.path.data);
        r = store_entry(job, text_of(path), &entry);
    }
}

static void store_done(WorkerJob *work)
{
    job_end(container_of(work, FileServiceJob, work));
}

void do_store(FileServiceJob *job)
{
    if (file_is_data(job->request.as_STORE.path))
        begin(job, true, store_run, store_done);
    else
        job_fail_errno(job, "path", -EINVAL);
}

static void forget_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    _cleanup_(closep) int scratch = open_scratch(job);
    char key[UPLOAD_KEY_SIZE];

    snprintf(key, sizeof(key), "%" PRIx64 ":", job->request.as_FORGET_UPLOADS.client);
    transfer_forget(job->files, key);
    if (scratch >= 0)
        transfer_forget(scratch, key);
}

static void forget_done(WorkerJob *work)
{
    job_end(container_of(work, FileServiceJob, work));
}

void do_forget_uploads(FileServiceJob *job)
{
    begin(job, false, forget_run, forget_done);
}

static void memory_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    if (!leftover_forget_memory(job->files, job->request.as_FORGET_MEMORY.changed))
        problem_set(&job->problem, ERR_BUSY, "the session has been saved anew");
}

void do_forget_memory(FileServiceJob *job)
{
    begin(job, false, memory_run, forget_done);
}

static void get_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const JobGet *get = &job->request.as_GET;

    if (get->descriptor)
        job->passed = transfer_open(job->files, get->path, &job->size, &job->problem);
    else
        transfer_get(job->files, get->path, get->offset, get->size, &job->data, &job->size, &job->problem);
}

static void get_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    Descriptors passed = {0};
    const JobGot got = {
        .data =
            job->data.size > 0 ? (Text){(const char *)buf_head(&job->data), job->data.size} : (Text){"", 0},
        .size = job->size,
    };

    descriptors_add(&passed, take_fd(&job->passed));
    if (job->problem.code != ERR_NONE)
        job_fail(job);
    else
        job_done_with(job, JobGot, &got, &passed);
}

void do_get(FileServiceJob *job)
{
    begin(job, false, get_run, get_done);
}
