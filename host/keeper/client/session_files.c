#include "host/keeper/client/session_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/files/artifact_list.h"
#include "host/files/watch.h"
#include "proto/base/log.h"

/* ---- publications ---- */

typedef struct FilesPublication {
    List link;           /* SessionFiles.asked */
    SessionFiles *files; /* NULL once they are gone */
    FilesPlace place;
    bool accepts; /* files count as reported: there is no list */
    FilesPublished *done;
    void *userdata;
} FilesPublication;

/* An encoded array of reported files. */
typedef struct Noted {
    List link; /* SessionFiles.noted */
    Buf files;
} Noted;

bool session_files_dirty(const SessionFiles *files, FilesPlace place)
{
    const Lookout *lookout = &files->lookouts[place];

    return lookout->pending || lookout->asking > 0 || watch_fd_pending(lookout->fd);
}

/* ---- what was reported ---- */

static void noted_free(Noted *noted)
{
    buf_deinit(&noted->files);
    free(noted);
}

static void forget_noted(SessionFiles *files)
{
    List *link;

    while ((link = list_first(&files->noted))) {
        list_remove(link);
        noted_free(list_entry(link, Noted, link));
    }
}

/* Notes reported files. Those that there is no memory for are reported once more after a change of
 * controllers, at worst. */
static void note(SessionFiles *files, const Value *arrays)
{
    files->has_reported |= value_count(arrays) > 0;
    for (uint32_t i = 0; i < value_count(arrays); i++) {
        const msgpack_object *bytes = &arrays->array->ptr[i];
        Noted *noted = bytes->type == MSGPACK_OBJECT_BIN ? calloc(1, sizeof(*noted)) : NULL;

        if (!noted)
            continue;
        list_append(&files->noted, &noted->link);
        if (buf_append(&noted->files, bytes->via.bin.ptr, bytes->via.bin.size) < 0) {
            list_remove(&noted->link);
            noted_free(noted);
        }
    }
}

static int put_noted(SessionFiles *files, int (*put)(void *userdata, const Buf *reported), void *userdata)
{
    Noted *noted;

    list_foreach (noted, &files->noted, Noted, link) {
        int r = put(userdata, &noted->files);

        if (r < 0)
            return r;
    }
    forget_noted(files);
    return 0;
}

typedef struct Baseline {
    int (*put)(void *userdata, const Buf *reported);
    void *userdata;
    int result;
} Baseline;

static void on_baseline(void *userdata, KeeperAnswer *answer)
{
    Baseline *baseline = userdata;
    const Value *arrays = &answer->body->as_BASELINE.files;

    for (uint32_t i = 0; baseline->result == 0 && i < value_count(arrays); i++) {
        const msgpack_object *bytes = &arrays->array->ptr[i];
        Buf files _cleanup_(buf_deinit) = BUF_NULL;

        if (bytes->type != MSGPACK_OBJECT_BIN)
            baseline->result = -EBADMSG;
        else
            baseline->result = buf_append(&files, bytes->via.bin.ptr, bytes->via.bin.size);
        if (baseline->result == 0)
            baseline->result = baseline->put(baseline->userdata, &files);
    }
}

/* A publication that is under way may have reported what nobody has been told of. */
int session_files_baseline(SessionFiles *files, bool all, int (*put)(void *userdata, const Buf *reported),
                           void *userdata)
{
    const JobOf request = {.id = text_of(files->id)};
    Baseline baseline = {put, userdata, 0};
    Problem problem = PROBLEM_NULL;

    if (!files->has_reported || files->ephemeral)
        return 0;
    if (!all)
        return put_noted(files, put, userdata);
    if (files->lookouts[FILES_SESSION].asking > 0)
        return -EBUSY;
    if (keeper_call(files->keeper, JOB_BASELINE, &request, on_baseline, &baseline, &problem) < 0)
        return -EIO;
    if (baseline.result == 0)
        forget_noted(files);
    return baseline.result;
}

/* ---- publishing ---- */

/* Forgets the files in publications that have no answer yet, whose askers are told all the same, and what was
 * noted. */
static void publications_forget(SessionFiles *files)
{
    FilesPublication *publication;

    list_foreach (publication, &files->asked, FilesPublication, link) {
        publication->files = NULL;
        list_remove(&publication->link);
        list_init(&publication->link);
    }
    forget_noted(files);
}

static bool add_artifact(ArtifactList *list, const JobArtifact *row)
{
    Artifact artifact = {.path = text_dup(row->path), .size = row->size};

    if (row->host_path.data)
        artifact.host_path = text_dup(row->host_path);
    if (row->skipped.data)
        artifact.skipped = text_dup(row->skipped);
    if (artifact.path)
        artifact.mime_type = mime_type(artifact.path);
    memcpy(artifact.sha256, row->sha256.data ? row->sha256.data : "", row->sha256.size);
    return artifact_list_add(list, &artifact) == 0;
}

/* NULL when out of memory. */
static ArtifactList *list_of(const JobPublished *published)
{
    ArtifactList *list = artifact_list_new();
    JobArtifact row;

    if (!list)
        return NULL;
    list->omitted = published->omitted;
    list->incomplete = published->incomplete;
    for (uint32_t i = 0; i < value_count(&published->artifacts); i++) {
        value_row(&row, JobArtifact, &published->artifacts, i);
        list->incomplete |= !add_artifact(list, &row);
    }
    return list;
}

static void look_elsewhere(Lookout *lookout, const JobPublished *published, int *descriptor)
{
    lookout->pending = published->pending;
    if (published->moved) {
        closep(&lookout->fd);
        lookout->fd = take_fd(descriptor);
    }
}

static void on_published(void *userdata, KeeperAnswer *answer)
{
    FilesPublication *publication = userdata;
    SessionFiles *files = publication->files;
    const JobPublished *published = answer->body ? &answer->body->as_PUBLISH : NULL;
    ArtifactList *list = published && !publication->accepts ? list_of(published) : NULL;

    if (files) {
        list_remove(&publication->link);
        files->lookouts[publication->place].asking--;
    }
    if (files && published) {
        look_elsewhere(&files->lookouts[publication->place], published, &answer->descriptors[0]);
        note(files, &published->noted);
    }
    publication->done(publication->userdata, list);
    free(publication);
}

static int ask(SessionFiles *files, JobKind kind, FilesPlace place, FilesPublished *done, void *userdata)
{
    const JobPublish request = {.id = text_of(files->id), .work = place == FILES_WORK};
    FilesPublication *publication = calloc(1, sizeof(*publication));
    int r;

    if (!publication)
        return -ENOMEM;
    *publication = (FilesPublication){
        .files = files, .place = place, .accepts = kind == JOB_ACCEPT, .done = done, .userdata = userdata};
    list_append(&files->asked, &publication->link);
    files->lookouts[place].asking++;
    r = keeper_ask(files->keeper, files->user, kind, &request, on_published, publication);
    if (r < 0) {
        files->lookouts[place].asking--;
        list_remove(&publication->link);
        free(publication);
    }
    return r;
}

int session_files_publish(SessionFiles *files, FilesPlace place, FilesPublished *done, void *userdata)
{
    return ask(files, JOB_PUBLISH, place, done, userdata);
}

int session_files_accept(SessionFiles *files, FilesPublished *done, void *userdata)
{
    return ask(files, JOB_ACCEPT, FILES_SESSION, done, userdata);
}

/* ---- the files of a sandbox ---- */

void session_files_init(SessionFiles *files, KeeperClient *keeper)
{
    *files = (SessionFiles){.keeper = keeper};
    for (FilesPlace place = 0; place < FILES_PLACES; place++)
        files->lookouts[place].fd = -1;
    list_init(&files->asked);
    list_init(&files->noted);
}

static void forget(SessionFiles *files)
{
    KeeperClient *keeper = files->keeper;

    for (FilesPlace place = 0; place < FILES_PLACES; place++)
        close_fd(&files->lookouts[place].fd);
    publications_forget(files);
    free(files->id);
    free(files->published_id);
    free(files->files_path);
    free(files->scratch_path);
    session_files_init(files, keeper);
}

/* STATE_DIR/sessions/ID/TAIL */
static char *format_path(const char *state_dir, const char *id, const char *tail)
{
    char *path;

    return asprintf(&path, "%s/sessions/%s/%s", state_dir, id, tail) < 0 ? NULL : path;
}

/* False when out of memory, with the problem set and nothing known. */
static bool name(SessionFiles *files, const char *state_dir, const char *id, const char *published_id,
                 bool ephemeral, Problem *problem)
{
    files->id = strdup(id);
    files->published_id = published_id ? strdup(published_id) : NULL;
    files->files_path = format_path(state_dir, id, "files");
    files->scratch_path = format_path(state_dir, id, "scratch");
    files->ephemeral = ephemeral;
    if (files->id && files->files_path && files->scratch_path && (files->published_id || !published_id))
        return true;
    forget(files);
    problem_set(problem, ERR_INTERNAL, "out of memory");
    return false;
}

int session_files_make(SessionFiles *files, const char *state_dir, const char *id, bool ephemeral,
                       bool published, Problem *problem)
{
    const JobMake make = {.id = text_of(id), .ephemeral = ephemeral, .published = published};
    int r;

    if (!name(files, state_dir, id, published ? id : NULL, ephemeral, problem))
        return -EPROTO;
    r = keeper_call(files->keeper, JOB_MAKE, &make, NULL, NULL, problem);
    if (r < 0)
        forget(files);
    return r;
}

int session_files_fill(SessionFiles *files, Problem *problem)
{
    const JobFill fill = {.id = text_of(files->id), .bytes = NO_UINT, .files = NO_UINT};

    return keeper_call(files->keeper, JOB_FILL, &fill, NULL, NULL, problem);
}

int session_files_fill_disk(SessionFiles *files, FilesRoom size, KeeperDone *done, void *userdata,
                            Problem *problem)
{
    const JobFill fill = {.id = text_of(files->id), .bytes = size.bytes, .files = size.files};

    if (keeper_ask(files->keeper, files->user, JOB_FILL_DISK, &fill, done, userdata) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    return 0;
}

int session_files_put_template(SessionFiles *files, const char *template, KeeperDone *done, void *userdata,
                               Problem *problem)
{
    const JobTemplate put = {.id = text_of(files->id), .template = text_of(template), .budget = NO_UINT};

    if (keeper_ask(files->keeper, files->user, JOB_PUT_TEMPLATE, &put, done, userdata) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    return 0;
}

/* ---- watching ---- */

static void on_watched(void *userdata, KeeperAnswer *answer)
{
    SessionFiles *files = userdata;
    const JobWatched *watched = &answer->body->as_WATCH;

    files->lookouts[FILES_SESSION].pending = watched->pending;
    if (watched->watched)
        files->lookouts[FILES_SESSION].fd = take_fd(&answer->descriptors[0]);
    files->lookouts[FILES_WORK].pending = watched->work_pending;
    if (watched->work_watched)
        files->lookouts[FILES_WORK].fd = take_fd(&answer->descriptors[watched->watched]);
}

int session_files_watch(SessionFiles *files, FilesRoom room, Problem *problem)
{
    const JobWatch watch = {.id = text_of(files->id), .bytes = room.bytes, .files = room.files};

    return keeper_call(files->keeper, JOB_WATCH, &watch, on_watched, files, problem);
}

int session_files_claim(SessionFiles *files, const char *as, uint64_t reader, const FilesRoom *room,
                        Problem *problem)
{
    const JobClaim claim = {.id = text_of(files->id),
                            .as = text_of(as),
                            .reader = reader,
                            .bytes = room ? room->bytes : NO_UINT,
                            .files = room ? room->files : NO_UINT};
    char *published_id = strdup(as);
    int r = published_id
                ? keeper_call(files->keeper, JOB_CLAIM, &claim, room ? on_watched : NULL, files, problem)
                : problem_set(problem, ERR_INTERNAL, "out of memory");

    if (r == 0)
        files->published_id = published_id;
    else
        free(published_id);
    return r;
}

/* ---- taking over, and giving up ---- */

int session_files_adopt(SessionFiles *files, const char *state_dir, const char *id, const char *published_id,
                        bool ephemeral, bool mounts, Problem *problem)
{
    const JobAdopt adopt = {
        .id = text_of(id), .as = text_of(published_id), .ephemeral = ephemeral, .mounts = mounts};

    if (!name(files, state_dir, id, published_id, ephemeral, problem))
        return -EPROTO;
    return keeper_call(files->keeper, JOB_ADOPT, &adopt, NULL, NULL, problem);
}

static void on_synced(void *userdata, KeeperAnswer *answer)
{
    if (answer->problem)
        log_warn("saved session not synced", "reason=%s", answer->problem->text);
}

void session_files_sync(SessionFiles *files)
{
    const JobOf request = {.id = text_of(files->id)};

    if (keeper_ask(files->keeper, files->user, JOB_SYNC, &request, on_synced, NULL) < 0)
        log_warn("saved session not synced", "reason=out of memory");
}

void session_files_reported(SessionFiles *files, const msgpack_object_array *reported)
{
    const JobReported request = {.id = text_of(files->id), .files = {.array = reported}};

    files->has_reported = true;
    keeper_tell(files->keeper, JOB_REPORTED, &request);
}

static void end(SessionFiles *files, JobKind kind)
{
    if (files->id)
        keeper_tell(files->keeper, kind, &(JobOf){.id = text_of(files->id)});
    forget(files);
}

void session_files_remove(SessionFiles *files)
{
    end(files, JOB_REMOVE);
}

void session_files_leave(SessionFiles *files)
{
    end(files, JOB_LEAVE);
}
