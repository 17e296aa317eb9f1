/* stat and list. A list is a walk that stands still between its pages. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "guest/files/files.h"
#include "proto/base/fdio.h"

#define PAGE_BYTES (512u << 10)

typedef struct WalkLevel {
    DIR *stream;
    size_t length; /* of the directory's path */
} WalkLevel;

struct DirectoryWalk {
    uint64_t number;
    unsigned limit, depth; /* levels at most, and those that are open */
    Path shown;            /* of the innermost open directory */
    Buf entries;           /* of the page under way, encoded */
    uint32_t count;
    WalkLevel levels[];
};

int files_stat(Files *files, uint64_t id, const MsgFileStat *ask)
{
    MsgFileStatReply reply = {.has_entry = true};
    Path path, shown, target;
    int r = path_take(path, ask->path);

    if (r == 0)
        r = path_show(shown, ask->path);
    if (r == 0)
        r = entry_read(&reply.entry, AT_FDCWD, path, shown, target);
    return r < 0 ? r : files_reply(files, id, MsgFileStatReply, &reply);
}

/* ---- the walk ---- */

static int descend(DirectoryWalk *listing, int directory, const char *path)
{
    WalkLevel *level = &listing->levels[listing->depth];
    int flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | (listing->depth > 0 ? O_NOFOLLOW : 0);
    int fd = openat(directory, path, flags);

    if (fd < 0)
        return -errno;
    level->stream = fdopendir(fd);
    if (!level->stream) {
        close(fd);
        return -ENOMEM;
    }
    level->length = strlen(listing->shown);
    listing->depth++;
    return 0;
}

static void ascend(DirectoryWalk *listing)
{
    closedir(listing->levels[--listing->depth].stream);
    if (listing->depth > 0)
        listing->shown[listing->levels[listing->depth - 1].length] = '\0';
}

static void listing_free(DirectoryWalk *listing)
{
    if (!listing)
        return;
    while (listing->depth > 0)
        ascend(listing);
    buf_deinit(&listing->entries);
    free(listing);
}

static void listing_freep(DirectoryWalk **listing)
{
    listing_free(*listing);
}

static bool is_gone(int error)
{
    return error == -ENOENT || error == -ENOTDIR || error == -ELOOP;
}

/* Takes one entry of the innermost directory, and goes into it where it is a directory. An entry that has
 * gone meanwhile is passed over. */
static int take_entry(DirectoryWalk *listing, const char *name)
{
    const WalkLevel *level = &listing->levels[listing->depth - 1];
    int directory = dirfd(level->stream);
    MsgFileEntry entry = {0};
    Path shown, target;
    int r = path_join(shown, listing->shown, name);

    if (r == 0)
        r = entry_read(&entry, directory, name, shown, target);
    if (r < 0)
        return is_gone(r) ? 0 : r;
    if (text_equal(entry.type, "directory") && listing->depth < listing->limit) {
        Path above;

        strcpy(above, listing->shown);
        strcpy(listing->shown, shown);
        r = descend(listing, directory, name);
        if (r < 0)
            strcpy(listing->shown, above);
        if (r < 0 && r != -EACCES)
            return is_gone(r) ? 0 : r;
        entry.unreadable = r == -EACCES;
    }
    listing->count++;
    return body_encode(&listing->entries, MsgFileEntry, &entry);
}

static int fill_page(DirectoryWalk *listing)
{
    int r = 0;

    listing->count = 0;
    buf_clear(&listing->entries);
    while (r == 0 && listing->depth > 0 && listing->count < LIMIT_FILE_ENTRIES &&
           listing->entries.size < PAGE_BYTES) {
        const struct dirent *entry;

        errno = 0;
        entry = readdir(listing->levels[listing->depth - 1].stream);
        if (!entry && errno != 0)
            r = -errno;
        else if (!entry)
            ascend(listing);
        else if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = take_entry(listing, entry->d_name);
    }
    return r;
}

static int begin(DirectoryWalk **ret, const MsgFileList *ask)
{
    unsigned limit = (unsigned)uint_or(ask->depth, 1);
    Path path;
    int r = path_take(path, ask->path);

    if (r < 0)
        return r;
    _cleanup_(listing_freep) DirectoryWalk *listing = calloc(1, sizeof(*listing) + limit * sizeof(WalkLevel));
    if (!listing)
        return -ENOMEM;
    listing->limit = limit;
    r = limit > 0 ? path_show(listing->shown, ask->path) : -EINVAL;
    if (r == 0)
        r = descend(listing, AT_FDCWD, path);
    if (r == 0)
        *ret = take(listing);
    return r;
}

/* ---- pages ---- */

/* Takes the one of that number out of its place. */
static DirectoryWalk *take_kept(Files *files, uint64_t number)
{
    for (size_t i = 0; i < LISTINGS; i++)
        if (files->listings[i] && files->listings[i]->number == number)
            return take(files->listings[i]);
    return NULL;
}

/* First, in the place of the one that nobody asked for the longest. */
static void keep(Files *files, DirectoryWalk *listing)
{
    size_t at = 0;

    while (at < LISTINGS - 1 && files->listings[at])
        at++;
    listing_free(files->listings[at]);
    memmove(files->listings + 1, files->listings, at * sizeof(files->listings[0]));
    files->listings[0] = listing;
}

static void write_entries(Writer *w, const void *source)
{
    const DirectoryWalk *listing = source;

    write_array(w, listing->count);
    write_encoded(w, &listing->entries);
}

int files_list(Files *files, uint64_t id, const MsgFileList *ask)
{
    _cleanup_(listing_freep) DirectoryWalk *listing = NULL;
    MsgFileListReply reply = {.next = NO_UINT};
    int r = 0;

    if (ask->next != NO_UINT)
        listing = take_kept(files, ask->next);
    else
        r = begin(&listing, ask);
    if (!listing)
        return r < 0 ? r : -ESTALE;
    if (r == 0 && (r = fill_page(listing)) < 0)
        files_blame(files, listing->shown, r);
    if (r < 0)
        return r;
    if (listing->depth > 0)
        reply.next = listing->number = ++files->last;
    reply.entries = (Value){.write = write_entries, .source = listing};
    r = files_reply(files, id, MsgFileListReply, &reply);
    if (r == 0 && listing->depth > 0)
        keep(files, take(listing));
    return r;
}

/* ---- read, fetch: whatever a piece is read from is opened for that piece ---- */

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
    ssize_t n = to ? read_whole_at(fd, to, size, (off_t)reply->offset) : -ENOMEM;

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
    ssize_t n = to ? read_whole_at(fd, to, (size_t)st->st_size, 0) : -ENOMEM;
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
