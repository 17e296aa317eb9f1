#include "host/session/checkpoint_files.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>

#include "host/session/session.h"

FilesJob *files_job_free(FilesJob *job)
{
    if (!job)
        return NULL;
    work_end(&job->work);
    closep(&job->store);
    closep(&job->files);
    free(job);
    return NULL;
}

FilesJob *files_job_new(Order *order, bool make_store, Problem *problem)
{
    const Sandbox *sandbox = order->turn.sandbox;
    FilesJob *job = calloc(1, sizeof(*job));

    if (!job) {
        problem_set(problem, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    work_begin(&job->work, &order->turn);
    job->budget = sandbox->all->options->files_budget;
    job->store = snapshot_store(&sandbox->directory, make_store);
    job->files = fcntl(sandbox->directory.files_fd, F_DUPFD_CLOEXEC, 3);
    if (job->store >= 0 && job->files >= 0)
        return job;
    problem_set(problem, ERR_INTERNAL, "cannot keep files with checkpoints: %s",
                strerror(job->store < 0 ? -job->store : errno));
    return files_job_free(job);
}

static void run(WorkerJob *worker_job)
{
    FilesJob *job = container_of(worker_job, FilesJob, job);

    while (flock(job->store, LOCK_EX) < 0 && errno == EINTR)
        ;
    job->run(job);
    flock(job->store, LOCK_UN);
}

static void done(WorkerJob *worker_job)
{
    FilesJob *job = container_of(worker_job, FilesJob, job);

    if (job->work.turn)
        job->then(container_of(job->work.turn, Order, turn), job);
    else
        files_job_free(job);
}

int files_job_begin(FilesJob *job, void (*run_job)(FilesJob *job), void (*then)(Order *order, FilesJob *job),
                    Problem *problem)
{
    const Sandbox *sandbox = job->work.turn->sandbox;
    int r;

    job->run = run_job;
    job->then = then;
    r = worker_submit(sandbox->all->worker, &job->job, run, done);
    if (r == 0)
        return 0;
    files_job_free(job);
    return problem_set(problem, ERR_INTERNAL, "cannot copy files: %s", strerror(-r));
}

/* Texts of ids and names fit, or are none of those. */
static bool terminated(char ret[LIMIT_SESSION_NAME + 1], Text text)
{
    if (!text.data || text.size == 0 || text.size > LIMIT_SESSION_NAME)
        return false;
    memcpy(ret, text.data, text.size);
    ret[text.size] = '\0';
    return true;
}

bool checkpoint_files_find(const Sandbox *sandbox, Text checkpoint, char ret_entry[SNAPSHOT_ENTRY_SIZE])
{
    int store _cleanup_(closep) = snapshot_store(&sandbox->directory, false);
    char name[LIMIT_SESSION_NAME + 1];

    return store >= 0 && terminated(name, checkpoint) && snapshot_find(store, name, ret_entry);
}

void checkpoint_files_drop(Sandbox *sandbox, Text checkpoint)
{
    int store _cleanup_(closep) = snapshot_store(&sandbox->directory, false);
    char name[LIMIT_SESSION_NAME + 1];

    if (store >= 0 && terminated(name, checkpoint))
        snapshot_drop(store, name, sandbox->all->worker);
}

typedef struct Prune {
    Sandbox *sandbox;
    int store;
    const Value *checkpoints;
} Prune;

static void prune_one(void *userdata, const char *id)
{
    const Prune *prune = userdata;
    MsgGuestCheckpoint checkpoint;

    for (uint32_t i = 0; i < value_count(prune->checkpoints); i++) {
        value_row(&checkpoint, MsgGuestCheckpoint, prune->checkpoints, i);
        if (text_equal(checkpoint.id, id))
            return;
    }
    snapshot_drop(prune->store, id, prune->sandbox->all->worker);
}

void checkpoint_files_prune(Sandbox *sandbox, const Value *checkpoints)
{
    int store _cleanup_(closep) = snapshot_store(&sandbox->directory, false);

    if (store >= 0)
        snapshot_each(store, prune_one, &(Prune){sandbox, store, checkpoints});
}

MsgCheckpoint checkpoint_say(const Session *trunk, const MsgGuestCheckpoint *said,
                             char name[static BRANCH_NAME_SIZE])
{
    char entry[SNAPSHOT_ENTRY_SIZE];

    return (MsgCheckpoint){
        .id = said->id,
        .name = said->name,
        .session = text_of(session_branch_name(trunk, said->branch, name)),
        .execution_count = said->execution_count,
        .created = said->created,
        .automatic = said->automatic,
        .files = checkpoint_files_find(trunk->sandbox, said->id, entry),
        .private_bytes = said->private_bytes,
        .parent = said->parent,
    };
}
