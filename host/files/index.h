/* Index: every path below a watched directory that was ever reported and still exists, with what it was
 * then, and which of them have to be looked at again. Memory is bounded by entries and by bytes of paths. */
#pragma once

#include <sys/stat.h>

#include "host/files/sha256.h"
#include "proto/base/base.h"
#include "proto/base/list.h"
#include "proto/wire.h"

/* Identity of one state of a file, by which it is told from another. Nobody who wants to hide a change can
 * set the change time, but its clock may be too coarse to tell two quick changes apart: `recent` is set when
 * it was so young at the time of reading that it proves nothing. The same file system may be another device
 * after the machine has restarted. */
typedef struct FileIdentity {
    dev_t dev;
    ino_t ino;
    mode_t type; /* S_IFMT part */
    off_t size;
    struct timespec mtime;
    struct timespec ctime;
    bool recent;
} FileIdentity;

typedef enum IdentityChange {
    IDENTITY_SAME,
    IDENTITY_UNSURE, /* only the contents can tell */
    IDENTITY_OTHER,
} IdentityChange;

FileIdentity identity_of(const struct stat *st);
IdentityChange identity_compare(const FileIdentity *before, const FileIdentity *now);

typedef struct IndexEntry {
    char *path; /* relative to the directory */
    List all;
    List pending;         /* in Index.pending when it has to be looked at */
    List noted;           /* in Index.noted when what was reported of it has changed */
    const char *obstacle; /* constant: why a directory here is not entered; NULL for everything else */
    bool reported;        /* identity is that of the last report */
    bool published;       /* and sha256 that of the published copy */
    unsigned generation;  /* of the scan that last saw it */
    FileIdentity identity;
    uint8_t sha256[SHA256_SIZE];
} IndexEntry;

typedef struct Index {
    void *tree; /* of IndexEntry, by path: a tree and not a hash table, as hostile code chooses the keys */
    List all;
    List pending;
    List noted;
    size_t count;
    size_t bytes;
    size_t max_count;
    size_t max_bytes;
    unsigned generation;
} Index;

void index_init(Index *index, size_t max_count, size_t max_bytes);
void index_deinit(Index *index);

IndexEntry *index_find(Index *index, const char *path);

/* The entry of `path`, made when there is none. NULL when the index is full or memory is short. */
IndexEntry *index_add(Index *index, const char *path);

void index_mark(Index *index, IndexEntry *entry); /* has to be looked at */
void index_settle(IndexEntry *entry);             /* has been */
void index_drop(Index *index, IndexEntry *entry);

/* Notes that what was reported of the entry has changed since it was last taken from Index.noted. */
void index_note(Index *index, IndexEntry *entry);

/* Returns whether `st` is a state of the entry that was not reported yet, as far as can be told without
 * reading. */
bool index_entry_differs(const IndexEntry *entry, const struct stat *st);

/* Drops every entry that was last seen before the current generation. */
void index_sweep(Index *index);

/* Baseline: the reported files that an index knows, as bytes of which another process makes an index again,
 * so that a file is reported once whatever process looks. */

/* Files in one array, which keeps it within the limits of a message. */
#define BASELINE_FILES 1000u

/* Calls `put` with encoded arrays of files: those noted since the last time, or `all`. Stops when it returns
 * a negative errno, and returns that; nothing is noted any more after success. */
int baseline_each(Index *index, bool all, int (*put)(void *userdata, const Buf *files), void *userdata);

/* Adds what was written to an index. What makes no sense is left out: the file counts as new then. */
void baseline_read(Index *index, const msgpack_object_array *files);
