/* Questions about the artifacts of a session. */
#include <errno.h>
#include <string.h>

#include "host/files/artifact_list.h"
#include "host/files/watch.h"
#include "host/keeper/client/internal.h"

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

void publications_forget(SessionFiles *files)
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
