/* Copies of /session that are kept with checkpoints. What copies is done on a thread, one after the other in
 * one session, also when whoever asked for the first does not wait for it any more. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "host/files/snapshot.h"
#include "host/keeper/internal.h"

/* Its id or name, terminated: `NAME` has seen to what is in it. */
typedef char CheckpointName[LIMIT_SESSION_NAME + 1];

static const char *terminated(CheckpointName ret, Text name)
{
    memcpy(ret, name.data, name.size);
    ret[name.size] = '\0';
    return ret;
}

/* Handles of the job's own. False when it has failed. */
static bool open_store(KeeperJob *job, bool make)
{
    const SessionDir *directory = &job->tenant->directory;

    job->store = snapshot_store(directory, make);
    job->files = fcntl(directory->files_fd, F_DUPFD_CLOEXEC, 3);
    if (job->store >= 0 && job->files >= 0)
        return true;
    job_fail_errno(job, "files cannot be kept with checkpoints", job->store < 0 ? job->store : -errno);
    return false;
}

/* ---- at once ---- */

void do_keep(KeeperJob *job)
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

void do_give_up(KeeperJob *job)
{
    job->store = snapshot_store(&job->tenant->directory, false);
    if (job->store >= 0)
        snapshot_give_up(job->store, job->keeper->worker);
    job_end(job);
}

static bool find(const KeeperJob *job, Text checkpoint, char ret_entry[SNAPSHOT_ENTRY_SIZE])
{
    CheckpointName name;

    return job->store >= 0 && snapshot_find(job->store, terminated(name, checkpoint), ret_entry);
}

void do_find(KeeperJob *job)
{
    char entry[SNAPSHOT_ENTRY_SIZE];
    JobFound found = {0};

    job->store = snapshot_store(&job->tenant->directory, false);
    if (find(job, job->request.as_FIND.checkpoint, entry))
        found.checkpoint = (Text){entry, strcspn(entry, "@")};
    job_done(job, JobFound, &found);
}

void do_drop(KeeperJob *job)
{
    CheckpointName name;

    job->store = snapshot_store(&job->tenant->directory, false);
    if (job->store >= 0)
        snapshot_drop(job->store, terminated(name, job->request.as_DROP.checkpoint), job->keeper->worker);
    job_end(job);
}

typedef struct Prune {
    KeeperJob *job;
    Buf kept; /* encoded names */
    size_t n;
} Prune;

static void prune_one(void *userdata, const char *id)
{
    Prune *prune = userdata;
    const Value *keep = &prune->job->request.as_PRUNE.checkpoints;
    Writer w;

    for (uint32_t i = 0; i < value_count(keep); i++)
        if (text_equal(value_text(keep, i), id)) {
            writer_init(&w, &prune->kept);
            write_text(&w, id);
            prune->n += writer_finish(&w) == 0;
            return;
        }
    snapshot_drop(prune->job->store, id, prune->job->keeper->worker);
}

static void write_kept(Writer *w, const void *source)
{
    const Prune *prune = source;

    write_array(w, prune->n);
    write_encoded(w, &prune->kept);
}

void do_prune(KeeperJob *job)
{
    Prune prune = {.job = job, .kept = BUF_NULL};

    job->store = snapshot_store(&job->tenant->directory, false);
    if (job->store >= 0)
        snapshot_each(job->store, prune_one, &prune);
    job_done(job, JobKept, (&(JobKept){.checkpoints = {.write = write_kept, .source = &prune}}));
    buf_deinit(&prune.kept);
}

/* ---- on a thread ---- */

static void copy(KeeperJob *job)
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
    KeeperJob *job = container_of(work, KeeperJob, work);

    while (flock(job->store, LOCK_EX) < 0 && errno == EINTR)
        ;
    copy(job);
    flock(job->store, LOCK_UN);
}

static void copy_done(WorkerJob *work);

/* The first of the session's, where there is any: the others wait for it, and no thread with them. */
static void copy_next(const Tenant *tenant)
{
    List *first;

    while ((first = list_first((List *)&tenant->copies))) {
        KeeperJob *job = list_entry(first, KeeperJob, in_copies);
        int r = worker_submit(job->keeper->worker, &job->work, copy_run, copy_done);

        if (r == 0)
            return;
        list_remove(first);
        job_fail_errno(job, "files cannot be copied now", r);
    }
}

static void copy_done(WorkerJob *work)
{
    KeeperJob *job = container_of(work, KeeperJob, work);

    list_remove(&job->in_copies);
    copy_next(job->tenant);
    if (job->kind == JOB_TAKE && job->problem.code == ERR_NONE)
        job_done(job, JobTaken, &(JobTaken){.bytes = job->size});
    else
        job_end(job);
}

static void begin(KeeperJob *job, bool make_store)
{
    Tenant *tenant = job->tenant;
    bool is_first = list_empty(&tenant->copies);

    if (!open_store(job, make_store))
        return;
    list_append(&tenant->copies, &job->in_copies);
    if (is_first)
        copy_next(tenant);
}

void do_take(KeeperJob *job)
{
    begin(job, true);
}

void do_stage(KeeperJob *job)
{
    begin(job, false);
}

void do_unstage(KeeperJob *job)
{
    begin(job, false);
}

void do_restore(KeeperJob *job)
{
    begin(job, false);
}
