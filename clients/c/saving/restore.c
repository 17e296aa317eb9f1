/* limpet_restore(). */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "clients/c/options.h"
#include "clients/c/saving/archive_check.h"
#include "clients/c/saving/manifest.h"
#include "clients/c/saving/place.h"
#include "clients/c/saving/unpack.h"
#include "clients/c/session.h"

/* Result for the caller, and the memory that it points into. */
typedef struct Restoring {
    LimpetRestored restored;
    NoteList missing;
    LimpetClient *client;
    const char *session;
    ArchiveReader archive;
    Manifest manifest;
    TreeProgress progress;
} Restoring;

/* ---- the session ---- */

/* Returns whether the packages are the session's own, and not others that were given. */
static bool has_own_packages(const Restoring *restoring, const MsgOptions *given)
{
    return restoring->manifest.requirements && !given->packages.data;
}

static int explain_packages(LimpetClient *client)
{
    Problem problem = client->problem;

    return problem_set(
        &client->problem, ERR_RESTORE_FAILED,
        "the packages of the session cannot be installed as they were: %s; give `packages`, if "
        "only as an empty list, to restore it with others",
        problem.text);
}

static int open_session(Restoring *restoring, const MsgOptions *given)
{
    LimpetClient *client = restoring->client;
    MsgOpen open = {.session = text_of(restoring->session), .restoring = true, .options = *given};
    int r;

    manifest_complete(&restoring->manifest, &open.options);
    r = session_open(client, &open, &restoring->restored.opened);
    if (r == -EPROTO && client->problem.code == ERR_INSTALL_FAILED && has_own_packages(restoring, given))
        return explain_packages(client);
    return r;
}

/* ---- what is in it ---- */

static int note_missing(Restoring *restoring, const MsgLoaded *said)
{
    int r = 0;

    for (uint32_t i = 0; r == 0 && i < value_count(&said->missing); i++) {
        Text note = value_text(&said->missing, i);

        r = note_list_add(&restoring->missing, "%.*s", (int)note.size, note.data);
    }
    return r;
}

static int load(Restoring *restoring, const char *place)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    LimpetClient *client = restoring->client;
    const MsgLoad load = {.session = text_of(restoring->session),
                          .instance = text_of(restoring->restored.opened.instance),
                          .path = text_of(place),
                          .execution_count = restoring->manifest.execution_count};
    ClientCall call = {.repeatable = true};
    MsgLoaded said;
    int r;

    client_begin(client, &call, MSG_LOAD, MsgLoad, &load);
    r = client_call(client, &call, &reply);
    if (!r)
        r = reply_decode(&said, MsgLoaded, &reply.message.body, &client->problem);
    return r ? r : note_missing(restoring, &said);
}

static int fill(Restoring *restoring)
{
    LimpetClient *client = restoring->client;
    char place[PLACE_SIZE];
    int r = place_make(place, &client->problem);

    if (r == 0)
        r = unpack(client, restoring->session, &restoring->archive, place, &restoring->progress);
    if (r == 0)
        r = load(restoring, place);
    if (r == 0)
        place_remove(client, restoring->session, place);
    return r;
}

/* No session is left; the client's problem stays. */
static void give_up(Restoring *restoring)
{
    LimpetClient *client = restoring->client;
    Problem problem = client->problem;

    limpet_close(client, restoring->session, NULL, NULL);
    client->problem = problem;
    if (problem.code == ERR_FILE_FAILED || problem.code == ERR_NO_SUCH_SESSION ||
        problem.code == ERR_SESSION_CLOSED) {
        client->problem.code = ERR_RESTORE_FAILED;
        problem_prefix(&client->problem, "'%.400s' could not be restored", restoring->archive.path);
    }
}

/* ---- all of it ---- */

/* Leaves the archive behind its manifest. */
static int check(Restoring *restoring)
{
    ArchiveReader *archive = &restoring->archive;
    int r = manifest_read(&restoring->manifest, archive);
    uint64_t behind;

    if (r < 0)
        return r;
    behind = archive->at + archive->skipped;
    r = archive_check(archive, &restoring->progress.whole);
    return r ? r : archive_seek(archive, behind);
}

static int restore(Restoring *restoring, int fd, const char *path, const LimpetOptions *options)
{
    const MsgOptions given = options_say(options);
    int r = archive_reader_open(&restoring->archive, fd, path, &restoring->client->problem);

    if (r == 0)
        r = check(restoring);
    if (r == 0)
        r = manifest_note_not_granted(&restoring->manifest, &given, &restoring->missing);
    if (r == 0)
        r = open_session(restoring, &given);
    if (r < 0)
        return r;
    r = fill(restoring);
    if (r < 0)
        give_up(restoring);
    return r;
}

static int open_and_restore(Restoring *restoring, const char *path, const LimpetOptions *options)
{
    Problem *problem = &restoring->client->problem;
    _cleanup_(closep) int fd = -1;
    int r = options_check(restoring->client, options, problem);

    if (r < 0)
        return r;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return problem_set(problem, ERR_BAD_REQUEST, "cannot read '%s': %s", path, strerror(errno));
    r = restore(restoring, fd, path, options);
    archive_reader_deinit(&restoring->archive);
    manifest_deinit(&restoring->manifest);
    return r;
}

int limpet_restore(LimpetClient *client, const char *path, const char *session, const LimpetOptions *options,
                   LimpetOnProgress *on_progress, void *context, LimpetRestored **ret)
{
    Restoring *restoring = calloc(1, sizeof(*restoring));
    int r;

    client->problem = PROBLEM_NULL;
    if (!restoring)
        return client_result(client, -ENOMEM);
    restoring->client = client;
    restoring->session = session;
    restoring->progress = (TreeProgress){.tell = on_progress, .context = context};
    r = open_and_restore(restoring, path, options);
    restoring->restored.missing = restoring->missing.texts;
    restoring->restored.n_missing = restoring->missing.n;
    if (r == 0 && ret)
        *ret = &restoring->restored;
    else
        limpet_restored_free(&restoring->restored);
    return client_result(client, r);
}

void limpet_restored_free(LimpetRestored *restored)
{
    Restoring *restoring = container_of(restored, Restoring, restored);

    if (!restored)
        return;
    note_list_deinit(&restoring->missing);
    free(restoring);
}
