/* Artifacts: watching for new ones, publishing them, and remembering those that were reported. */
#include <errno.h>
#include <fcntl.h>

#include "host/keeper/internal.h"

static const char *const prefixes[PLACES] = {"/session/artifacts", "/work/artifacts"};

/* ---- watching ---- */

static int watch_place(Tenant *tenant, ArtifactsPlace place, uint64_t bytes, uint64_t files)
{
    const SessionDir *directory = &tenant->directory;
    const char *root = place == PLACE_WORK ? directory->work_artifacts_root : directory->artifacts_root;
    const char *target = place == PLACE_WORK ? directory->work_published_path : directory->published_path;
    int r;

    if (!root) /* no such place */
        return 0;
    if (!target || tenant->artifacts[place])
        return -EINVAL;
    r = artifacts_new(&tenant->artifacts[place], root, prefixes[place], target);
    if (r == 0)
        artifacts_set_room(tenant->artifacts[place], bytes, files);
    return r;
}

static void unwatch(Tenant *tenant)
{
    for (ArtifactsPlace place = 0; place < PLACES; place++)
        tenant->artifacts[place] = artifacts_free(tenant->artifacts[place]);
}

static int watch(KeeperJob *job, uint64_t bytes, uint64_t files)
{
    Tenant *tenant = job->tenant;
    int r = tenant->directory.files_fd < 0 ? -ENOENT : 0;

    for (ArtifactsPlace place = 0; r == 0 && place < PLACES; place++)
        r = watch_place(tenant, place, bytes, files);
    if (r == 0)
        return 0;
    unwatch(tenant);
    return problem_set(&job->problem, ERR_INTERNAL, "cannot watch the artifacts of '%s': %s",
                       tenant->directory.id, strerror(-r));
}

/* Descriptor that the asker is to wait on from now on. */
typedef struct WatchState {
    bool pending; /* need not wait */
    bool moved;   /* another descriptor than until now */
    int fd;       /* in place of that; -1 where nothing waits */
} WatchState;

static WatchState look_out(Tenant *tenant, ArtifactsPlace place)
{
    const Artifacts *artifacts = tenant->artifacts[place];
    WatchState lookout = {.fd = -1};
    unsigned number;
    int fd;

    if (!artifacts)
        return lookout;
    lookout.pending = artifacts_dirty(artifacts);
    fd = artifacts_watch(artifacts, &number);
    lookout.moved = number != tenant->told[place];
    tenant->told[place] = number;
    if (lookout.moved && fd >= 0) {
        lookout.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        lookout.pending |= lookout.fd < 0;
    }
    if (lookout.moved && lookout.fd < 0)
        tenant->told[place]--; /* the asker has none */
    return lookout;
}

static void answer_watched(KeeperJob *job)
{
    WatchState session = look_out(job->tenant, PLACE_SESSION), work = look_out(job->tenant, PLACE_WORK);
    int descriptors[JOB_DESCRIPTORS] = {session.fd < 0 ? work.fd : session.fd, session.fd < 0 ? -1 : work.fd};
    const JobWatched watched = {
        .pending = session.pending,
        .watched = session.fd >= 0,
        .work_pending = work.pending,
        .work_watched = work.fd >= 0,
    };

    job_done_with(job, JobWatched, &watched, descriptors);
}

void do_watch(KeeperJob *job)
{
    const JobWatch *asked = &job->request.as_WATCH;

    if (watch(job, asked->bytes, asked->files) < 0)
        job_fail(job);
    else
        answer_watched(job);
}

void do_claim(KeeperJob *job)
{
    const JobClaim *claim = &job->request.as_CLAIM;
    _cleanup_(freep) char *as = job_id(job, claim->as);
    const uid_t reader = claim->reader == NO_UINT ? NO_READER : (uid_t)claim->reader;
    Tenant *tenant = job->tenant;

    if (!as) {
        job_fail(job);
        return;
    }
    if (tenant->directory.published_id) {
        problem_set(&job->problem, ERR_BAD_REQUEST, "the session is somebody's already");
        job_fail(job);
        return;
    }
    if (sessiondir_claim(&tenant->directory, as, reader, job->keeper->worker, &job->problem) < 0) {
        job_fail(job);
        return;
    }
    if (claim->bytes == NO_UINT || claim->files == NO_UINT) {
        answer_watched(job);
        return;
    }
    if (watch(job, claim->bytes, claim->files) < 0) {
        sessiondir_disclaim(&tenant->directory);
        job_fail(job);
        return;
    }
    for (ArtifactsPlace place = 0; place < PLACES; place++)
        if (tenant->artifacts[place])
            artifacts_look(tenant->artifacts[place]);
    answer_watched(job);
}

/* ---- what was reported ---- */

void do_reported(KeeperJob *job)
{
    if (job->tenant->artifacts[PLACE_SESSION])
        artifacts_read_baseline(job->tenant->artifacts[PLACE_SESSION], job->request.as_REPORTED.files.array);
    job_end(job);
}

/* Encoded arrays of files, each as bytes. */
typedef struct Arrays {
    Buf encoded;
    size_t n;
} Arrays;

static int add_array(void *userdata, const Buf *files)
{
    Arrays *arrays = userdata;
    Writer w;
    int r;

    writer_init(&w, &arrays->encoded);
    write_bytes(&w, buf_head(files), files->size);
    r = writer_finish(&w);
    if (r == 0)
        arrays->n++;
    return r;
}

static void write_arrays(Writer *w, const void *source)
{
    const Arrays *arrays = source;

    write_array(w, arrays->n);
    write_encoded(w, &arrays->encoded);
}

static int collect(Arrays *ret, Tenant *tenant, bool all)
{
    Artifacts *artifacts = tenant->artifacts[PLACE_SESSION];

    *ret = (Arrays){.encoded = BUF_NULL};
    return artifacts ? artifacts_write_baseline(artifacts, all, add_array, ret) : 0;
}

void do_baseline(KeeperJob *job)
{
    Arrays arrays;
    int r = collect(&arrays, job->tenant, true);

    if (r < 0)
        job_fail_errno(job, "what was reported cannot be told now", r);
    else
        job_done(job, JobFiles, (&(JobFiles){.files = {.write = write_arrays, .source = &arrays}}));
    buf_deinit(&arrays.encoded);
}

/* ---- publishing ---- */

static void write_artifacts(Writer *w, const void *source)
{
    const ArtifactList *list = source;

    write_array(w, list ? list->n : 0);
    for (size_t i = 0; list && i < list->n; i++) {
        const Artifact *artifact = &list->entries[i];
        const JobArtifact row = {
            .path = text_of(artifact->path),
            .host_path = text_of(artifact->host_path),
            .size = artifact->size,
            .sha256 = artifact->skipped ? (Text){0} : text_of(artifact->sha256),
            .skipped = text_of(artifact->skipped),
        };

        body_write(w, JobArtifact, &row);
    }
}

static ArtifactsPlace place_of(const KeeperJob *job)
{
    return job->request.as_PUBLISH.work ? PLACE_WORK : PLACE_SESSION;
}

/* Returns whether reported files are remembered: not those of a sandbox that runs a single call. */
static bool is_remembered(const KeeperJob *job)
{
    return place_of(job) == PLACE_SESSION && !job->tenant->directory.work_artifacts_root;
}

static void on_published(void *userdata, ArtifactList *list)
{
    KeeperJob *job = userdata;
    WatchState lookout = look_out(job->tenant, place_of(job));
    int descriptors[JOB_DESCRIPTORS] = {lookout.fd, -1};
    Arrays noted = {.encoded = BUF_NULL};
    const JobPublished published = {
        .artifacts = {.write = write_artifacts, .source = list},
        .omitted = list ? list->omitted : 0,
        .incomplete = list && list->incomplete,
        .noted = {.write = write_arrays, .source = &noted},
        .pending = lookout.pending,
        .moved = lookout.moved,
        .watched = lookout.fd >= 0,
    };

    if (is_remembered(job))
        collect(&noted, job->tenant, false);
    job_done_with(job, JobPublished, &published, descriptors);
    buf_deinit(&noted.encoded);
    artifact_list_free(list);
}

static void begin(KeeperJob *job, int (*what)(Artifacts *, Worker *, ArtifactsDone, void *))
{
    Artifacts *artifacts = job->tenant->artifacts[place_of(job)];
    int r = artifacts ? what(artifacts, job->keeper->worker, on_published, job) : -ENOENT;

    if (r < 0)
        job_fail_errno(job, "artifacts cannot be published now", r);
}

void do_publish(KeeperJob *job)
{
    begin(job, artifacts_publish);
}

void do_accept(KeeperJob *job)
{
    begin(job, artifacts_accept);
}
