#include "clients/c/copying.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

#include "proto/base/base.h"
#include "proto/base/fdio.h"

#define STEP ((size_t)16 << 20)

/* Not where something else lies, or where writing appends. */
static bool may_have_hole(int fd)
{
    off_t at = lseek(fd, 0, SEEK_CUR);
    struct stat st;

    return at >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && at >= st.st_size &&
           !(fcntl(fd, F_GETFL) & O_APPEND);
}

int skip_bytes(int fd, uint64_t size)
{
    static const uint8_t zeros[4096];
    int r = 0;

    if (size > 0 && may_have_hole(fd))
        return lseek(fd, (off_t)size, SEEK_CUR) < 0 ? -errno : 0;
    for (; r == 0 && size > 0; size -= MIN(size, sizeof(zeros)))
        r = write_all(fd, zeros, (size_t)MIN(size, sizeof(zeros)));
    return r;
}

int set_end(int fd)
{
    return may_have_hole(fd) && ftruncate(fd, lseek(fd, 0, SEEK_CUR)) < 0 ? -errno : 0;
}

/* As sendfile(), for what that does not know. */
static ssize_t copy_piece(int from, int to, off_t size)
{
    uint8_t bytes[64 << 10];
    ssize_t n = read_whole(from, bytes, (size_t)MIN(size, (off_t)sizeof(bytes)));
    int r = n > 0 ? write_all(to, bytes, (size_t)n) : 0;

    return r < 0 ? r : n;
}

/* 1: the file has become shorter. */
static int copy_run(int from, int to, off_t size)
{
    while (size > 0) {
        ssize_t n = sendfile(to, from, NULL, (size_t)MIN(size, (off_t)STEP));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EINVAL)
            n = copy_piece(from, to, size);
        else if (n < 0)
            n = -errno;
        if (n <= 0)
            return n < 0 ? (int)n : 1;
        size -= n;
    }
    return 0;
}

/* The next run of data at or after `at`; a file system that cannot say has no holes. */
static void next_run(int fd, off_t at, off_t size, off_t *ret_start, off_t *ret_end)
{
    off_t start = lseek(fd, at, SEEK_DATA), end;

    if (start < 0)
        start = errno == ENXIO ? size : at;
    start = MIN(start, size);
    end = start < size ? lseek(fd, start, SEEK_HOLE) : size;
    *ret_start = start;
    *ret_end = end > start && end < size ? end : size;
}

int copy_rest(int from, int to)
{
    off_t at = lseek(from, 0, SEEK_CUR), start, end;
    struct stat st;
    int r = 0;

    if (at < 0 || fstat(from, &st) < 0)
        return -errno;
    for (; r == 0 && at < st.st_size; at = end) {
        next_run(from, at, st.st_size, &start, &end);
        r = skip_bytes(to, (uint64_t)(start - at));
        if (r == 0 && lseek(from, start, SEEK_SET) < 0)
            r = -errno;
        if (r == 0)
            r = copy_run(from, to, end - start);
    }
    return r < 0 ? r : set_end(to);
}
