#include "host/file_service/file_service.h"

#include <errno.h>
#include <string.h>

#include "host/file_service/internal.h"

/* For copying and hashing, and for making disks: what they wait for is the disk, not a processor. Each has as
 * many as a client has requests of that lane under way (see file_service_client.c), so that nothing waits
 * behind another user's. */
#define WORKER_THREADS 4
#define WORKER_NICE    5
#define MAKER_THREADS  4
#define MAKER_NICE     0
/* Removing waits for the disk, too: what ends a mount writes all that it has not written yet. */
#define REMOVER_THREADS 2
#define REMOVER_NICE    WORKER_NICE

/* ---- answering ---- */

static void job_free(FileServiceJob *job)
{
    file_session_release(job);
    job->file_service->jobs--;
    message_deinit(&job->message);
    buf_deinit(&job->bytes);
    buf_deinit(&job->data);
    package_set_deinit(&job->packages);
    closep(&job->store);
    closep(&job->files);
    closep(&job->came);
    closep(&job->passed);
    free(job->entry);
    free(job);
}

static void answer(FileServiceJob *job, JobKind kind, const Schema *schema, const void *body,
                   Descriptors *descriptors)
{
    const FileServiceConfig *config = &job->file_service->config;
    Descriptors none = {0};
    uint64_t id = job->id;
    Buf bytes = BUF_NULL;

    message_append(&bytes, (MessageKind)kind, id, schema, body);
    job_free(job);
    config->answer(config->userdata, id, &bytes, descriptors ? descriptors : &none);
}

void job_answer(FileServiceJob *job, const Schema *schema, const void *body, Descriptors *descriptors)
{
    answer(job, JOB_DONE, schema, body, descriptors);
}

void job_fail(FileServiceJob *job)
{
    const JobFailed failed = {.code = job->problem.code, .text = text_of(job->problem.text)};

    answer(job, JOB_FAILED, SCHEMA(JobFailed), &failed, NULL);
}

void job_fail_errno(FileServiceJob *job, const char *what, int error)
{
    problem_set(&job->problem, ERR_INTERNAL, "%s: %s", what, strerror(-error));
    job_fail(job);
}

void job_end(FileServiceJob *job)
{
    if (job->problem.code == ERR_NONE)
        job_done(job, JobNothing, &(JobNothing){0});
    else
        job_fail(job);
}

/* ---- asking ---- */

typedef enum Needs {
    NEEDS_NOTHING,
    NEEDS_ID,      /* the request begins with one */
    NEEDS_SESSION, /* and there is a session of that id */
} Needs;

static const struct {
    JobHandler *handler;
    Needs needs;
} handlers[JOB_KINDS] = {
    [JOB_PREPARE] = {do_prepare, NEEDS_ID},
    [JOB_CLAIM] = {do_claim, NEEDS_SESSION},
    [JOB_ADOPT] = {do_adopt, NEEDS_ID},
    [JOB_REPORTED] = {do_reported, NEEDS_SESSION},
    [JOB_BASELINE] = {do_baseline, NEEDS_SESSION},
    [JOB_PUBLISH] = {do_publish, NEEDS_SESSION},
    [JOB_ACCEPT] = {do_accept, NEEDS_SESSION},
    [JOB_PUT] = {do_put, NEEDS_SESSION},
    [JOB_STORE] = {do_store, NEEDS_SESSION},
    [JOB_FORGET_UPLOADS] = {do_forget_uploads, NEEDS_SESSION},
    [JOB_GET] = {do_get, NEEDS_SESSION},
    [JOB_READ_PUBLISHED] = {do_read_published, NEEDS_NOTHING},
    [JOB_TAKE] = {do_take, NEEDS_SESSION},
    [JOB_KEEP] = {do_keep, NEEDS_SESSION},
    [JOB_GIVE_UP] = {do_give_up, NEEDS_SESSION},
    [JOB_FIND] = {do_find, NEEDS_SESSION},
    [JOB_LIST] = {do_list, NEEDS_SESSION},
    [JOB_DROP] = {do_drop, NEEDS_SESSION},
    [JOB_PRUNE] = {do_prune, NEEDS_SESSION},
    [JOB_STAGE] = {do_stage, NEEDS_SESSION},
    [JOB_UNSTAGE] = {do_unstage, NEEDS_SESSION},
    [JOB_RESTORE] = {do_restore, NEEDS_SESSION},
    [JOB_FORK] = {do_fork, NEEDS_SESSION},
    [JOB_TAKE_MEMORY] = {do_take_memory, NEEDS_SESSION},
    [JOB_KEEP_IMAGE] = {do_image, NEEDS_NOTHING},
    [JOB_OPEN_IMAGE] = {do_image, NEEDS_NOTHING},
    [JOB_SWEEP_IMAGES] = {do_sweep_images, NEEDS_NOTHING},
    [JOB_TAKE_TEMPLATE] = {do_take_template, NEEDS_SESSION},
    [JOB_DROP_TEMPLATE] = {do_drop_template, NEEDS_NOTHING},
    [JOB_SWEEP_TEMPLATES] = {do_sweep_templates, NEEDS_NOTHING},
    [JOB_REMOVE] = {do_remove, NEEDS_SESSION},
    [JOB_LEAVE] = {do_leave, NEEDS_SESSION},
    [JOB_SWEEP_REMOVED] = {do_sweep_removed, NEEDS_NOTHING},
    [JOB_SWEEP] = {do_sweep, NEEDS_NOTHING},
    [JOB_REVIEW] = {do_review, NEEDS_NOTHING},
    [JOB_FORGET_MEMORY] = {do_forget_memory, NEEDS_SESSION},
    [JOB_PACKAGES_TAKE] = {do_packages_take, NEEDS_SESSION},
    [JOB_PACKAGES_FIND] = {do_packages_find, NEEDS_NOTHING},
    [JOB_PACKAGES_TRIM] = {do_packages_trim, NEEDS_NOTHING},
    [JOB_SYNC] = {do_sync, NEEDS_SESSION},
    [JOB_SYNC_STATE] = {do_sync_state, NEEDS_NOTHING},
};

/* Copies the id of a session, which is one plain component of a path. To be freed; NULL with the job's
 * problem set. */
char *job_id(FileServiceJob *job, Text id)
{
    _cleanup_(freep) char *copy = text_dup(id);

    if (!copy)
        problem_set(&job->problem, ERR_INTERNAL, "out of memory");
    else if (strlen(copy) != id.size || *copy == '\0' || *copy == '.' || strchr(copy, '/'))
        problem_set(&job->problem, ERR_BAD_REQUEST, "the id of a session must be one plain name");
    return job->problem.code == ERR_NONE ? take(copy) : NULL;
}

/* Sets the session. -EPROTO with the problem set. */
static int find_session(FileServiceJob *job)
{
    Needs needs = handlers[job->kind].needs;
    /* Every request that is about a session begins as this one does. */
    _cleanup_(freep) char *id = needs == NEEDS_NOTHING ? NULL : job_id(job, job->request.as_LEAVE.id);

    if (needs == NEEDS_NOTHING)
        return 0;
    if (!id)
        return -EPROTO;
    if (needs == NEEDS_ID)
        return 0;
    job->session = file_session_find(job->file_service, id);
    if (!job->session)
        return problem_set(&job->problem, ERR_BAD_REQUEST, "nothing is kept of the session '%s'", id);
    if (job->session->filling) {
        job->session = NULL;
        return problem_set(&job->problem, ERR_BUSY, "the files of the session '%s' are being made", id);
    }
    file_session_hold(job);
    return 0;
}

/* -EPROTO with the problem set. */
static int decode(FileServiceJob *job)
{
    const JobType *type = job_type((JobKind)job->message.kind);

    if (!type)
        return problem_set(&job->problem, ERR_BAD_REQUEST, "there is no job of the kind %u",
                           (unsigned)job->message.kind);
    job->kind = (JobKind)job->message.kind;
    return schema_decode(&job->request, type->request(), &job->message.body, &job->problem);
}

/* Takes the descriptor that comes with two kinds of requests. */
static int take_descriptor(FileServiceJob *job, Descriptors *descriptors, Problem *problem)
{
    JobKind kind = (JobKind)job->message.kind;

    if (descriptors->n > (kind == JOB_TAKE_MEMORY || kind == JOB_KEEP_IMAGE))
        return problem_set(problem, ERR_BAD_REQUEST, "it comes with descriptors that it has no use for");
    job->came = descriptors_take(descriptors, 0);
    return 0;
}

int file_service_take(FileService *file_service, Buf *request, Descriptors *descriptors, Problem *problem)
{
    FileServiceJob *job = calloc(1, sizeof(*job));

    if (!job) {
        buf_deinit(request);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    *job = (FileServiceJob){.file_service = file_service,
                            .bytes = *request,
                            .store = -1,
                            .files = -1,
                            .came = -1,
                            .passed = -1,
                            .problem = PROBLEM_NULL};
    *request = BUF_NULL;
    file_service->jobs++;
    if (message_decode(&job->message, buf_head(&job->bytes), job->bytes.size, problem) < 0 ||
        take_descriptor(job, descriptors, problem) < 0) {
        job_free(job);
        return -EPROTO;
    }
    job->id = job->message.id;
    if (decode(job) < 0 || find_session(job) < 0)
        job_fail(job);
    else
        handlers[job->kind].handler(job);
    return 0;
}

/* ---- its life ---- */

size_t file_service_jobs(const FileService *file_service)
{
    return file_service->jobs;
}

int file_service_new(FileService **ret, Loop *loop, const FileServiceConfig *config)
{
    FileService *file_service _cleanup_(file_service_freep) = calloc(1, sizeof(*file_service));
    int r;

    if (!file_service)
        return -ENOMEM;
    file_service->config = *config;
    file_service->state_dir = strdup(config->state_dir);
    if (!file_service->state_dir)
        return -ENOMEM;
    file_service->config.state_dir = file_service->state_dir;
    r = worker_new(&file_service->worker, loop, WORKER_THREADS, WORKER_NICE);
    if (r == 0)
        r = worker_new(&file_service->makers, loop, MAKER_THREADS, MAKER_NICE);
    if (r == 0)
        r = worker_new(&file_service->removers, loop, REMOVER_THREADS, REMOVER_NICE);
    if (r == 0)
        *ret = take(file_service);
    return r;
}

FileService *file_service_free(FileService *file_service)
{
    FileSession *session, *next;

    if (!file_service)
        return NULL;
    worker_free(file_service->makers);
    worker_free(file_service->worker);
    HASH_ITER (by_id, file_service->sessions, session, next)
        file_session_remove(session, false);
    worker_free(file_service->removers);
    free(file_service->state_dir);
    free(file_service);
    return NULL;
}
