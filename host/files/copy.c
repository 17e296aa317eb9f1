#include "host/files/copy.h"

#include <errno.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#define BUFFER_SIZE (256u << 10)

int copier_init(Copier *copier)
{
    *copier = (Copier){.buffer = malloc(BUFFER_SIZE)};
    return copier->buffer ? 0 : -ENOMEM;
}

void copier_deinit(Copier *copier)
{
    free(copier->buffer);
    sha256_deinit(&copier->sha);
}

static int write_at(int fd, const uint8_t *bytes, size_t n, off_t at)
{
    while (n > 0) {
        ssize_t written = pwrite(fd, bytes, n, at);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? -errno : -EIO;
        bytes += written;
        at += written;
        n -= (size_t)written;
    }
    return 0;
}

/* Hashes [start, end) of `from`, and writes it to `to` unless that is -1. */
static int copy_data(Copier *copier, int from, int to, off_t start, off_t end)
{
    while (start < end) {
        ssize_t n = pread(from, copier->buffer, (size_t)MIN(end - start, (off_t)BUFFER_SIZE), start);

        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -ESTALE;
        int r = sha256_update(&copier->sha, copier->buffer, (size_t)n);
        if (r == 0 && to >= 0)
            r = write_at(to, copier->buffer, (size_t)n, start);
        if (r < 0)
            return r;
        start += n;
    }
    return 0;
}

static int hash_hole(Copier *copier, off_t size)
{
    static const uint8_t zeros[64 << 10];
    int r = 0;

    for (off_t n; r == 0 && size > 0; size -= n) {
        n = MIN(size, (off_t)sizeof(zeros));
        r = sha256_update(&copier->sha, zeros, (size_t)n);
    }
    return r;
}

/* Finds the next run of data at or after `at`: its start and its end. A filesystem that cannot tell has no
 * holes. */
static int next_data(int fd, off_t at, off_t size, off_t *ret_start, off_t *ret_end)
{
    off_t start = lseek(fd, at, SEEK_DATA);

    if (start < 0 && errno != ENXIO && errno != EINVAL)
        return -errno;
    if (start < 0)
        start = errno == ENXIO ? size : at;
    start = MIN(start, size);
    off_t end = start < size ? lseek(fd, start, SEEK_HOLE) : size;
    *ret_start = start;
    *ret_end = end > start && end < size ? end : size;
    return 0;
}

static int copy_extents(Copier *copier, int from, int to, off_t size)
{
    off_t start = 0, end = 0;

    for (off_t at = 0; at < size; at = end) {
        int r = next_data(from, at, size, &start, &end);

        if (r == 0)
            r = hash_hole(copier, start - at);
        if (r == 0)
            r = copy_data(copier, from, to, start, end);
        if (r < 0)
            return r;
    }
    return to >= 0 && ftruncate(to, size) < 0 ? -errno : 0;
}

/* Shares the extents of `from` where the filesystem can: what is hashed is then the copy, which nobody else
 * can change. */
static bool clone_file(Copier *copier, int from, int to)
{
    if (!copier->no_clone && ioctl(to, FICLONE, from) == 0)
        return true;
    copier->no_clone = true;
    return false;
}

int copier_copy(Copier *copier, int from, int to, off_t size, uint8_t ret_sha256[SHA256_SIZE])
{
    int r = sha256_start(&copier->sha);

    if (r == 0 && clone_file(copier, from, to)) {
        r = ftruncate(to, size) < 0 ? -errno : 0;
        if (r == 0)
            r = copy_extents(copier, to, -1, size);
    } else if (r == 0) {
        r = copy_extents(copier, from, to, size);
    }
    return r < 0 ? r : sha256_finish(&copier->sha, ret_sha256);
}
