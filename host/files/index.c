#include "host/files/index.h"

#include <limits.h>
#include <search.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/clock.h"

/* Longer than a tick of any kernel's file time. */
#define RECENT_NSEC (20 * (int64_t)NSEC_PER_MSEC)

static int64_t nanoseconds(struct timespec t)
{
    return (int64_t)t.tv_sec * (int64_t)NSEC_PER_SEC + t.tv_nsec;
}

static bool same_time(struct timespec a, struct timespec b)
{
    return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

FileIdentity identity_of(const struct stat *st)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (FileIdentity){
        .dev = st->st_dev,
        .ino = st->st_ino,
        .type = st->st_mode & S_IFMT,
        .size = st->st_size,
        .mtime = st->st_mtim,
        .ctime = st->st_ctim,
        .recent = nanoseconds(st->st_ctim) > nanoseconds(now) - RECENT_NSEC,
    };
}

IdentityChange identity_compare(const FileIdentity *before, const FileIdentity *now)
{
    if (before->ino != now->ino || before->type != now->type)
        return IDENTITY_OTHER;
    if (S_ISDIR(now->type))
        return IDENTITY_SAME;
    if (before->size != now->size || !same_time(before->mtime, now->mtime))
        return IDENTITY_OTHER;
    if (!S_ISREG(now->type))
        return IDENTITY_SAME;
    if (before->recent || before->dev != now->dev || !same_time(before->ctime, now->ctime))
        return IDENTITY_UNSURE;
    return IDENTITY_SAME;
}

bool index_entry_differs(const IndexEntry *entry, const struct stat *st)
{
    FileIdentity now = identity_of(st);

    return !entry->reported || identity_compare(&entry->identity, &now) != IDENTITY_SAME;
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const IndexEntry *)a)->path, ((const IndexEntry *)b)->path);
}

void index_init(Index *index, size_t max_count, size_t max_bytes)
{
    *index = (Index){.max_count = max_count, .max_bytes = max_bytes};
    list_init(&index->all);
    list_init(&index->pending);
    list_init(&index->noted);
}

void index_deinit(Index *index)
{
    IndexEntry *entry;

    list_foreach (entry, &index->all, IndexEntry, all)
        index_drop(index, entry);
}

IndexEntry *index_find(Index *index, const char *path)
{
    IndexEntry key = {.path = (char *)path};
    IndexEntry **found = tfind(&key, &index->tree, compare);

    return found ? *found : NULL;
}

static IndexEntry *entry_new(const char *path)
{
    IndexEntry *entry = calloc(1, sizeof(*entry));

    if (entry)
        entry->path = strdup(path);
    if (!entry || !entry->path) {
        free(entry);
        return NULL;
    }
    list_init(&entry->pending);
    list_init(&entry->noted);
    return entry;
}

IndexEntry *index_add(Index *index, const char *path)
{
    IndexEntry *entry = index_find(index, path);
    size_t size = strlen(path);

    if (entry)
        return entry;
    if (index->count >= index->max_count || index->bytes + size > index->max_bytes)
        return NULL;
    entry = entry_new(path);
    if (!entry)
        return NULL;
    if (!tsearch(entry, &index->tree, compare)) {
        free(entry->path);
        free(entry);
        return NULL;
    }
    list_append(&index->all, &entry->all);
    index->count++;
    index->bytes += size;
    return entry;
}

void index_mark(Index *index, IndexEntry *entry)
{
    if (list_empty(&entry->pending))
        list_append(&index->pending, &entry->pending);
}

void index_settle(IndexEntry *entry)
{
    list_remove(&entry->pending);
}

void index_note(Index *index, IndexEntry *entry)
{
    if (list_empty(&entry->noted))
        list_append(&index->noted, &entry->noted);
}

void index_drop(Index *index, IndexEntry *entry)
{
    tdelete(entry, &index->tree, compare);
    list_remove(&entry->all);
    list_remove(&entry->pending);
    list_remove(&entry->noted);
    index->count--;
    index->bytes -= strlen(entry->path);
    free(entry->path);
    free(entry);
}

void index_sweep(Index *index)
{
    IndexEntry *entry;

    list_foreach (entry, &index->all, IndexEntry, all)
        if (entry->generation != index->generation)
            index_drop(index, entry);
}

/* ---- baselines ---- */

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
