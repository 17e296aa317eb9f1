#include "host/files/baseline.h"

#include <limits.h>
#include <string.h>
#include <sys/stat.h>

/* A file is an array of these, in this order. */
enum {
    FILE_PATH,
    FILE_FLAGS,
    FILE_DEV,
    FILE_INO,
    FILE_TYPE,
    FILE_SIZE,
    FILE_MTIME,
    FILE_MTIME_NSEC,
    FILE_CTIME,
    FILE_CTIME_NSEC,
    FILE_SHA256,
    FILE_ITEMS,
};

#define FLAG_PUBLISHED 1u
#define FLAG_RECENT    2u

static void write_file(Writer *w, const IndexEntry *entry)
{
    const FileIdentity *identity = &entry->identity;

    write_array(w, FILE_ITEMS);
    write_name(w, entry->path);
    write_uint(w, (entry->published ? FLAG_PUBLISHED : 0) | (identity->recent ? FLAG_RECENT : 0));
    write_uint(w, identity->dev);
    write_uint(w, identity->ino);
    write_uint(w, identity->type);
    write_uint(w, (uint64_t)identity->size);
    write_int(w, identity->mtime.tv_sec);
    write_uint(w, (uint64_t)identity->mtime.tv_nsec);
    write_int(w, identity->ctime.tv_sec);
    write_uint(w, (uint64_t)identity->ctime.tv_nsec);
    write_bytes(w, entry->sha256, entry->published ? SHA256_SIZE : 0);
}

static IndexEntry *entry_at(List *link, bool all)
{
    return all ? list_entry(link, IndexEntry, all) : list_entry(link, IndexEntry, noted);
}

/* The entries of a list from `*at` on, as many as fit into one array; moves it on. */
static int write_some(Buf *ret, const List *list, List **at, bool all)
{
    List *end = *at;
    size_t n = 0;
    Writer w;

    for (; end != list && n < BASELINE_FILES; end = end->next)
        n += entry_at(end, all)->reported;
    writer_init(&w, ret);
    write_array(&w, n);
    for (; *at != end; *at = (*at)->next)
        if (entry_at(*at, all)->reported)
            write_file(&w, entry_at(*at, all));
    return writer_finish(&w);
}

int baseline_each(Index *index, bool all, int (*put)(void *userdata, const Buf *files), void *userdata)
{
    List *list = all ? &index->all : &index->noted, *at = list->next, *link;
    int r = 0;

    while (r == 0 && at != list) {
        Buf files _cleanup_(buf_deinit) = BUF_NULL;

        r = write_some(&files, list, &at, all);
        if (r == 0)
            r = put(userdata, &files);
    }
    while (r == 0 && (link = list_first(&index->noted)))
        list_remove(link);
    return r;
}

/* ---- reading ---- */

static bool take_path(char ret[PATH_MAX], const msgpack_object *item)
{
    const char *bytes;
    size_t size;

    if (item->type == MSGPACK_OBJECT_STR) {
        bytes = item->via.str.ptr;
        size = item->via.str.size;
    } else if (item->type == MSGPACK_OBJECT_BIN) {
        bytes = item->via.bin.ptr;
        size = item->via.bin.size;
    } else {
        return false;
    }
    if (size == 0 || size >= PATH_MAX || memchr(bytes, '\0', size))
        return false;
    memcpy(ret, bytes, size);
    ret[size] = '\0';
    return true;
}

static bool are_numbers(const msgpack_object *items)
{
    for (size_t i = FILE_FLAGS; i < FILE_SHA256; i++) {
        bool may_be_negative = i == FILE_MTIME || i == FILE_CTIME;

        if (items[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER &&
            !(may_be_negative && items[i].type == MSGPACK_OBJECT_NEGATIVE_INTEGER))
            return false;
    }
    return true;
}

static bool take_identity(FileIdentity *ret, const msgpack_object *items)
{
    if (!are_numbers(items) || items[FILE_MTIME_NSEC].via.u64 >= 1000000000 ||
        items[FILE_CTIME_NSEC].via.u64 >= 1000000000 || items[FILE_TYPE].via.u64 & ~(uint64_t)S_IFMT)
        return false;
    *ret = (FileIdentity){
        .dev = items[FILE_DEV].via.u64,
        .ino = items[FILE_INO].via.u64,
        .type = (mode_t)items[FILE_TYPE].via.u64,
        .size = items[FILE_SIZE].via.i64,
        .mtime = {items[FILE_MTIME].via.i64, (long)items[FILE_MTIME_NSEC].via.u64},
        .ctime = {items[FILE_CTIME].via.i64, (long)items[FILE_CTIME_NSEC].via.u64},
        .recent = items[FILE_FLAGS].via.u64 & FLAG_RECENT,
    };
    return true;
}

static void read_file(Index *index, const msgpack_object *items)
{
    bool published = items[FILE_FLAGS].via.u64 & FLAG_PUBLISHED;
    const msgpack_object *sha256 = &items[FILE_SHA256];
    FileIdentity identity;
    char path[PATH_MAX];
    IndexEntry *entry;

    if (!take_path(path, &items[FILE_PATH]) || !take_identity(&identity, items) ||
        sha256->type != MSGPACK_OBJECT_BIN || sha256->via.bin.size != (published ? SHA256_SIZE : 0) ||
        !(entry = index_add(index, path)))
        return;
    entry->identity = identity;
    entry->reported = true;
    entry->published = published;
    if (published)
        memcpy(entry->sha256, sha256->via.bin.ptr, SHA256_SIZE);
}

void baseline_read(Index *index, const msgpack_object_array *files)
{
    for (uint32_t i = 0; i < files->size; i++)
        if (files->ptr[i].type == MSGPACK_OBJECT_ARRAY && files->ptr[i].via.array.size == FILE_ITEMS)
            read_file(index, files->ptr[i].via.array.ptr);
}
