#include "host/files/index.h"

#include <search.h>
#include <string.h>

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
