/* An archive that is whole: all of it is read once before anything is believed. It may come from anywhere. */
#pragma once

#include "clients/c/saving/archive_source.h"

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
