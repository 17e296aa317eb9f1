/* limpet_files_...(). */
#include "clients/c/files.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "clients/c/json.h"
#include "proto/base/fdio.h"

/* ---- lists ---- */

typedef struct EntryList {
    LimpetEntries entries; /* the caller's view */
    LimpetEntry *space;
    size_t capacity;
    msgpack_zone *zone;
} EntryList;

static EntryList *entry_list_free(EntryList *list)
{
    if (!list)
        return NULL;
    if (list->zone)
        msgpack_zone_free(list->zone);
    free(list->space);
    free(list);
    return NULL;
}

DEFINE_CLEANUP(EntryList *, entry_list_free);

/* NULL when out of memory. */
static EntryList *entry_list_new(void)
{
    EntryList *list = calloc(1, sizeof(*list));

    if (!list)
        return NULL;
    list->zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    return list->zone ? list : entry_list_free(list);
}

static int make_room(EntryList *list)
{
    size_t capacity = MAX(2 * list->capacity, (size_t)64);
    LimpetEntry *space;

    if (list->entries.n_entries < list->capacity)
        return 0;
    space = realloc(list->space, capacity * sizeof(*space));
    if (!space)
        return -ENOMEM;
    list->space = space;
    list->capacity = capacity;
    return 0;
}

static const char *name_of(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

/* Adds one that the controller said. 0 or -ENOMEM. */
static int entry_list_add(EntryList *list, const MsgFileEntry *said)
{
    Arena arena = {.zone = list->zone};
    LimpetEntry *entry;

    if (make_room(list) < 0)
        return -ENOMEM;
    entry = &list->space[list->entries.n_entries++];
    *entry = (LimpetEntry){.path = arena_text(&arena, said->path),
                           .type = arena_text(&arena, said->type),
                           .size = uint_or(said->size, 0),
                           .mode = (unsigned)uint_or(said->mode, 0),
                           .modified = said->modified,
                           .target = arena_text(&arena, said->target),
                           .unreadable = said->unreadable};
    if (arena.failed)
        return -ENOMEM;
    entry->name = name_of(entry->path);
    return 0;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const LimpetEntry *)a)->path, ((const LimpetEntry *)b)->path);
}

/* All are there: sorts them by path. */
static LimpetEntries *entry_list_end(EntryList *list)
{
    list->entries.entries = list->space;
    if (list->entries.n_entries > 0)
        qsort(list->space, list->entries.n_entries, sizeof(*list->space), compare);
    return &list->entries;
}

void limpet_entries_free(LimpetEntries *entries)
{
    if (entries)
        entry_list_free(container_of(entries, EntryList, entries));
}

static int encode(Buf *to, const LimpetEntry *entry)
{
    MsgFileEntry row;

    body_clear(&row, MsgFileEntry);
    row.path = text_of(entry->path);
    row.type = text_of(entry->type);
    row.size = entry->size;
    row.mode = entry->mode;
    row.modified = entry->modified;
    if (entry->target)
        row.target = text_of(entry->target);
    row.unreadable = entry->unreadable;
    return body_encode(to, MsgFileEntry, &row);
}

char *limpet_entries_json(const LimpetEntries *entries)
{
    Buf rows _cleanup_(buf_deinit) = BUF_NULL;
    Buf body _cleanup_(buf_deinit) = BUF_NULL, json _cleanup_(buf_deinit) = BUF_NULL;
    msgpack_unpacked all;
    char *text = NULL;
    Writer w;

    for (size_t i = 0; i < entries->n_entries; i++)
        if (encode(&rows, &entries->entries[i]) < 0)
            return NULL;
    writer_init(&w, &body);
    write_map(&w, 1);
    write_key(&w, "entries");
    write_array(&w, entries->n_entries);
    write_encoded(&w, &rows);
    if (writer_finish(&w) < 0)
        return NULL;
    msgpack_unpacked_init(&all);
    if (msgpack_unpack_next(&all, (const char *)buf_head(&body), body.size, NULL) == MSGPACK_UNPACK_SUCCESS &&
        json_write(&json, &all.data, JSON_PATH) == 0)
        text = text_dup((Text){(const char *)buf_head(&json), json.size});
    msgpack_unpacked_destroy(&all);
    return text;
}

/* ---- files ---- */

int files_ask_with(LimpetClient *client, const char *session, const MsgFileAsk *what, bool once, Reply *reply,
                   void *ret, const Schema *schema)
{
    const MsgFiles body = {.session = text_of(session), .has_ask = true, .ask = *what};
    ClientCall call = {.repeatable = !once};

    client_begin(client, &call, MSG_FILES, MsgFiles, &body);
    return client_call_for_with(client, &call, reply, ret, schema);
}

static int ask_for_nothing(LimpetClient *client, const char *session, const MsgFileAsk *what, bool once)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    MsgNothing nothing;

    return files_ask(client, session, what, once, &reply, &nothing, MsgNothing);
}

/* ---- what is there ---- */

int limpet_files_stat(LimpetClient *client, const char *session, const char *path, LimpetEntries **ret)
{
    _cleanup_(entry_list_freep) EntryList *list = entry_list_new();
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgFileAsk what = {.has_stat = true, .stat.path = text_of(path)};
    MsgFileStatReply said;
    int r = list ? files_ask(client, session, &what, false, &reply, &said, MsgFileStatReply) : -ENOMEM;

    if (!r)
        r = entry_list_add(list, &said.entry);
    if (!r)
        *ret = entry_list_end(take(list));
    return client_result(client, r);
}

/* Lists one page. *next: where the following one begins, NO_UINT at the end. */
static int list_page(LimpetClient *client, const char *session, const MsgFileList *page, EntryList *list,
                     uint64_t *next)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgFileAsk what = {.has_list = true, .list = *page};
    MsgFileListReply said;
    int r = files_ask(client, session, &what, page->next != NO_UINT, &reply, &said, MsgFileListReply);

    for (uint32_t i = 0; !r && i < value_count(&said.entries); i++) {
        MsgFileEntry entry;

        value_row(&entry, MsgFileEntry, &said.entries, i);
        r = entry_list_add(list, &entry);
    }
    if (!r)
        *next = said.next;
    return r;
}

int limpet_files_list(LimpetClient *client, const char *session, const char *path, unsigned depth,
                      LimpetEntries **ret)
{
    _cleanup_(entry_list_freep) EntryList *list = entry_list_new();
    MsgFileList page = {.path = text_of(path), .depth = depth, .next = NO_UINT};
    uint64_t next = NO_UINT;
    int r = list ? list_page(client, session, &page, list, &next) : -ENOMEM;

    while (!r && next != NO_UINT) {
        page = (MsgFileList){.depth = NO_UINT, .next = next};
        r = list_page(client, session, &page, list, &next);
    }
    if (!r)
        *ret = entry_list_end(take(list));
    return client_result(client, r);
}

/* ---- contents ---- */

/* *at: where the next piece begins. 1: that was the last one. */
static int read_piece(LimpetClient *client, const char *session, MsgFileRead *piece, int fd)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgFileAsk what = {.has_read = true, .read = *piece};
    MsgFileReadReply said;
    int r = files_ask(client, session, &what, false, &reply, &said, MsgFileReadReply);

    if (r)
        return r;
    if (said.offset < piece->offset)
        return problem_set(&client->problem, ERR_PROTOCOL_MISMATCH,
                           "the controller answered with another piece");
    if (said.offset > piece->offset)
        r = skip_bytes(fd, said.offset - piece->offset);
    if (r == 0)
        r = write_all(fd, said.data.data, said.data.size);
    if (r < 0)
        return problem_set(&client->problem, ERR_INTERNAL, "cannot write the file: %s", strerror(-r));
    piece->offset = said.offset + said.data.size;
    piece->file = said.file;
    return said.data.size == 0 || (said.size > 0 && piece->offset >= said.size);
}

int limpet_files_read(LimpetClient *client, const char *session, const char *path, int fd)
{
    MsgFileRead piece = {.path = text_of(path), .offset = 0, .size = LIMIT_FILE_CHUNK, .file = NO_UINT};
    int r;

    do
        r = read_piece(client, session, &piece, fd);
    while (!r);
    if (r > 0)
        r = set_end(fd);
    return client_result(client, r);
}

/* Writes a piece of a new file, and makes of *piece what the next one begins with. */
static int files_write_piece(LimpetClient *client, const char *session, MsgFileWrite *piece)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgFileAsk what = {.has_write = true, .write = *piece};
    MsgFileWriteReply said;
    int r = files_ask(client, session, &what, piece->upload != NO_UINT, &reply, &said, MsgFileWriteReply);

    if (!r)
        *piece = (MsgFileWrite){.upload = said.upload, .offset = said.size, .mode = NO_UINT, .modified = NAN};
    return r;
}

int limpet_files_write(LimpetClient *client, const char *session, const char *path, int fd, unsigned mode,
                       bool parents)
{
    _cleanup_(freep) uint8_t *bytes = malloc(LIMIT_FILE_CHUNK);
    MsgFileWrite piece = {.path = text_of(path),
                          .upload = NO_UINT,
                          .offset = 0,
                          .mode = mode,
                          .modified = NAN,
                          .parents = parents};
    bool last = false;
    int r = bytes ? 0 : -ENOMEM;

    client->problem = PROBLEM_NULL;
    while (!r && !last) {
        ssize_t n = read_whole(fd, bytes, LIMIT_FILE_CHUNK);

        if (n < 0) {
            r = problem_set(&client->problem, ERR_BAD_REQUEST, "cannot read the file: %s", strerror((int)-n));
            break;
        }
        piece.data = (Text){(const char *)bytes, (size_t)n};
        last = piece.last = (size_t)n < LIMIT_FILE_CHUNK;
        r = files_write_piece(client, session, &piece);
    }
    return client_result(client, r);
}

/* ---- the tree ---- */

int limpet_files_mkdir(LimpetClient *client, const char *session, const char *path, bool parents)
{
    const MsgFileAsk what = {.has_mkdir = true, .mkdir = {.path = text_of(path), .parents = parents}};

    return client_result(client, ask_for_nothing(client, session, &what, !parents));
}

int limpet_files_move(LimpetClient *client, const char *session, const char *old_path, const char *new_path)
{
    const MsgFileAsk what = {.has_move = true, .move = {.old = text_of(old_path), .new = text_of(new_path)}};

    return client_result(client, ask_for_nothing(client, session, &what, true));
}

int limpet_files_remove(LimpetClient *client, const char *session, const char *path, bool recursive)
{
    const MsgFileAsk what = {.has_remove = true, .remove = {.path = text_of(path), .recursive = recursive}};
    MsgFileRemoveReply said = {.more = true};
    int r = 0;

    while (!r && said.more) {
        _cleanup_(reply_deinit) Reply reply = REPLY_NULL;

        r = files_ask(client, session, &what, true, &reply, &said, MsgFileRemoveReply);
    }
    return client_result(client, r);
}

/* ---- watching ---- */

/* 1: the caller has had enough. */
static int hear_events(LimpetClient *client, const char *session, uint64_t watch, LimpetOnEvent *on_event,
                       void *context)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgFileAsk what = {.has_events = true, .events = {.watch = watch, .timeout = NAN}};
    MsgFileEventsReply said;
    int r = files_ask(client, session, &what, true, &reply, &said, MsgFileEventsReply);

    for (uint32_t i = 0; !r && i < value_count(&said.events); i++) {
        MsgFileEvent event;

        value_row(&event, MsgFileEvent, &said.events, i);
        _cleanup_(freep) char *kind = text_dup(event.kind), *path = text_dup(event.path);
        if (!kind || !path)
            return -ENOMEM;
        r = on_event(context, kind, path) ? 0 : 1;
    }
    return r;
}

int limpet_files_watch(LimpetClient *client, const char *session, const char *path, bool recursive,
                       LimpetOnEvent *on_event, void *context)
{
    _cleanup_(reply_deinit) Reply reply = REPLY_NULL;
    const MsgFileAsk what = {.has_watch = true, .watch = {.path = text_of(path), .recursive = recursive}};
    MsgFileWatchReply said;
    int r = files_ask(client, session, &what, false, &reply, &said, MsgFileWatchReply);

    while (!r)
        r = hear_events(client, session, said.watch, on_event, context);
    if (r > 0) {
        const MsgFileAsk end = {.has_unwatch = true, .unwatch.watch = said.watch};

        r = ask_for_nothing(client, session, &end, false);
    }
    return client_result(client, r);
}
