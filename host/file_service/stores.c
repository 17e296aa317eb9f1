/* Copies of files that outlive what they were taken from: of /session with checkpoints, of templates, and
 * packages that an installer has left. What copies is done on a thread, for one session one after the other,
 * also when whoever asked for the first does not wait for it any more. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "host/files/snapshot.h"
#include "host/file_service/internal.h"

/* ---- checkpoints ---- */

/* Its id or name, terminated: `NAME` has seen to what is in it. */
typedef char CheckpointName[LIMIT_SESSION_NAME + 1];

static const char *terminated(CheckpointName ret, Text name)
{
    memcpy(ret, name.data, name.size);
    ret[name.size] = '\0';
    return ret;
}

/* Handles of the job's own. False when it has failed. */
static bool open_store(FileServiceJob *job, bool make)
{
    const SessionDir *directory = &job->session->directory;

    job->store = snapshot_store(directory, make);
    job->files = fcntl(directory->files_fd, F_DUPFD_CLOEXEC, 3);
    if (job->store >= 0 && job->files >= 0)
        return true;
    job_fail_errno(job, "files cannot be kept with checkpoints", job->store < 0 ? job->store : -errno);
    return false;
}

/* ---- at once ---- */

void do_keep(FileServiceJob *job)
{
    const JobKeep *keep = &job->request.as_KEEP;
    CheckpointName checkpoint, name = "";
    int r;

    if (!open_store(job, false))
        return;
    if (keep->name.data)
        terminated(name, keep->name);
    r = snapshot_keep(job->store, terminated(checkpoint, keep->checkpoint), name, keep->bytes);
    if (r < 0)
        problem_set(&job->problem, ERR_INTERNAL, "%s", strerror(-r));
    job_end(job);
}

void do_give_up(FileServiceJob *job)
{
    job->store = snapshot_store(&job->session->directory, false);
    if (job->store >= 0)
        snapshot_give_up(job->store, job->file_service->removers);
    job_end(job);
}

static bool find(const FileServiceJob *job, Text checkpoint, char ret_entry[SNAPSHOT_ENTRY_SIZE])
{
    CheckpointName name;

    return job->store >= 0 && snapshot_find(job->store, terminated(name, checkpoint), ret_entry);
}

void do_find(FileServiceJob *job)
{
    char entry[SNAPSHOT_ENTRY_SIZE];
    JobFound found = {0};

    job->store = snapshot_store(&job->session->directory, false);
    if (find(job, job->request.as_FIND.checkpoint, entry))
        found.checkpoint = (Text){entry, strcspn(entry, "@")};
    job_done(job, JobFound, &found);
}

void do_drop(FileServiceJob *job)
{
    CheckpointName name;

    job->store = snapshot_store(&job->session->directory, false);
    if (job->store >= 0)
        snapshot_drop(job->store, terminated(name, job->request.as_DROP.checkpoint),
                      job->file_service->removers);
    job_end(job);
}

static void prune_one(void *userdata, const char *id)
{
    const FileServiceJob *job = userdata;
    const Value *keep = &job->request.as_PRUNE.checkpoints;

    for (uint32_t i = 0; i < value_count(keep); i++)
        if (text_equal(value_text(keep, i), id))
            return;
    snapshot_drop(job->store, id, job->file_service->removers);
}

void do_prune(FileServiceJob *job)
{
    job->store = snapshot_store(&job->session->directory, false);
    if (job->store >= 0)
        snapshot_each(job->store, prune_one, job);
    job_end(job);
}

static void list_one(void *userdata, const char *id)
{
    FileServiceJob *job = userdata;
    Writer w;

    writer_init(&w, &job->data);
    write_text(&w, id);
    job->size += writer_finish(&w) == 0;
}

static void write_kept(Writer *w, const void *source)
{
    const FileServiceJob *job = source;

    write_array(w, job->size);
    write_encoded(w, &job->data);
}

void do_list(FileServiceJob *job)
{
    job->store = snapshot_store(&job->session->directory, false);
    if (job->store >= 0)
        snapshot_each(job->store, list_one, job);
    job_done(job, JobKept, (&(JobKept){.checkpoints = {.write = write_kept, .source = job}}));
}

/* ---- on a thread ---- */

static void copy(FileServiceJob *job)
{
    char entry[SNAPSHOT_ENTRY_SIZE];

    switch (job->kind) {
    case JOB_TAKE:
        snapshot_take(job->store, job->files, job->request.as_TAKE.budget, &job->size, &job->problem);
        break;
    case JOB_STAGE:
        if (find(job, job->request.as_STAGE.checkpoint, entry))
            snapshot_stage(job->store, entry, job->files, &job->problem);
        else
            problem_set(&job->problem, ERR_NO_SUCH_CHECKPOINT, "the checkpoint has no files");
        break;
    case JOB_RESTORE:
        snapshot_restore(job->files, &job->problem);
        break;
    default:
        snapshot_unstage(job->files);
    }
}

static void copy_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    while (flock(job->store, LOCK_EX) < 0 && errno == EINTR)
        ;
    copy(job);
    flock(job->store, LOCK_UN);
}

static void copy_done(WorkerJob *work);

/* The first of the session's, where there is any: the others wait for it, and no thread with them. */
static void copy_next(const FileSession *session)
{
    List *first;

    while ((first = list_first((List *)&session->copies))) {
        FileServiceJob *job = list_entry(first, FileServiceJob, in_copies);
        int r = worker_submit(job->file_service->worker, &job->work, copy_run, copy_done);

        if (r == 0)
            return;
        list_remove(first);
        job_fail_errno(job, "files cannot be copied now", r);
    }
}

static void copy_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    list_remove(&job->in_copies);
    copy_next(job->session);
    if (job->kind == JOB_TAKE && job->problem.code == ERR_NONE)
        job_done(job, JobTaken, &(JobTaken){.bytes = job->size});
    else
        job_end(job);
}

static void begin(FileServiceJob *job, bool make_store)
{
    FileSession *session = job->session;
    bool is_first = list_empty(&session->copies);

    if (!open_store(job, make_store))
        return;
    list_append(&session->copies, &job->in_copies);
    if (is_first)
        copy_next(session);
}

void do_take(FileServiceJob *job)
{
    begin(job, true);
}

void do_stage(FileServiceJob *job)
{
    begin(job, false);
}

void do_unstage(FileServiceJob *job)
{
    begin(job, false);
}

void do_restore(FileServiceJob *job)
{
    begin(job, false);
}

/* ---- templates ---- */

static bool open_templates(FileServiceJob *job)
{
    job->store = template_files_store(job->file_service->state_dir);
    if (job->store >= 0)
        return true;
    job_fail_errno(job, "there is no place for the files of templates", job->store);
    return false;
}

static void take_template_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    template_files_take(job->store, job->entry, job->files, job->request.as_TAKE_TEMPLATE.budget, &job->size,
                        &job->problem);
}

static void take_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    if (job->problem.code == ERR_NONE)
        job_done(job, JobTaken, &(JobTaken){.bytes = job->size});
    else
        job_end(job);
}

void do_take_template(FileServiceJob *job)
{
    int r;

    job->entry = job_id(job, job->request.as_TAKE_TEMPLATE.template);
    if (!job->entry) {
        job_fail(job);
        return;
    }
    if (!open_templates(job))
        return;
    job->files = fcntl(job->session->directory.files_fd, F_DUPFD_CLOEXEC, 3);
    r = job->files < 0 ? -errno
                       : worker_submit(job->file_service->worker, &job->work, take_template_run, take_done);
    if (r < 0)
        job_fail_errno(job, "files cannot be copied now", r);
}

void do_drop_template(FileServiceJob *job)
{
    job->entry = job_id(job, job->request.as_DROP_TEMPLATE.template);
    if (!job->entry) {
        job_fail(job);
        return;
    }
    if (!open_templates(job))
        return;
    snapshot_set_aside(job->store, job->entry, job->file_service->removers);
    job_end(job);
}

static bool is_kept(void *userdata, const char *id)
{
    const Value *kept = userdata;

    for (uint32_t i = 0; i < value_count(kept); i++)
        if (text_equal(value_text(kept, i), id))
            return true;
    return false;
}

void do_sweep_templates(FileServiceJob *job)
{
    if (!open_templates(job))
        return;
    snapshot_sweep(job->store, job->file_service->removers, is_kept,
                   &job->request.as_SWEEP_TEMPLATES.templates);
    job_end(job);
}

/* ---- packages ---- */

typedef struct AskedPackages {
    char before[SHA256_HEX_SIZE], request[SHA256_HEX_SIZE];
} AskedPackages;

/* False, with the problem set, where it is not made of digits as it should be. */
static bool read_question(FileServiceJob *job, Text before, Text request, AskedPackages *ret,
                          PackageQuestion *ret_question)
{
    snprintf(ret->before, sizeof(ret->before), "%.*s", (int)before.size, before.data);
    snprintf(ret->request, sizeof(ret->request), "%.*s", (int)request.size, request.data);
    *ret_question = (PackageQuestion){ret->before, ret->request};
    if (package_name_valid(ret->request) && (!*ret->before || package_name_valid(ret->before)))
        return true;
    problem_set(&job->problem, ERR_BAD_REQUEST, "packages are named by %u hexadecimal digits",
                2 * SHA256_SIZE);
    return false;
}

static void submit(FileServiceJob *job, void (*run)(WorkerJob *), void (*done)(WorkerJob *))
{
    if (job->problem.code == ERR_NONE && worker_submit(job->file_service->worker, &job->work, run, done) == 0)
        return;
    if (job->problem.code == ERR_NONE)
        problem_set(&job->problem, ERR_INTERNAL, "no thread can look after packages now");
    job_fail(job);
}

static void packages_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const PackageSet *set = &job->packages;
    JobPackages packages = {.bytes = NO_UINT};

    if (job->problem.code != ERR_NONE) {
        job_fail(job);
        return;
    }
    if (*set->hash)
        packages = (JobPackages){.hash = text_of(set->hash),
                                 .lock = {(const char *)buf_head(&set->lock), set->lock.size},
                                 .bytes = set->bytes};
    job_done(job, JobPackages, &packages);
}

static void take_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const JobTakePackages *take = &job->request.as_PACKAGES_TAKE;
    PackageQuestion question;
    AskedPackages copy;
    char id[NAME_MAX];

    if (!read_question(job, take->before, take->request, &copy, &question))
        return;
    snprintf(id, sizeof(id), "%.*s", (int)take->id.size, take->id.data);
    package_store_take(&job->packages, job->file_service->state_dir, job->files, id, &question, take->budget,
                       &job->problem);
}

void do_packages_take(FileServiceJob *job)
{
    job->files = fcntl(job->session->directory.files_fd, F_DUPFD_CLOEXEC, 3);
    if (job->files < 0)
        job_fail_errno(job, "packages cannot be kept", -errno);
    else
        submit(job, take_run, packages_done);
}

static void find_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const JobFindPackages *find = &job->request.as_PACKAGES_FIND;
    PackageQuestion question;
    AskedPackages copy;

    if (read_question(job, find->before, find->request, &copy, &question) &&
        package_store_find(&job->packages, job->file_service->state_dir, &question, find->max_age,
                           &job->problem) < 0)
        *job->packages.hash = '\0';
}

void do_packages_find(FileServiceJob *job)
{
    submit(job, find_run, packages_done);
}

static bool is_in_use(void *userdata, const char *hash)
{
    const Value *in_use = userdata;

    for (uint32_t i = 0; i < value_count(in_use); i++)
        if (text_equal(value_text(in_use, i), hash))
            return true;
    return false;
}

static void trim_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    JobTrimPackages *trim = &job->request.as_PACKAGES_TRIM;

    job->size = package_store_trim(job->file_service->state_dir, trim->budget, trim->before, is_in_use,
                                   &trim->in_use);
}

static void trim_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    job_done(job, JobTrimmed, &(JobTrimmed){.removed = job->size});
}

void do_packages_trim(FileServiceJob *job)
{
    submit(job, trim_run, trim_done);
}
