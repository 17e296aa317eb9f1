/* A saved session as a file: a tar of GNU's format, which ordinary tools list and unpack.
 *
 *     manifest.json       what it is, the options of the session, and what its variables were made with
 *     variables.json      what is in the next
 *     variables           pickles, which nobody but a sandbox reads
 *     files/...           /session
 *     limpet.sha256       of all bytes before it; always the last 2048 bytes of the file
 */
#pragma once

#include "proto/base/base.h"

#define ARCHIVE_FORMAT   "limpet-session"
#define ARCHIVE_VERSION  1
#define ARCHIVE_MANIFEST "manifest.json"
#define ARCHIVE_INDEX    "variables.json"
#define ARCHIVE_PICKLES  "variables"
#define ARCHIVE_FILES    "files/"
#define ARCHIVE_CHECK    "limpet.sha256"

#define ARCHIVE_BLOCK     512u
#define ARCHIVE_END       (4 * ARCHIVE_BLOCK) /* the checksum's header, itself, and what ends a tar */
#define ARCHIVE_JSON_MAX  (16u << 20)         /* bytes of either JSON */
#define ARCHIVE_NAME_MAX  (4096u + 7)
#define ARCHIVE_PARTS_MAX (1u << 20) /* of a file with holes */

typedef enum MemberKind {
    MEMBER_FILE,
    MEMBER_DIRECTORY,
    MEMBER_SYMLINK,
} MemberKind;

/* Place of data in a file. */
typedef struct Extent {
    uint64_t start, size;
} Extent;

/* Something in the archive. Of a file, its data follows. */
typedef struct Member {
    MemberKind kind;
    const char *name;
    const char *target; /* of a link */
    unsigned mode;
    uint64_t size; /* of the whole file, holes included */
    double modified;
    const Extent *extents;
    size_t n_extents;
} Member;

/* Returns the bytes of the member's data that the archive has. */
static inline uint64_t member_stored(const Member *member)
{
    uint64_t stored = 0;

    for (size_t i = 0; i < member->n_extents; i++)
        stored += member->extents[i].size;
    return stored;
}

/* Returns the bytes of padding that follow `size` bytes up to the next block. */
static inline size_t archive_padding(uint64_t size)
{
    return (size_t)(-size % ARCHIVE_BLOCK);
}
