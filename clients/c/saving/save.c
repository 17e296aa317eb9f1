/* limpet_save(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/options.h"
#include "clients/c/saving/manifest.h"
#include "clients/c/saving/pack.h"
#include "clients/c/saving/place.h"
#include "clients/c/sandbox_files.h"

/* Result for the caller, and the memory that it points into. */
typedef struct Saving {
    LimpetSaved saved;
    SavedIndex index;
    Packing packing;
} Saving;

static void free_entries(LimpetEntries **entries)
{
    limpet_entries_free(*entries);
}

static void free_sessions(LimpetSessions **sessions)
{
    limpet_sessions_free(*sessions);
}

/* ---- what the sandbox and the controller say ---- */

/* Nothing that is in the sandbox is to fill the memory here. */
static int read_index_file(Packing *packing, const char *path, Buf *ret)
{
    MsgFileRead piece = {.path = text_of(path), .size = LIMIT_FILE_CHUNK, .file = NO_UINT};
    Problem *problem = &packing->client->problem;

    for (;;) {
        _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
        const MsgFileAsk what = {.has_read = true, .read = piece};
        MsgFileReadReply said;
        int r = files_ask(packing->client, packing->session, &what, false, &reply, &said, MsgFileReadReply);

        if (r)
            return r;
        if (said.size > ARCHIVE_JSON_MAX || ret->size + said.data.size > ARCHIVE_JSON_MAX)
            return problem_set(problem, ERR_PROTOCOL_MISMATCH,
                               "the sandbox says more than %u bytes of its variables", ARCHIVE_JSON_MAX);
        if (buf_append(ret, said.data.data, said.data.size) < 0)
            return -ENOMEM;
        if (said.data.size == 0 || ret->size >= said.size)
            return 0;
        piece.offset = ret->size;
    }
}

static int note_skipped(Saving *saving)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_object_array_length(saving->index.skipped); i++)
        r = note_list_add(&saving->packing.skipped, "%s",
                          json_object_get_string(json_object_array_get_idx(saving->index.skipped, i)));
    return r;
}

static int count_calls(LimpetClient *client, const char *session, uint64_t *ret)
{
    _cleanup_(free_sessions) LimpetSessions *list = NULL;

    if (limpet_sessions(client, &list))
        return -EPROTO;
    *ret = 0;
    for (size_t i = 0; i < list->n_sessions; i++)
        if (strcmp(list->sessions[i].session, session) == 0)
            *ret = list->sessions[i].execution_count;
    return 0;
}

/* The manifest, of what is known before any file is read. */
static int describe(Saving *saving, Buf *ret)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    LimpetClient *client = saving->packing.client;
    const MsgOpen attach = {
        .session = text_of(saving->packing.session), .attach = true, .options = options_say(NULL)};
    ManifestFacts facts = {.index = &saving->index, .skipped = &saving->packing.skipped};
    ClientCall call = {.repeatable = true};
    const msgpack_object *options;
    MsgOpenReply said;
    int r = count_calls(client, saving->packing.session, &facts.execution_count);

    if (r < 0)
        return r;
    client_begin(client, &call, MSG_OPEN, MsgOpen, &attach);
    r = client_call(client, &call, &reply);
    if (!r)
        r = reply_decode(&said, MsgOpenReply, &reply.message.body, &client->problem);
    if (r)
        return r;
    options = map_find(&reply.message.body, "options");
    if (!options || options->type != MSGPACK_OBJECT_MAP)
        return problem_set(&client->problem, ERR_PROTOCOL_MISMATCH, "the controller tells no options");
    facts.session = said.session;
    facts.engine = said.engine;
    facts.options = &options->via.map;
    return manifest_write(ret, &facts);
}

/* ---- the archive ---- */

/* Packs what is in front of the files. */
static int pack_variables(Saving *saving, const char *place, const Buf *index)
{
    _cleanup_(buf_deinit) Buf manifest = BUF_NULL;
    _cleanup_(freep) char *pickles = NULL;
    ArchiveWriter *archive = &saving->packing.archive;
    int r = describe(saving, &manifest);

    if (r == 0)
        r = archive_add_own(archive, ARCHIVE_MANIFEST, 0644, buf_head(&manifest), manifest.size);
    if (r == 0)
        r = archive_add_own(archive, ARCHIVE_INDEX, 0600, buf_head(index), index->size);
    if (r < 0)
        return r;
    if (asprintf(&pickles, "%s/%s", place, ARCHIVE_PICKLES) < 0) {
        pickles = NULL;
        return -ENOMEM;
    }
    return pack_file(&saving->packing, pickles, &(Member){.name = ARCHIVE_PICKLES, .mode = 0600});
}

static int pack_all(Saving *saving, const char *place, const char *path)
{
    _cleanup_(free_entries) LimpetEntries *list = NULL;
    _cleanup_(freep) LimpetEntry *entries = NULL;
    _cleanup_(buf_deinit) Buf index = BUF_NULL;
    Packing *packing = &saving->packing;
    Problem *problem = &packing->client->problem;
    char index_path[PLACE_SIZE + sizeof(ARCHIVE_INDEX)];
    size_t n = 0;
    int r;

    snprintf(index_path, sizeof(index_path), "%s/%s", place, ARCHIVE_INDEX);
    r = read_index_file(packing, index_path, &index);
    if (r == 0)
        r = saved_index_read(&saving->index, buf_head(&index), index.size, problem);
    if (r == 0)
        r = note_skipped(saving);
    if (r == 0 && limpet_files_list(packing->client, packing->session, SAVING_TOP, LIMIT_FILE_DEPTH, &list))
        r = -EPROTO;
    if (r == 0)
        r = pack_select(packing, list, &entries, &n);
    if (r == 0)
        r = archive_writer_open(&packing->archive, path, problem);
    if (r == 0)
        r = pack_variables(saving, place, &index);
    if (r == 0)
        r = pack_entries(packing, entries, n);
    return r ? r : archive_finish(&packing->archive);
}

static int order_save(LimpetClient *client, const char *session, const char *place)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgSave save = {.session = text_of(session), .path = text_of(place)};
    ClientCall call = {.repeatable = true};

    client_begin(client, &call, MSG_SAVE, MsgSave, &save);
    return client_call(client, &call, &reply);
}

static int save(Saving *saving, const char *path)
{
    LimpetClient *client = saving->packing.client;
    char place[PLACE_SIZE];
    int r = place_make(place, &client->problem);

    if (r < 0)
        return r;
    r = order_save(client, saving->packing.session, place);
    if (r == 0)
        r = pack_all(saving, place, path);
    place_remove(client, saving->packing.session, place);
    return r;
}

static void tell(Saving *saving)
{
    saving->saved = (LimpetSaved){
        .path = saving->packing.archive.path,
        .size = saving->packing.archive.size,
        .variables = saving->index.variables,
        .n_variables = saving->index.n_variables,
        .skipped = saving->packing.skipped.texts,
        .n_skipped = saving->packing.skipped.n,
    };
}

int limpet_save(LimpetClient *client, const char *session, const char *path, LimpetOnProgress *on_progress,
                void *context, LimpetSaved **ret)
{
    Saving *saving = calloc(1, sizeof(*saving));
    int r;

    client->problem = PROBLEM_NULL;
    if (!saving)
        return client_result(client, -ENOMEM);
    saving->packing = (Packing){
        .client = client, .session = session, .progress = {.tell = on_progress, .context = context}};
    r = save(saving, path);
    tell(saving);
    if (r == 0 && ret)
        *ret = &saving->saved;
    else
        limpet_saved_free(&saving->saved);
    return client_result(client, r);
}

void limpet_saved_free(LimpetSaved *saved)
{
    Saving *saving = container_of(saved, Saving, saved);

    if (!saved)
        return;
    archive_writer_close(&saving->packing.archive);
    note_list_deinit(&saving->packing.skipped);
    saved_index_deinit(&saving->index);
    free(saving);
}
