/* The bytes of an archive that is being read, and how far that is. */
#pragma once

#include "clients/c/saving/archive.h"
#include "proto/base/buf.h"
#include "proto/base/problem.h"

typedef struct ArchiveReader {
    const char *path; /* for messages */
    int fd;           /* the caller's */
    uint64_t at, end; /* of what the checksum is of */
    Buf name, target;
    Member member; /* the last one */
    Extent *extents;
    size_t n_extents, capacity;
    size_t piece;      /* of its extents, the one that comes next */
    uint64_t in_piece; /* bytes of it that have come */
    uint64_t skipped;  /* bytes of the member that have not come, and what follows them */
    uint8_t *bytes;    /* of a piece */
    Problem *problem;
} ArchiveReader;

#define ARCHIVE_READER_NULL ((ArchiveReader){.fd = -1})

/* All of these: 0, or -EPROTO with the problem. */

/* Bytes at archive->at, which moves behind them. */
int archive_take(ArchiveReader *archive, void *to, size_t size);

/* Goes back to where archive->at was before a member. */
int archive_seek(ArchiveReader *archive, uint64_t at);

/* Why it is not restored; and why it cannot be read, a negative errno. */
int archive_damaged(const ArchiveReader *archive, const char *format, ...) _printf_(2, 3);
int archive_cannot_read(const ArchiveReader *archive, int r);
