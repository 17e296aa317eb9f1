/* read and fetch. Whatever a piece is read from is opened for that piece. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "guest/files/files.h"

/* Returns where the data begins that is at `offset` or behind it: a hole lies between. */
static uint64_t skip_hole(int fd, uint64_t offset, const struct stat *st)
{
    off_t at = offset < (uint64_t)st->st_size ? lseek(fd, (off_t)offset, SEEK_DATA) : -1;

    if (at >= 0)
        return (uint64_t)at;
    /* A file of the kernel's, as in /proc, has no size before it is read. */
    return offset < (uint64_t)st->st_size && errno == ENXIO ? (uint64_t)st->st_size : offset;
}

static int read_piece(Buf *ret, int fd, MsgFileReadReply *reply, uint64_t size)
{
    uint8_t *to = buf_reserve(ret, MAX(size, 1));
    ssize_t n = to ? read_up_to(fd, to, size, (off_t)reply->offset) : -ENOMEM;

    if (n < 0)
        return (int)n;
    buf_commit(ret, (size_t)n);
    reply->data = (Text){(const char *)buf_head(ret), (size_t)n};
    return 0;
}

int files_read(Files *files, uint64_t id, const MsgFileRead *ask)
{
    uint64_t offset = uint_or(ask->offset, 0), size = uint_or(ask->size, LIMIT_FILE_CHUNK);
    Buf data _cleanup_(buf_deinit) = BUF_NULL;
    MsgFileReadReply reply;
    struct stat st;
    Path path;
    int r = path_take(path, ask->path);

    if (r == 0 && offset > INT64_MAX)
        r = -EINVAL;
    if (r < 0)
        return r;
    _cleanup_(closep) int fd = regular_open(AT_FDCWD, path, false, &st);
    if (fd < 0)
        return fd;
    if (ask->file != NO_UINT && ask->file != (uint64_t)st.st_ino)
        return -ESTALE;
    reply = (MsgFileReadReply){.size = (uint64_t)st.st_size, .file = (uint64_t)st.st_ino};
    reply.offset = skip_hole(fd, offset, &st);
    r = read_piece(&data, fd, &reply, size);
    return r < 0 ? r : files_reply(files, id, MsgFileReadReply, &reply);
}

/* ---- many files ---- */

typedef struct Fetch {
    int root;
    Buf entries; /* encoded */
    uint32_t count;
    size_t bytes; /* of contents so far */
} Fetch;

static void fetch_deinit(Fetch *fetch)
{
    closep(&fetch->root);
    buf_deinit(&fetch->entries);
}

static int fetch_failed(Fetch *fetch, Text name, int error)
{
    MsgFileEntry entry;

    body_clear(&entry, MsgFileEntry);
    entry.path = name;
    entry.type = text_of("other");
    entry.error = (uint64_t)-error;
    return body_encode(&fetch->entries, MsgFileEntry, &entry);
}

/* Fetches the contents of a file. One that has more than fits into a reply comes without them: it is read in
 * pieces. */
static int fetch_contents(Fetch *fetch, int fd, const struct stat *st, Text name)
{
    Buf data _cleanup_(buf_deinit) = BUF_NULL;
    uint8_t *to = buf_reserve(&data, (size_t)st->st_size + 1);
    ssize_t n = to ? read_up_to(fd, to, (size_t)st->st_size, 0) : -ENOMEM;
    MsgFileEntry entry;

    if (n < 0)
        return fetch_failed(fetch, name, (int)n);
    entry_fill(&entry, st);
    entry.path = name;
    entry.data = (Text){(const char *)to, (size_t)n};
    fetch->bytes += (size_t)n;
    return body_encode(&fetch->entries, MsgFileEntry, &entry);
}

static int fetch_large(Fetch *fetch, const struct stat *st, Text name)
{
    MsgFileEntry entry;

    entry_fill(&entry, st);
    entry.path = name;
    return body_encode(&fetch->entries, MsgFileEntry, &entry);
}

/* 1: it is for the next reply. */
static int fetch_one(Fetch *fetch, Text name)
{
    struct stat st;
    Path path;
    int r = path_take(path, name);
    _cleanup_(closep) int fd = r < 0 ? r : regular_open(fetch->root, path, true, &st);

    if (fd >= 0 && fetch->count > 0 && (uint64_t)st.st_size > LIMIT_FILE_CHUNK - fetch->bytes)
        return 1;
    fetch->count++;
    if (fd < 0)
        return fetch_failed(fetch, name, fd);
    if (st.st_size > LIMIT_FILE_CHUNK)
        return fetch_large(fetch, &st, name);
    return fetch_contents(fetch, fd, &st, name);
}

static void write_fetched(Writer *w, const void *source)
{
    const Fetch *fetch = source;

    write_array(w, fetch->count);
    write_encoded(w, &fetch->entries);
}

int files_fetch(Files *files, uint64_t id, const MsgFileFetch *ask)
{
    Fetch fetch _cleanup_(fetch_deinit) = {.root = -1};
    MsgFileFetchReply reply = {.files = {.write = write_fetched, .source = &fetch}};
    Path path;
    int r = path_take(path, ask->path);

    if (r < 0)
        return r;
    fetch.root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fetch.root < 0)
        return -errno;
    for (uint32_t i = 0; r == 0 && i < value_count(&ask->files); i++) {
        MsgFileName name;

        value_row(&name, MsgFileName, &ask->files, i);
        r = fetch_one(&fetch, name.path);
    }
    return r < 0 ? r : files_reply(files, id, MsgFileFetchReply, &reply);
}
