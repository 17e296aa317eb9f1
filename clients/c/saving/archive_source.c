#include "clients/c/saving/archive_source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/fdio.h"

int archive_damaged(const ArchiveReader *archive, const char *format, ...)
{
    char what[512];
    va_list values;

    va_start(values, format);
    vsnprintf(what, sizeof(what), format, values);
    va_end(values);
    return problem_set(archive->problem, ERR_RESTORE_FAILED, "'%.400s' %s; nothing was restored",
                       archive->path, what);
}

int archive_cannot_read(const ArchiveReader *archive, int r)
{
    return problem_set(archive->problem, ERR_BAD_REQUEST, "cannot read '%s': %s", archive->path,
                       strerror(-r));
}

int archive_take(ArchiveReader *archive, void *to, size_t size)
{
    ssize_t n;

    if (size > archive->end - archive->at)
        return archive_damaged(archive, "is malformed: something in it does not end");
    n = read_whole(archive->fd, to, size);
    if (n < 0)
        return archive_cannot_read(archive, (int)n);
    if ((size_t)n < size)
        return archive_damaged(archive, "is malformed: something in it does not end");
    archive->at += size;
    return 0;
}

int archive_seek(ArchiveReader *archive, uint64_t at)
{
    if (lseek(archive->fd, (off_t)at, SEEK_SET) < 0)
        return archive_cannot_read(archive, -errno);
    archive->at = at;
    archive->skipped = 0;
    return 0;
}
