/* Artifacts: watching for new ones, publishing them, and remembering those that were reported; reading
 * published ones for clients that cannot open them themselves; and the review of those of sessions that have
 * ended: the too old and the too many go, while files of open sessions stay. The asker is told which saved
 * sessions are too old or too many, and ends them. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/leftovers.h"
#include "host/file_service/internal.h"
#include "proto/base/clock.h"

/* ---- reading what was published ---- */

/* outputs/ID/…, or sessions/ID/artifacts/…: nothing else below the state directory is anybody's to read. */
static bool is_published(const char *path)
{
    static const char outputs[] = "outputs/", sessions[] = "sessions/", artifacts[] = "/artifacts/";
    const char *slash;

    if (strstr(path, "/../") || strstr(path, "//"))
        return false;
    if (strncmp(path, outputs, strlen(outputs)) == 0)
        return true;
    if (strncmp(path, sessions, strlen(sessions)) != 0)
        return false;
    slash = strchr(path + strlen(sessions), '/');
    return slash && strncmp(slash, artifacts, strlen(artifacts)) == 0;
}

static int read_piece(FileServiceJob *job, int fd, uint64_t offset, uint64_t size)
{
    uint64_t left = offset < job->size ? job->size - offset : 0;
    size_t n = (size_t)MIN(MIN(size, left), (uint64_t)LIMIT_FILE_CHUNK);
    uint8_t *space = buf_reserve(&job->data, n);
    ssize_t got = space ? pread(fd, space, n, (off_t)offset) : -1;

    if (!space)
        return -ENOMEM;
    if (got < 0)
        return -errno;
    buf_commit(&job->data, (size_t)got);
    return 0;
}

static int read_published(FileServiceJob *job, const char *path)
{
    const JobReadPublished *asked = &job->request.as_READ_PUBLISHED;
    int state _cleanup_(closep) = open(job->file_service->state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    int fd _cleanup_(closep) = -1;
    struct stat st = {0};

    if (!is_published(path))
        return -ENOENT;
    fd = state < 0 ? -errno : beneath_open_regular(state, path, &st);
    if (fd < 0)
        return fd;
    job->size = (uint64_t)st.st_size;
    return read_piece(job, fd, asked->offset, asked->size);
}

static void run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    char *path _cleanup_(freep) = text_dup(job->request.as_READ_PUBLISHED.path);
    int r = path ? read_published(job, path) : -ENOMEM;

    if (r < 0)
        problem_set(&job->problem, r == -ENOMEM ? ERR_INTERNAL : ERR_NO_SUCH_FILE,
                    "what was published is not there any more: %s", strerror(-r));
}

static void done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const JobGot got = {
        .data =
            job->data.size > 0 ? (Text){(const char *)buf_head(&job->data), job->data.size} : (Text){"", 0},
        .size = job->size,
    };

    if (job->problem.code != ERR_NONE)
        job_fail(job);
    else
        job_done(job, JobGot, &got);
}

void do_read_published(FileServiceJob *job)
{
    int r = worker_submit(job->file_service->worker, &job->work, run, done);

    if (r < 0)
        job_fail_errno(job, "the file cannot be read now", r);
}

/* ---- watching and publishing ---- */

static const char *const prefixes[PLACES] = {"/session/artifacts", "/work/artifacts"};

/* ---- watching ---- */

static int watch_place(FileSession *session, ArtifactsPlace place, uint64_t bytes, uint64_t files)
{
    const SessionDir *directory = &session->directory;
    const char *root = place == PLACE_WORK ? directory->work_artifacts_root : directory->artifacts_root;
    const char *target = place == PLACE_WORK ? directory->work_published_path : directory->published_path;
    int r;

    if (!root) /* no such place */
        return 0;
    if (!target || session->artifacts[place])
        return -EINVAL;
    r = artifacts_new(&session->artifacts[place], root, prefixes[place], target);
    if (r == 0)
        artifacts_set_room(session->artifacts[place], bytes, files);
    return r;
}

static void unwatch(FileSession *session)
{
    for (ArtifactsPlace place = 0; place < PLACES; place++)
        session->artifacts[place] = artifacts_free(session->artifacts[place]);
}

int file_session_watch(FileSession *session, uint64_t bytes, uint64_t files, bool looks, Problem *problem)
{
    int r = session->directory.files_fd < 0 ? -ENOENT : 0;

    for (ArtifactsPlace place = 0; r == 0 && place < PLACES; place++)
        r = watch_place(session, place, bytes, files);
    for (ArtifactsPlace place = 0; r == 0 && looks && place < PLACES; place++)
        if (session->artifacts[place])
            artifacts_look(session->artifacts[place]);
    if (r == 0)
        return 0;
    unwatch(session);
    return problem_set(problem, ERR_INTERNAL, "cannot watch the artifacts of '%s': %s", session->directory.id,
                       strerror(-r));
}

/* Descriptor that the asker is to wait on from now on. */
typedef struct WatchState {
    bool pending; /* need not wait */
    bool moved;   /* another descriptor than until now */
    int fd;       /* in place of that; -1 where nothing waits */
} WatchState;

static WatchState watch_state(FileSession *session, ArtifactsPlace place)
{
    const Artifacts *artifacts = session->artifacts[place];
    WatchState watch = {.fd = -1};
    unsigned number;
    int fd;

    if (!artifacts)
        return watch;
    watch.pending = artifacts_dirty(artifacts);
    fd = artifacts_watch(artifacts, &number);
    watch.moved = number != session->told[place];
    session->told[place] = number;
    if (watch.moved && fd >= 0) {
        watch.fd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        watch.pending |= watch.fd < 0;
    }
    if (watch.moved && watch.fd < 0)
        session->told[place]--; /* the asker has none */
    return watch;
}

void job_answer_watched(FileServiceJob *job)
{
    WatchState session = watch_state(job->session, PLACE_SESSION),
               work = watch_state(job->session, PLACE_WORK);
    Descriptors descriptors = {0};
    const JobWatched watched = {
        .pending = session.pending,
        .watched = session.fd >= 0,
        .work_pending = work.pending,
        .work_watched = work.fd >= 0,
    };

    descriptors_add(&descriptors, session.fd);
    descriptors_add(&descriptors, work.fd);
    job_done_with(job, JobWatched, &watched, &descriptors);
}

void do_claim(FileServiceJob *job)
{
    const JobClaim *claim = &job->request.as_CLAIM;
    _cleanup_(freep) char *as = job_id(job, claim->as);
    FileSession *session = job->session;
    int r = as ? 0 : -EPROTO;

    if (r == 0 && session->directory.published_id)
        r = problem_set(&job->problem, ERR_BAD_REQUEST, "the session is somebody's already");
    if (r == 0)
        r = sessiondir_claim(&session->directory, as, reader_of(claim->reader), job->file_service->removers,
                             &job->problem);
    if (r == 0) {
        r = file_session_watch(session, claim->bytes, claim->files, true, &job->problem);
        if (r < 0)
            sessiondir_disclaim(&session->directory);
    }
    if (r == 0)
        job_answer_watched(job);
    else
        job_fail(job);
}

/* ---- what was reported ---- */

void do_reported(FileServiceJob *job)
{
    if (job->session->artifacts[PLACE_SESSION])
        artifacts_read_baseline(job->session->artifacts[PLACE_SESSION], job->request.as_REPORTED.files.array);
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

static int collect(Arrays *ret, FileSession *session, bool all)
{
    Artifacts *artifacts = session->artifacts[PLACE_SESSION];

    *ret = (Arrays){.encoded = BUF_NULL};
    return artifacts ? artifacts_write_baseline(artifacts, all, add_array, ret) : 0;
}

void do_baseline(FileServiceJob *job)
{
    Arrays arrays;
    int r = collect(&arrays, job->session, true);

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

static ArtifactsPlace place_of(const FileServiceJob *job)
{
    return job->request.as_PUBLISH.work ? PLACE_WORK : PLACE_SESSION;
}

/* Returns whether reported files are remembered: not those of a sandbox that runs a single call. */
static bool is_remembered(const FileServiceJob *job)
{
    return place_of(job) == PLACE_SESSION && !job->session->directory.work_artifacts_root;
}

static void on_published(void *userdata, ArtifactList *list)
{
    FileServiceJob *job = userdata;
    WatchState watch = watch_state(job->session, place_of(job));
    Descriptors descriptors = {0};
    Arrays noted = {.encoded = BUF_NULL};
    const JobPublished published = {
        .artifacts = {.write = write_artifacts, .source = list},
        .omitted = list ? list->omitted : 0,
        .incomplete = list && list->incomplete,
        .noted = {.write = write_arrays, .source = &noted},
        .pending = watch.pending,
        .moved = watch.moved,
        .watched = watch.fd >= 0,
    };

    if (is_remembered(job))
        collect(&noted, job->session, false);
    descriptors_add(&descriptors, watch.fd);
    job_done_with(job, JobPublished, &published, &descriptors);
    buf_deinit(&noted.encoded);
    artifact_list_free(list);
}

static void begin(FileServiceJob *job, int (*what)(Artifacts *, Worker *, ArtifactsDone, void *))
{
    Artifacts *artifacts = job->session->artifacts[place_of(job)];
    int r = artifacts ? what(artifacts, job->file_service->worker, on_published, job) : -ENOENT;

    if (r < 0)
        job_fail_errno(job, "artifacts cannot be published now", r);
}

void do_publish(FileServiceJob *job)
{
    begin(job, artifacts_publish);
}

void do_accept(FileServiceJob *job)
{
    begin(job, artifacts_accept);
}

/* ---- review ---- */

/* They neither go nor count. */
static void leave_out_open(FileService *file_service, Leftovers *found)
{
    size_t n = 0;

    for (size_t i = 0; i < found->n; i++) {
        if (file_sessions_use(file_service, found->entries[i].id))
            free(found->entries[i].id);
        else
            found->entries[n++] = found->entries[i];
    }
    found->n = n;
}

/* The asker says which are saved; an id of none of ours takes nothing. */
static int measure_saved(FileServiceJob *job)
{
    const Value *rows = &job->request.as_REVIEW.saved;
    JobSleeper row;
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < value_count(rows); i++) {
        value_row(&row, JobSleeper, rows, i);
        r = leftovers_add_saved(&job->saved, job->file_service->state_dir, row.id, row.since);
    }
    return r;
}

typedef struct Chosen {
    const Leftovers *saved;
    size_t n;
} Chosen;

static void write_memories(Writer *w, const void *source)
{
    const Chosen *chosen = source;
    uint32_t n = 0;

    for (size_t i = chosen->n; i < chosen->saved->n; i++)
        n += chosen->saved->entries[i].memory.goes;
    write_array(w, n);
    for (size_t i = chosen->n; i < chosen->saved->n; i++) {
        const Leftover *saved = &chosen->saved->entries[i];

        if (saved->memory.goes)
            body_write(w, JobMemory,
                       (&(JobMemory){.id = text_of(saved->id), .changed = saved->memory.changed}));
    }
}

static void write_chosen(Writer *w, const void *source)
{
    const Chosen *chosen = source;

    write_array(w, (uint32_t)chosen->n);
    for (size_t i = 0; i < chosen->n; i++)
        write_text(w, chosen->saved->entries[i].id);
}

static JobReviewed remove_chosen(FileService *file_service, const JobReview *review, Leftovers *found)
{
    const Retention retention = {review->keep_for, review->keep_size};
    size_t chosen = retention_choose(found, &retention, clock_unix());
    JobReviewed removed = {0};

    for (size_t i = 0; i < chosen; i++) {
        const Leftover *leftover = &found->entries[i];

        if (!leftover_remove(leftover, file_service->state_dir, file_service->removers))
            continue;
        removed.bytes += leftover->bytes;
        removed.sessions++;
    }
    return removed;
}

static void review_run(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);

    if (leftovers_find(&job->leftovers, job->file_service->state_dir) < 0 || measure_saved(job) < 0)
        problem_set(&job->problem, ERR_INTERNAL, "out of memory");
}

static void review_done(WorkerJob *work)
{
    FileServiceJob *job = container_of(work, FileServiceJob, work);
    const JobReview *review = &job->request.as_REVIEW;
    Leftovers found = job->leftovers, saved = job->saved;
    Chosen chosen = {.saved = &saved};
    JobReviewed removed;

    if (job->problem.code != ERR_NONE) {
        job_fail(job);
    } else {
        leave_out_open(job->file_service, &found);
        removed = remove_chosen(job->file_service, review, &found);
        chosen.n = retention_choose(&saved, &(Retention){review->keep_for, review->keep_size}, clock_unix());
        removed.saved = (Value){.write = write_chosen, .source = &chosen};
        removed.memories = (Value){.write = write_memories, .source = &chosen};
        job_done(job, JobReviewed, &removed);
    }
    leftovers_deinit(&found);
    leftovers_deinit(&saved);
}

void do_review(FileServiceJob *job)
{
    if (worker_submit(job->file_service->worker, &job->work, review_run, review_done) < 0) {
        problem_set(&job->problem, ERR_INTERNAL, "no thread can look now");
        job_fail(job);
    }
}
