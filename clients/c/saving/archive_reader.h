/* An archive that is whole: all of it is read once before anything is believed. It may come from anywhere. */
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

/* All of these: 0 or more, or -EPROTO with the problem. */

/* Checks the checksum. `path` is what it is called in messages. */
int archive_reader_open(ArchiveReader *archive, int fd, const char *path, Problem *problem);
void archive_reader_deinit(ArchiveReader *archive);

/* 1: there is a further member, archive->member. Its data is read before the next one, or not at all. */
int archive_next(ArchiveReader *archive);

/* A piece of the member's data, of at most LIMIT_FILE_CHUNK bytes: 1, or 0 behind the last one. */
typedef struct ArchivePiece {
    uint64_t offset; /* in the file */
    const uint8_t *bytes;
    size_t size;
} ArchivePiece;

int archive_piece(ArchiveReader *archive, ArchivePiece *ret);

/* Reads all of a member that is not large, its holes as zeros. */
int archive_whole(ArchiveReader *archive, Buf *ret);

/* Goes back to where archive->at was before a member. */
int archive_seek(ArchiveReader *archive, uint64_t at);

/* Why it is not restored. */
int archive_damaged(const ArchiveReader *archive, const char *format, ...) _printf_(2, 3);
