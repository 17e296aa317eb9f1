#include "clients/c/saving/archive_reader.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "clients/c/saving/archive_header.h"
#include "clients/c/digest.h"
#include "proto/base/fdio.h"
#include "proto/limits.h"

/* ---- the checksum ---- */

static int sum_all(ArchiveReader *archive, char ret[static DIGEST_HEX_SIZE])
{
    _cleanup_(digest_deinit) Digest digest = DIGEST_NULL;
    int r = digest_init(&digest);

    for (uint64_t left = archive->end; r == 0 && left > 0;) {
        ssize_t n = read_whole(archive->fd, archive->bytes, (size_t)MIN(left, LIMIT_FILE_CHUNK));

        if (n <= 0)
            return n < 0 ? (int)n : -EBADMSG; /* the file is shorter than before */
        r = digest_update(&digest, archive->bytes, (size_t)n);
        left -= (uint64_t)n;
    }
    return r ? r : digest_finish(&digest, ret);
}

static int check_sum(ArchiveReader *archive)
{
    uint8_t end[ARCHIVE_END];
    char sum[DIGEST_HEX_SIZE];
    int r = sum_all(archive, sum);
    ssize_t n;

    if (r < 0)
        return archive_cannot_read(archive, r);
    n = read_whole(archive->fd, end, sizeof(end));
    if (n < 0)
        return archive_cannot_read(archive, (int)n);
    if ((size_t)n < sizeof(end) || memcmp(end, ARCHIVE_CHECK, sizeof(ARCHIVE_CHECK)) != 0)
        return archive_damaged(archive, "is no saved session, or the beginning of one");
    if (memcmp(end + ARCHIVE_BLOCK, sum, DIGEST_HEX_SIZE - 1) != 0)
        return archive_damaged(archive, "is damaged: its checksum is another");
    return archive_seek(archive, 0);
}

int archive_reader_open(ArchiveReader *archive, int fd, const char *path, Problem *problem)
{
    struct stat st;

    *archive = (ArchiveReader){.path = path, .fd = fd, .problem = problem, .bytes = malloc(LIMIT_FILE_CHUNK)};
    if (!archive->bytes)
        return -ENOMEM;
    if (fstat(fd, &st) < 0)
        return archive_cannot_read(archive, -errno);
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)ARCHIVE_END)
        return archive_damaged(archive, "is no saved session, or the beginning of one");
    archive->end = (uint64_t)st.st_size - ARCHIVE_END;
    if (lseek(fd, 0, SEEK_SET) < 0)
        return archive_cannot_read(archive, -errno);
    return check_sum(archive);
}

void archive_reader_deinit(ArchiveReader *archive)
{
    buf_deinit(&archive->name);
    buf_deinit(&archive->target);
    free(archive->extents);
    free(archive->bytes);
    *archive = ARCHIVE_READER_NULL;
}

int archive_next(ArchiveReader *archive)
{
    uint64_t stored;
    int r = archive_seek(archive, archive->at + archive->skipped);

    if (r < 0 || archive->at == archive->end)
        return r;
    r = archive_take_member(archive);
    if (r < 0)
        return r;
    archive->member.extents = archive->extents;
    archive->member.n_extents = archive->n_extents;
    archive->piece = 0;
    archive->in_piece = 0;
    stored = member_stored(&archive->member);
    if (stored > INT64_MAX - ARCHIVE_BLOCK || stored + archive_padding(stored) > archive->end - archive->at)
        return archive_damaged(archive, "is malformed: something in it does not end");
    archive->skipped = stored + archive_padding(stored);
    return 1;
}

/* ---- data ---- */

int archive_piece(ArchiveReader *archive, ArchivePiece *ret)
{
    const Extent *extent;
    int r;

    while (archive->piece < archive->n_extents &&
           archive->in_piece == archive->extents[archive->piece].size) {
        archive->piece++;
        archive->in_piece = 0;
    }
    if (archive->piece == archive->n_extents)
        return 0;
    extent = &archive->extents[archive->piece];
    *ret = (ArchivePiece){.offset = extent->start + archive->in_piece,
                          .bytes = archive->bytes,
                          .size = (size_t)MIN(extent->size - archive->in_piece, LIMIT_FILE_CHUNK)};
    r = archive_take(archive, archive->bytes, ret->size);
    if (r < 0)
        return r;
    archive->in_piece += ret->size;
    archive->skipped -= ret->size;
    return 1;
}

int archive_whole(ArchiveReader *archive, Buf *ret)
{
    size_t size = (size_t)archive->member.size;
    uint8_t *to = buf_reserve(ret, size + 1);
    ArchivePiece piece;
    int r;

    if (!to)
        return -ENOMEM;
    memset(to, 0, size + 1);
    while ((r = archive_piece(archive, &piece)) > 0)
        memcpy(to + piece.offset, piece.bytes, piece.size);
    if (r == 0)
        buf_commit(ret, size);
    return r;
}
