/* A new archive, which takes its place when it is whole; whatever is there until then stays. */
#pragma once

#include <stdio.h>

#include "clients/c/saving/archive.h"
#include "clients/c/digest.h"
#include "proto/base/problem.h"

typedef struct ArchiveWriter {
    char *path, *temporary;
    FILE *file;
    Digest digest;         /* of what is written */
    uint64_t size;         /* likewise */
    uint64_t stored, left; /* of the member under way: bytes of data, and those that are still to come */
    Problem *problem;
} ArchiveWriter;

/* Place of the writer at some moment. */
typedef struct ArchiveMark {
    uint64_t size;
    Digest digest;
} ArchiveMark;

#define ARCHIVE_WRITER_NULL ((ArchiveWriter){0})
#define ARCHIVE_MARK_NULL   ((ArchiveMark){0})

/* All of these: 0, or -EPROTO with the problem. */
int archive_writer_open(ArchiveWriter *archive, const char *path, Problem *problem);

/* Its data follows by archive_write(). The name of a directory ends in a slash. */
int archive_begin(ArchiveWriter *archive, const Member *member);
int archive_write(ArchiveWriter *archive, const void *bytes, size_t size);
int archive_write_zeros(ArchiveWriter *archive, uint64_t size);

/* Ends a member, and fills up data that was promised and did not come. */
int archive_end(ArchiveWriter *archive);

/* A member with all its data. */
int archive_add(ArchiveWriter *archive, const Member *member, const void *bytes);
int archive_add_own(ArchiveWriter *archive, const char *name, unsigned mode, const void *bytes, size_t size);

/* Marks the place to go back to; going back forgets what came since. */
int archive_mark(const ArchiveWriter *archive, ArchiveMark *ret);
int archive_back(ArchiveWriter *archive, const ArchiveMark *mark);
void archive_mark_deinit(ArchiveMark *mark);

/* Writes the archive to the disk, and puts it in its place: `size` is that of the file. */
int archive_finish(ArchiveWriter *archive);

/* Closes the writer; nothing is left of an archive that is not finished. */
void archive_writer_close(ArchiveWriter *archive);
