#include "clients/c/exporting/json_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "clients/c/json.h"
#include "proto/base/fdio.h"

static int as_text(const Buf *packed, Buf *ret)
{
    msgpack_unpacked all;
    int r = -ENOMEM;

    msgpack_unpacked_init(&all);
    if (msgpack_unpack_next(&all, (const char *)buf_head(packed), packed->size, NULL) ==
        MSGPACK_UNPACK_SUCCESS)
        r = json_write_indented(ret, &all.data, JSON_PATH);
    msgpack_unpacked_destroy(&all);
    return r < 0 ? r : buf_append(ret, "\n", 1);
}

static int write_beside(const char *temporary, const char *path, const Buf *text)
{
    _cleanup_(closep) int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
    int r = fd < 0 ? -errno : write_all(fd, buf_head(text), text->size);

    if (r == 0 && rename(temporary, path) < 0)
        r = -errno;
    if (r < 0 && fd >= 0)
        unlink(temporary);
    return r;
}

int json_file_write(const char *path, const Buf *packed, Problem *problem)
{
    _cleanup_(buf_deinit) Buf text = BUF_NULL;
    _cleanup_(freep) char *temporary = NULL;
    int r = as_text(packed, &text);

    if (r < 0)
        return r;
    if (asprintf(&temporary, "%s.limpet-%d", path, (int)getpid()) < 0) {
        temporary = NULL;
        return -ENOMEM;
    }
    r = write_beside(temporary, path, &text);
    return r < 0 ? problem_set(problem, ERR_BAD_REQUEST, "cannot write '%s': %s", path, strerror(-r)) : 0;
}
