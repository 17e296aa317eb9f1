#include "clients/c/saving/archive_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/random.h>

#include "clients/c/saving/tar.h"
#include "proto/base/clock.h"

static int cannot_write(const ArchiveWriter *archive, int r)
{
    return problem_set(archive->problem, ERR_BAD_REQUEST, "cannot write '%s': %s", archive->path,
                       strerror(-r));
}

static char *absolute(const char *path)
{
    _cleanup_(freep) char *directory = *path == '/' ? NULL : getcwd(NULL, 0);
    char *ret = NULL;

    if (*path == '/')
        return strdup(path);
    return directory && asprintf(&ret, "%s/%s", directory, path) >= 0 ? ret : NULL;
}

static int create(ArchiveWriter *archive)
{
    uint64_t random;
    int fd;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return -EIO;
    if (asprintf(&archive->temporary, "%s.limpet-%016llx", archive->path, (unsigned long long)random) < 0) {
        archive->temporary = NULL;
        return -ENOMEM;
    }
    fd = open(archive->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0) {
        int r = -errno;

        free(take(archive->temporary));
        return r;
    }
    archive->file = fdopen(fd, "w");
    if (!archive->file)
        close(fd);
    return archive->file ? digest_init(&archive->digest) : -ENOMEM;
}

int archive_writer_open(ArchiveWriter *archive, const char *path, Problem *problem)
{
    int r;

    *archive = (ArchiveWriter){.path = absolute(path), .problem = problem};
    if (!archive->path)
        return problem_set(problem, ERR_INTERNAL, "cannot write '%s': %s", path, strerror(errno));
    r = create(archive);
    return r < 0 ? cannot_write(archive, r) : 0;
}

/* Not part of what the checksum is of. */
static int put_unsummed(ArchiveWriter *archive, const void *bytes, size_t size)
{
    if (size > 0 && fwrite(bytes, 1, size, archive->file) != size)
        return cannot_write(archive, -errno);
    archive->size += size;
    return 0;
}

static int put(ArchiveWriter *archive, const void *bytes, size_t size)
{
    int r = digest_update(&archive->digest, bytes, size);

    return r < 0 ? cannot_write(archive, r) : put_unsummed(archive, bytes, size);
}

int archive_begin(ArchiveWriter *archive, const Member *member)
{
    _cleanup_(buf_deinit) Buf header = BUF_NULL;
    int r = tar_append(&header, member);

    if (r < 0)
        return cannot_write(archive, r);
    archive->stored = archive->left = member->kind == MEMBER_FILE ? member_stored(member) : 0;
    return put(archive, buf_head(&header), header.size);
}

int archive_write(ArchiveWriter *archive, const void *bytes, size_t size)
{
    archive->left -= size;
    return put(archive, bytes, size);
}

int archive_write_zeros(ArchiveWriter *archive, uint64_t size)
{
    static const uint8_t zeros[16 << 10];
    int r = 0;

    for (; r == 0 && size > 0; size -= MIN(size, sizeof(zeros)))
        r = archive_write(archive, zeros, (size_t)MIN(size, sizeof(zeros)));
    return r;
}

int archive_end(ArchiveWriter *archive)
{
    static const uint8_t zeros[ARCHIVE_BLOCK];
    int r = archive_write_zeros(archive, archive->left);

    return r ? r : put(archive, zeros, archive_padding(archive->stored));
}

int archive_add(ArchiveWriter *archive, const Member *member, const void *bytes)
{
    int r = archive_begin(archive, member);

    if (r == 0)
        r = archive_write(archive, bytes, (size_t)archive->left);
    return r ? r : archive_end(archive);
}

int archive_add_own(ArchiveWriter *archive, const char *name, unsigned mode, const void *bytes, size_t size)
{
    const Member member = {.name = name,
                           .mode = mode,
                           .size = size,
                           .modified = clock_unix(),
                           .extents = &(Extent){0, size},
                           .n_extents = 1};

    return archive_add(archive, &member, bytes);
}

int archive_mark(const ArchiveWriter *archive, ArchiveMark *ret)
{
    int r = digest_copy(&ret->digest, &archive->digest);

    ret->size = archive->size;
    return r < 0 ? cannot_write(archive, r) : 0;
}

int archive_back(ArchiveWriter *archive, const ArchiveMark *mark)
{
    if (fflush(archive->file) != 0 || ftruncate(fileno(archive->file), (off_t)mark->size) < 0 ||
        fseeko(archive->file, (off_t)mark->size, SEEK_SET) < 0)
        return cannot_write(archive, -errno);
    archive->size = mark->size;
    return digest_copy(&archive->digest, &mark->digest) < 0 ? cannot_write(archive, -ENOMEM) : 0;
}

void archive_mark_deinit(ArchiveMark *mark)
{
    digest_deinit(&mark->digest);
}

/* The checksum and the end of the tar. */
static int put_check(ArchiveWriter *archive)
{
    static const uint8_t zeros[2 * ARCHIVE_BLOCK];
    char sum[DIGEST_HEX_SIZE];
    int r = digest_finish(&archive->digest, sum);

    if (r < 0)
        return cannot_write(archive, r);
    sum[DIGEST_HEX_SIZE - 1] = '\n'; /* in the place of what ended it */
    r = digest_init(&archive->digest);
    if (r < 0)
        return cannot_write(archive, r);
    r = archive_add_own(archive, ARCHIVE_CHECK, 0644, sum, sizeof(sum));
    return r ? r : put_unsummed(archive, zeros, sizeof(zeros));
}

int archive_finish(ArchiveWriter *archive)
{
    int r = put_check(archive), closed;

    if (r < 0)
        return r;
    if (fflush(archive->file) != 0 || fsync(fileno(archive->file)) < 0)
        return cannot_write(archive, -errno);
    closed = fclose(take(archive->file));
    if (closed != 0 || rename(archive->temporary, archive->path) < 0)
        return cannot_write(archive, -errno);
    free(take(archive->temporary));
    return 0;
}

void archive_writer_close(ArchiveWriter *archive)
{
    if (archive->file)
        fclose(archive->file);
    if (archive->temporary)
        unlink(archive->temporary);
    free(archive->temporary);
    free(archive->path);
    digest_deinit(&archive->digest);
    *archive = ARCHIVE_WRITER_NULL;
}
