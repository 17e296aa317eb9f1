/* limpet_export(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/exporting/artifact_files.h"
#include "clients/c/exporting/json_file.h"
#include "clients/c/exporting/notebook.h"
#include "clients/c/exporting/versions.h"
#include "clients/c/options.h"

/* Result for the caller, and the memory that it points into. */
typedef struct Exporting {
    LimpetExported exported;
    msgpack_zone *zone;
    LimpetClient *client;
    const char *session, *directory;
    PastCalls past;
    Versions versions;
} Exporting;

/* In the memory of what the caller gets. */
static const char *path_of(Exporting *exporting, const char *name)
{
    Arena arena = {.zone = exporting->zone};
    _cleanup_(freep) char *path = NULL;

    if (asprintf(&path, "%s/%s", exporting->directory, name) < 0) {
        path = NULL;
        return NULL;
    }
    return arena_text(&arena, text_of(path));
}

/* ---- lock.json ---- */

static void write_artifact(Writer *w, const LimpetExportedArtifact *artifact)
{
    write_map(w, 6);
    write_key(w, "path");
    write_name(w, artifact->path);
    write_key(w, "file");
    if (artifact->file)
        write_name(w, artifact->file);
    else
        write_nil(w);
    write_key(w, "size");
    write_uint(w, artifact->size);
    write_key(w, "sha256");
    write_text(w, artifact->sha256);
    write_key(w, "run_id");
    write_text(w, artifact->run_id);
    write_key(w, "execution_count");
    if (artifact->execution_count > 0)
        write_uint(w, artifact->execution_count);
    else
        write_nil(w);
}

static void write_lock(Writer *w, const Exporting *exporting, const MsgOpenReply *opened)
{
    Text image = opened->options.image;

    write_map(w, 7);
    write_key(w, "session");
    write_text_n(w, opened->session.data, opened->session.size);
    write_key(w, "engine");
    write_text_n(w, opened->engine.data, opened->engine.size);
    write_key(w, "image");
    if (opened->has_options && image.size > 0)
        write_text_n(w, image.data, image.size);
    else
        write_nil(w);
    write_key(w, "python");
    write_text_n(w, exporting->versions.python.data, exporting->versions.python.size);
    write_key(w, "packages");
    json_pack_sorted(w, exporting->versions.packages);
    write_key(w, "requirements");
    json_pack(w, exporting->versions.requirements);
    write_key(w, "artifacts");
    write_array(w, exporting->exported.n_artifacts);
    for (size_t i = 0; i < exporting->exported.n_artifacts; i++)
        write_artifact(w, &exporting->exported.artifacts[i]);
}

static int export_lock(Exporting *exporting)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    _cleanup_(buf_deinit) Buf packed = BUF_NULL;
    LimpetClient *client = exporting->client;
    const MsgOpen attach = {
        .session = text_of(exporting->session), .attach = true, .options = options_say(NULL)};
    ClientCall call = {.repeatable = true};
    MsgOpenReply opened;
    Writer w;
    int r;

    client_begin(client, &call, MSG_OPEN, MsgOpen, &attach);
    r = client_call(client, &call, &reply);
    if (!r)
        r = reply_decode(&opened, MsgOpenReply, &reply.message.body, &client->problem);
    if (r)
        return r;
    writer_init(&w, &packed);
    write_lock(&w, exporting, &opened);
    r = writer_finish(&w);
    return r ? r : json_file_write(exporting->exported.lock, &packed, &client->problem);
}

/* ---- the rest ---- */

static int export_notebook(Exporting *exporting)
{
    _cleanup_(buf_deinit) Buf packed = BUF_NULL;
    Writer w;
    int r;

    writer_init(&w, &packed);
    notebook_write(&w, &exporting->past, exporting->versions.python);
    r = writer_finish(&w);
    return r ? r : json_file_write(exporting->exported.notebook, &packed, &exporting->client->problem);
}

static int export_artifacts(Exporting *exporting)
{
    Arena arena = {.zone = exporting->zone};
    const char *directory = path_of(exporting, "artifacts");

    if (!directory)
        return -ENOMEM;
    return artifact_files_export(exporting->client, exporting->session, &exporting->past, directory, &arena,
                                 &exporting->exported.artifacts, &exporting->exported.n_artifacts);
}

static int export_all(Exporting *exporting)
{
    int r;

    exporting->past.own = versions_command;
    exporting->exported.notebook = path_of(exporting, "notebook.ipynb");
    exporting->exported.lock = path_of(exporting, "lock.json");
    if (!exporting->exported.notebook || !exporting->exported.lock)
        return -ENOMEM;
    r = past_calls_read(&exporting->past, exporting->client, exporting->session);
    if (r == 0)
        r = versions_ask(&exporting->versions, exporting->client, exporting->session);
    if (r == 0)
        r = export_artifacts(exporting);
    if (r == 0)
        r = export_notebook(exporting);
    return r ? r : export_lock(exporting);
}

int limpet_export(LimpetClient *client, const char *session, const char *directory, LimpetExported **ret)
{
    Exporting *exporting = calloc(1, sizeof(*exporting));
    int r = -ENOMEM;

    client->problem = PROBLEM_NULL;
    if (!exporting)
        return client_result(client, r);
    exporting->client = client;
    exporting->session = session;
    exporting->directory = directory;
    exporting->zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    if (exporting->zone)
        r = export_all(exporting);
    past_calls_deinit(&exporting->past);
    versions_deinit(&exporting->versions);
    if (r == 0 && ret)
        *ret = &exporting->exported;
    else
        limpet_exported_free(&exporting->exported);
    return client_result(client, r);
}

void limpet_exported_free(LimpetExported *exported)
{
    Exporting *exporting = container_of(exported, Exporting, exported);

    if (!exported)
        return;
    if (exporting->zone)
        msgpack_zone_free(exporting->zone);
    free(exporting);
}
