#include "clients/c/entries.h"

#include <errno.h>
#include <string.h>

#include "clients/c/json.h"

EntryList *entry_list_new(void)
{
    EntryList *list = calloc(1, sizeof(*list));

    if (!list)
        return NULL;
    list->zone = msgpack_zone_new(MSGPACK_ZONE_CHUNK_SIZE);
    return list->zone ? list : entry_list_free(list);
}

EntryList *entry_list_free(EntryList *list)
{
    if (!list)
        return NULL;
    if (list->zone)
        msgpack_zone_free(list->zone);
    free(list->space);
    free(list);
    return NULL;
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

int entry_list_add(EntryList *list, const MsgFileEntry *said)
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

LimpetEntries *entry_list_end(EntryList *list)
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
