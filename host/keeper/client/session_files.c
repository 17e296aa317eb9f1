#include "host/keeper/client/session_files.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/keeper/client/internal.h"
#include "proto/base/log.h"

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
    Problem problem = PROBLEM_NULL;

    files->has_reported = true;
    keeper_call(files->keeper, JOB_REPORTED, &request, NULL, NULL, &problem);
}

static void end(SessionFiles *files, JobKind kind)
{
    const JobOf request = {.id = text_of(files->id)};
    Problem problem = PROBLEM_NULL;

    if (files->id)
        keeper_call(files->keeper, kind, &request, NULL, NULL, &problem);
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
