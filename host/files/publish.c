#include "host/files/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/artifact_list.h"
#include "host/files/beneath.h"
#include "host/files/names.h"

/* No published name begins with a dot. */
#define TEMPORARY ".partial"

#define COPY_ATTEMPTS 2

int publisher_init(Publisher *publisher)
{
    publisher->bytes = 0;
    publisher->files = 0;
    return copier_init(&publisher->copier);
}

void publisher_deinit(Publisher *publisher)
{
    copier_deinit(&publisher->copier);
}

/* ---- what is reported ---- */

static char *container_path(const Publisher *publisher, const char *path)
{
    char *full = NULL;

    return asprintf(&full, "%s/%s", publisher->prefix, path) < 0 ? NULL : full;
}

static void report(Publisher *publisher, Artifact *artifact, const char *path)
{
    artifact->path = container_path(publisher, path);
    if (artifact_list_add(publisher->list, artifact) < 0)
        publisher->list->incomplete = true;
}

/* An entry that has no published copy in the state it is in. Takes over `reason`. */
static void report_skipped(Publisher *publisher, IndexEntry *entry, const struct stat *st, char *reason)
{
    Artifact artifact = {
        .mime_type = mime_type(entry->path), .size = (uint64_t)st->st_size, .skipped = reason};

    entry->identity = identity_of(st);
    entry->identity.recent = false;
    entry->reported = true;
    entry->published = false;
    index_note(publisher->index, entry);
    index_settle(entry);
    if (!reason || publisher->list->n >= publisher->limits->list_entries) {
        publisher->list->omitted++;
        free(reason);
        return;
    }
    report(publisher, &artifact, entry->path);
}

static const char *kind_of(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFLNK:
        return "symbolic link";
    case S_IFIFO:
        return "FIFO";
    case S_IFSOCK:
        return "socket";
    default:
        return "device";
    }
}

static char *too_large(uint64_t size, uint64_t limit)
{
    char *reason = NULL;

    if (asprintf(&reason, "too large: %llu bytes, the limit is %llu", (unsigned long long)size,
                 (unsigned long long)limit) < 0)
        return NULL;
    return reason;
}

/* ---- room ---- */

#define DIRECTORY_BYTES 4096u

static Space space_of(const struct stat *st)
{
    return (Space){(uint64_t)st->st_blocks * 512, 1};
}

/* Returns the space that the copy which is there gives back when another one takes its place. */
static Space space_replaced(const Publisher *publisher, const char *path)
{
    struct stat st;

    return destination_find(publisher->target, path, &st) ? space_of(&st) : (Space){0};
}

static bool has_room(const Publisher *publisher, const char *path, const struct stat *st)
{
    return !publisher->room ||
           room_has(publisher->room, publisher->target, space_of(st), space_replaced(publisher, path));
}

static char *no_room(const Publisher *publisher)
{
    const Space *limit = &publisher->room->limit;
    char *reason = NULL;

    if (asprintf(&reason,
                 "no room: the artifacts of a session may take %llu bytes and %llu files in total "
                 "(options disk and files)",
                 (unsigned long long)limit->bytes, (unsigned long long)limit->files) < 0)
        return NULL;
    return reason;
}

/* ---- one file ---- */

/* Why a regular file is not even to be opened; NULL when it is. */
static char *over_limit(const Publisher *publisher, const char *path, const struct stat *st)
{
    const PublishLimits *limits = publisher->limits;
    uint64_t size = (uint64_t)st->st_size;

    if (size > limits->file_bytes)
        return too_large(size, limits->file_bytes);
    if (publisher->files >= limits->call_files)
        return strdup("over the file limit of one call");
    if (size > limits->call_bytes - publisher->bytes)
        return strdup("over the size limit of one call");
    return has_room(publisher, path, st) ? NULL : no_room(publisher);
}

static char *failure(const char *what, int error)
{
    char *reason = NULL;

    return asprintf(&reason, "%s: %s", what, strerror(-error)) < 0 ? NULL : reason;
}

static bool unchanged(int fd, const struct stat *before)
{
    struct stat now;

    return fstat(fd, &now) == 0 && now.st_dev == before->st_dev && now.st_ino == before->st_ino &&
           now.st_size == before->st_size && now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
           now.st_mtim.tv_nsec == before->st_mtim.tv_nsec && now.st_ctim.tv_sec == before->st_ctim.tv_sec &&
           now.st_ctim.tv_nsec == before->st_ctim.tv_nsec;
}

/* Fills the temporary file. -ESTALE when the original changed meanwhile. */
static int copy_to_temporary(Publisher *publisher, int from, const struct stat *st,
                             uint8_t sha256[SHA256_SIZE])
{
    if (unlinkat(publisher->target, TEMPORARY, 0) < 0 && errno != ENOENT)
        return -errno;
    _cleanup_(closep) int to = beneath_open(publisher->target, TEMPORARY, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (to < 0)
        return to;
    int r = copier_copy(&publisher->copier, from, to, st->st_size, sha256);
    if (r == 0 && !unchanged(from, st))
        r = -ESTALE;
    if (r == 0 && fchmod(to, 0644) < 0)
        r = -errno;
    return r;
}

/* A copy that is there already changes places with the new one, and goes with the next temporary file: a
 * rename over it would have ext4 write the new one to the disk first (auto_da_alloc), a millisecond per
 * megabyte. */
static int rename_temporary(int target, const Destination *destination)
{
    if (renameat2(target, TEMPORARY, destination->directory, destination->name, RENAME_EXCHANGE) == 0)
        return 0;
    return renameat(target, TEMPORARY, destination->directory, destination->name) < 0 ? -errno : 0;
}

/* -EDQUOT when the copy turned out larger than there is room. */
static int move_into_place(Publisher *publisher, const IndexEntry *entry, Artifact *artifact)
{
    Space replaced = space_replaced(publisher, entry->path), taken;
    _cleanup_(destination_deinit) Destination destination = {.directory = -1};
    struct stat st;
    int r = fstatat(publisher->target, TEMPORARY, &st, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;

    if (r == 0 && !has_room(publisher, entry->path, &st))
        r = -EDQUOT;
    if (r == 0)
        r = destination_init(&destination, publisher->target, publisher->target_path, entry->path);
    if (r == 0)
        r = rename_temporary(publisher->target, &destination);
    if (r == 0 && publisher->room) {
        taken = space_of(&st);
        taken.bytes += (uint64_t)destination.made * DIRECTORY_BYTES;
        taken.files += destination.made;
        room_take(publisher->room, taken, replaced);
    }
    if (r == 0 && !(artifact->host_path = strdup(destination.path)))
        r = -ENOMEM;
    return r;
}

/* The contents of a file whose times prove nothing are what was published already. */
static bool same_contents(const IndexEntry *entry, const struct stat *st, const uint8_t sha256[SHA256_SIZE])
{
    FileIdentity now = identity_of(st);

    return entry->published && identity_compare(&entry->identity, &now) == IDENTITY_UNSURE &&
           memcmp(entry->sha256, sha256, SHA256_SIZE) == 0;
}

/* 0 when published, or found to be as it was. */
static int publish_opened(Publisher *publisher, IndexEntry *entry, int fd, const struct stat *st)
{
    Artifact artifact = {.mime_type = mime_type(entry->path), .size = (uint64_t)st->st_size};
    FileIdentity identity = identity_of(st);
    uint8_t sha256[SHA256_SIZE];
    int r = copy_to_temporary(publisher, fd, st, sha256);

    publisher->bytes += (uint64_t)st->st_size;
    if (r < 0)
        return r;
    if (!same_contents(entry, st, sha256)) {
        r = move_into_place(publisher, entry, &artifact);
        if (r < 0)
            return r;
        publisher->files++;
        hex_encode(artifact.sha256, sha256, SHA256_SIZE);
        report(publisher, &artifact, entry->path);
    }
    memcpy(entry->sha256, sha256, SHA256_SIZE);
    entry->identity = identity;
    entry->reported = entry->published = true;
    index_note(publisher->index, entry);
    index_settle(entry);
    return 0;
}

static char *not_published(const Publisher *publisher, int error)
{
    if (error == -EDQUOT && publisher->room)
        return no_room(publisher);
    return error == -ENAMETOOLONG ? strdup("path too long") : failure("cannot be copied", error);
}

/* Tries once to publish a regular file. -ESTALE when another try is worth it. */
static int publish_regular(Publisher *publisher, IndexEntry *entry, int handle, const struct stat *st)
{
    char *reason = over_limit(publisher, entry->path, st);

    if (reason) {
        report_skipped(publisher, entry, st, reason);
        return 0;
    }
    _cleanup_(closep) int fd = beneath_read(handle);
    if (fd < 0) {
        report_skipped(publisher, entry, st, failure("unreadable", fd));
        return 0;
    }
    int r = publish_opened(publisher, entry, fd, st);
    if (r < 0 && r != -ESTALE)
        report_skipped(publisher, entry, st, not_published(publisher, r));
    return r == -ESTALE ? r : 0;
}

/* ---- one entry ---- */

static void look_at_directory(Publisher *publisher, IndexEntry *entry, const struct stat *st)
{
    if (!entry->obstacle)
        index_drop(publisher->index, entry);
    else if (!entry->reported)
        report_skipped(publisher, entry, st, strdup(entry->obstacle));
    else
        index_settle(entry);
}

/* Handles an entry that could not be looked up: drops one that is gone, reports one that cannot be found. */
static int look_up_failed(Publisher *publisher, IndexEntry *entry, int error)
{
    static const struct stat nothing;

    if (error == -EAGAIN)
        return -ESTALE;
    if (error == -ENOENT || error == -ENOTDIR || error == -ELOOP)
        index_drop(publisher->index, entry);
    else
        report_skipped(publisher, entry, &nothing,
                       error == -EXDEV ? strdup("on another file system") : failure("unreadable", error));
    return 0;
}

/* Settles or drops an entry; -ESTALE when it kept changing under our hands. */
static int look_at(Publisher *publisher, IndexEntry *entry)
{
    struct stat st;
    _cleanup_(closep) int handle = beneath_find(publisher->root, entry->path, &st);

    if (handle < 0)
        return look_up_failed(publisher, entry, handle);
    if (S_ISDIR(st.st_mode)) {
        look_at_directory(publisher, entry, &st);
        return 0;
    }
    entry->obstacle = NULL;
    if (!index_entry_differs(entry, &st)) {
        index_settle(entry);
        return 0;
    }
    if (S_ISREG(st.st_mode))
        return publish_regular(publisher, entry, handle, &st);
    report_skipped(publisher, entry, &st, strdup(kind_of(st.st_mode)));
    return 0;
}

/* Reported now, and looked at again by the next call. */
static void keep_for_later(Publisher *publisher, IndexEntry *entry)
{
    static const struct stat nothing;

    report_skipped(publisher, entry, &nothing, strdup("changed while being copied"));
    entry->reported = false;
    index_mark(publisher->index, entry);
}

void publish_clean(int target)
{
    unlinkat(target, TEMPORARY, 0);
}

void publish_pending(Publisher *publisher)
{
    List later = LIST_INIT(later);
    List *pending = &publisher->index->pending;
    IndexEntry *entry;
    List *link;

    while ((link = list_first(pending))) {
        int r = -ESTALE;

        entry = list_entry(link, IndexEntry, pending);
        for (unsigned i = 0; i < COPY_ATTEMPTS && r == -ESTALE; i++)
            r = look_at(publisher, entry);
        if (r == -ESTALE) {
            list_remove(&entry->pending);
            list_append(&later, &entry->pending);
        }
    }
    while ((link = list_first(&later))) {
        entry = list_entry(link, IndexEntry, pending);
        keep_for_later(publisher, entry);
    }
    publish_clean(publisher->target);
}
