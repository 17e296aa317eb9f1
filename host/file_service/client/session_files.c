#include "host/file_service/client/session_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/files/artifact_list.h"
#include "proto/base/log.h"

/* ---- asking ---- */

/* A request that has no answer. */
typedef struct FilesAsk {
    List link;           /* SessionFiles.asked */
    SessionFiles *files; /* NULL once they are gone */
    JobKind kind;
    FilesPlace place; /* of what is published */
    union {
        FilesDone *done;
        FilesPublished *published;
        FilesReported *reported;
    };
    void *userdata;
} FilesAsk;

/* An encoded array of reported files. */
typedef struct Noted {
    List link; /* SessionFiles.noted */
    Buf files;
} Noted;

static int ask(SessionFiles *files, const FilesAsk *what, const void *request, FileServiceDone *answered)
{
    FilesAsk *ask = malloc(sizeof(*ask));
    int r;

    if (!ask)
        return -ENOMEM;
    *ask = *what;
    ask->files = files;
    list_append(&files->asked, &ask->link);
    r = file_service_ask(files->file_service, files->user, ask->kind, request, answered, ask);
    if (r == 0)
        return 0;
    list_remove(&ask->link);
    free(ask);
    return r;
}

/* Frees it. Its files are NULL if they are gone. */
static FilesAsk take_asked(void *userdata)
{
    FilesAsk *ask = userdata, taken = *ask;

    list_remove(&ask->link);
    free(ask);
    return taken;
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

int session_files_put_reported(SessionFiles *files, FilesPut *put, void *userdata)
{
    Noted *noted;
    int r;

    if (files->ephemeral)
        return 0;
    list_foreach (noted, &files->noted, Noted, link) {
        r = put(userdata, &noted->files);
        if (r < 0)
            return r;
    }
    forget_noted(files);
    return 0;
}

static void on_reported(void *userdata, FileServiceAnswer *answer)
{
    FilesAsk asked = take_asked(userdata);

    if (!asked.files)
        return;
    if (answer->body)
        forget_noted(asked.files);
    asked.reported(asked.userdata, answer->body ? &answer->body->as_BASELINE.files : NULL);
}

int session_files_ask_reported(SessionFiles *files, FilesReported *done, void *userdata)
{
    const JobOf request = {.id = text_of(files->id)};

    return ask(files, &(FilesAsk){.kind = JOB_BASELINE, .reported = done, .userdata = userdata}, &request,
               on_reported);
}

/* ---- publishing ---- */

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

static void watch_again(PlaceWatch *watch, const JobPublished *published, Descriptors *descriptors)
{
    watch->pending = published->pending;
    if (published->moved) {
        closep(&watch->fd);
        watch->fd = descriptors_take(descriptors, 0);
    }
}

static void on_published(void *userdata, FileServiceAnswer *answer)
{
    FilesAsk asked = take_asked(userdata);
    const JobPublished *published = answer->body ? &answer->body->as_PUBLISH : NULL;
    ArtifactList *list = published && asked.kind == JOB_PUBLISH ? list_of(published) : NULL;

    if (asked.files && published) {
        watch_again(&asked.files->watches[asked.place], published, &answer->descriptors);
        note(asked.files, &published->noted);
    }
    asked.published(asked.userdata, list);
}

static int publish(SessionFiles *files, JobKind kind, FilesPlace place, FilesPublished *done, void *userdata)
{
    const JobPublish request = {.id = text_of(files->id), .work = place == FILES_WORK};

    return ask(files, &(FilesAsk){.kind = kind, .place = place, .published = done, .userdata = userdata},
               &request, on_published);
}

int session_files_publish(SessionFiles *files, FilesPlace place, FilesPublished *done, void *userdata)
{
    return publish(files, JOB_PUBLISH, place, done, userdata);
}

int session_files_accept(SessionFiles *files, FilesPublished *done, void *userdata)
{
    return publish(files, JOB_ACCEPT, FILES_SESSION, done, userdata);
}

/* ---- the files of a sandbox ---- */

void session_files_init(SessionFiles *files, FileServiceClient *file_service)
{
    *files = (SessionFiles){.file_service = file_service};
    for (FilesPlace place = 0; place < FILES_PLACES; place++)
        files->watches[place].fd = -1;
    list_init(&files->asked);
    list_init(&files->noted);
}

/* Forgets them: whoever waits for a publication is told all the same. */
static void forget(SessionFiles *files)
{
    FileServiceClient *file_service = files->file_service;
    uid_t user = files->user;
    FilesAsk *ask;

    for (FilesPlace place = 0; place < FILES_PLACES; place++)
        close_fd(&files->watches[place].fd);
    list_foreach (ask, &files->asked, FilesAsk, link) {
        ask->files = NULL;
        list_remove(&ask->link);
        list_init(&ask->link);
    }
    forget_noted(files);
    free(files->id);
    free(files->files_path);
    free(files->scratch_path);
    session_files_init(files, file_service);
    files->user = user;
}

/* STATE_DIR/sessions/ID/TAIL */
static char *format_path(const char *state_dir, const char *id, const char *tail)
{
    char *path;

    return asprintf(&path, "%s/sessions/%s/%s", state_dir, id, tail) < 0 ? NULL : path;
}

/* False when out of memory, with the problem set and nothing known. */
static bool name(SessionFiles *files, const FilesSpec *spec, Problem *problem)
{
    files->id = strdup(spec->id);
    files->files_path = format_path(spec->state_dir, spec->id, "files");
    files->scratch_path = format_path(spec->state_dir, spec->id, "scratch");
    files->ephemeral = spec->ephemeral;
    if (files->id && files->files_path && files->scratch_path)
        return true;
    forget(files);
    problem_set(problem, ERR_INTERNAL, "out of memory");
    return false;
}

static void watch_places(SessionFiles *files, const JobWatched *watched, Descriptors *descriptors)
{
    PlaceWatch *session = &files->watches[FILES_SESSION], *work = &files->watches[FILES_WORK];

    session->pending = watched->pending;
    if (watched->watched)
        session->fd = descriptors_take(descriptors, 0);
    work->pending = watched->work_pending;
    if (watched->work_watched)
        work->fd = descriptors_take(descriptors, watched->watched);
}

static void on_watched(void *userdata, FileServiceAnswer *answer)
{
    FilesAsk asked = take_asked(userdata);

    if (!asked.files)
        return;
    if (!answer->problem) {
        asked.files->state = FILES_THERE;
        watch_places(asked.files, &answer->body->as_PREPARE, &answer->descriptors);
    } else if (asked.kind != JOB_CLAIM) {
        asked.files->state = asked.kind == JOB_ADOPT ? FILES_AMISS : FILES_NONE;
    }
    asked.done(asked.userdata, answer->problem);
}

/* Asks for something that is answered with what is watched. */
static int ask_watched(SessionFiles *files, JobKind kind, const void *request, FilesDone *done,
                       void *userdata, Problem *problem)
{
    const FilesAsk what = {.kind = kind, .done = done, .userdata = userdata};

    if (ask(files, &what, request, on_watched) == 0)
        return 0;
    return problem_set(problem, ERR_INTERNAL, "out of memory");
}

int session_files_prepare(SessionFiles *files, const FilesSpec *spec, FilesDone *done, void *userdata,
                          Problem *problem)
{
    const JobPrepare prepare = {.id = text_of(spec->id),
                                .as = text_of(spec->published),
                                .reader = spec->reader,
                                .ephemeral = spec->ephemeral,
                                .disk = spec->disk,
                                .bytes = spec->room.bytes,
                                .files = spec->room.files,
                                .template = text_of(spec->template)};

    if (!name(files, spec, problem))
        return -EPROTO;
    files->state = FILES_ASKED;
    if (ask_watched(files, JOB_PREPARE, &prepare, done, userdata, problem) == 0)
        return 0;
    forget(files);
    return -EPROTO;
}

int session_files_claim(SessionFiles *files, const FilesSpec *spec, FilesDone *done, void *userdata,
                        Problem *problem)
{
    const JobClaim claim = {.id = text_of(files->id),
                            .as = text_of(spec->published),
                            .reader = spec->reader,
                            .bytes = spec->room.bytes,
                            .files = spec->room.files};

    return ask_watched(files, JOB_CLAIM, &claim, done, userdata, problem);
}

/* ---- taking over, and giving up ---- */

int session_files_adopt(SessionFiles *files, const FilesSpec *spec, bool mounts, FilesDone *done,
                        void *userdata, Problem *problem)
{
    const JobAdopt adopt = {.id = text_of(spec->id),
                            .as = text_of(spec->published),
                            .reader = spec->reader,
                            .ephemeral = spec->ephemeral,
                            .mounts = mounts,
                            .bytes = spec->room.bytes,
                            .files = spec->room.files};

    if (!name(files, spec, problem))
        return -EPROTO;
    files->state = FILES_ASKED;
    if (ask_watched(files, JOB_ADOPT, &adopt, done, userdata, problem) == 0)
        return 0;
    files->state = FILES_AMISS;
    return -EPROTO;
}

static void on_synced(void *userdata, FileServiceAnswer *answer)
{
    if (answer->problem)
        log_warn("saved session not synced", "reason=%s", answer->problem->text);
}

void session_files_sync(SessionFiles *files)
{
    const JobOf request = {.id = text_of(files->id)};

    if (file_service_ask(files->file_service, files->user, JOB_SYNC, &request, on_synced, NULL) < 0)
        log_warn("saved session not synced", "reason=out of memory");
}

void session_files_reported(SessionFiles *files, const msgpack_object_array *reported)
{
    const JobReported request = {.id = text_of(files->id), .files = {.array = reported}};

    files->has_reported = true;
    file_service_tell(files->file_service, JOB_REPORTED, &request);
}

static void end(SessionFiles *files, JobKind kind)
{
    if (files->state != FILES_NONE)
        file_service_tell(files->file_service, kind, &(JobOf){.id = text_of(files->id)});
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
