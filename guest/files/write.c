/* write and store: a file is there as a whole or not at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "guest/files/files.h"
#include "proto/base/fdio.h"

/* A file that has no name yet, in the directory that it will be in. */
typedef struct NewFile {
    int directory, fd;
    char name[24]; /* of a temporary one, where the file system knows no files without a name; otherwise "" */
} NewFile;

#define NEW_FILE_NULL ((NewFile){.directory = -1, .fd = -1})

#define MODE_MASK 01777

/* ---- a new file ---- */

static void temporary_name(char ret[static 24])
{
    uint64_t random = 0;

    if (getrandom(&random, sizeof(random), GRND_NONBLOCK) < 0)
        random = (uint64_t)getpid();
    snprintf(ret, 24, TEMPORARY "%015llx", (unsigned long long)(random >> 4));
}

/* Begins one; the directory is taken. */
static int new_file_begin(NewFile *ret, int directory)
{
    *ret = (NewFile){.directory = directory};
    ret->fd = openat(directory, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (ret->fd >= 0)
        return 0;
    if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
        return -errno;
    temporary_name(ret->name);
    ret->fd = openat(directory, ret->name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (ret->fd < 0)
        ret->name[0] = '\0';
    return ret->fd < 0 ? -errno : 0;
}

/* A file without a name gets one that is not its own yet: only a rename replaces what is there. */
static int name_file(NewFile *file)
{
    char path[32];

    if (file->name[0])
        return 0;
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
    temporary_name(file->name);
    if (linkat(AT_FDCWD, path, file->directory, file->name, AT_SYMLINK_FOLLOW) == 0)
        return 0;
    file->name[0] = '\0';
    return -errno;
}

/* Puts the file in its place, or in that of a file which is there. */
static int new_file_end(NewFile *file, const char *name, mode_t mode)
{
    int r = fchmod(file->fd, mode & MODE_MASK) < 0 ? -errno : name_file(file);

    if (r == 0 && renameat(file->directory, file->name, file->directory, name) < 0)
        r = -errno;
    if (r == 0)
        file->name[0] = '\0';
    return r;
}

static void new_file_deinit(NewFile *file)
{
    if (file->name[0])
        unlinkat(file->directory, file->name, 0);
    close_fd(&file->fd);
    close_fd(&file->directory);
}

#define MODIFIED_MAX 1e12 /* seconds, far beyond what file systems know */

/* NAN: it stays as it is. */
static int set_modified(int fd, double modified)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};

    if (isnan(modified))
        return 0;
    if (modified > MODIFIED_MAX)
        return -EINVAL;
    times[1].tv_sec = (time_t)modified;
    times[1].tv_nsec = (long)((modified - (double)times[1].tv_sec) * 1e9);
    return futimens(fd, times) < 0 ? -errno : 0;
}

/* ---- write ---- */

struct Upload {
    uint64_t number;
    NewFile file;
    uint64_t size;
    mode_t mode;
    double modified;
    char name[NAME_MAX + 1];
    Path path; /* as it was given: for what fails */
};

static void upload_free(Upload *upload)
{
    if (!upload)
        return;
    new_file_deinit(&upload->file);
    free(upload);
}

static void upload_freep(Upload **upload)
{
    upload_free(*upload);
}

static int set_name(Upload *upload, const char *name)
{
    if (strlen(name) > NAME_MAX)
        return -ENAMETOOLONG;
    strcpy(upload->name, name);
    return 0;
}

/* Makes what lies above the file, and opens it. A directory in the file's place is told of before anything is
 * sent. */
static int begin_file(Upload *upload, const MsgFileWrite *ask)
{
    const char *name;
    struct stat st;
    Path path, above;
    int directory, r = path_take(path, ask->path);

    if (r == 0)
        r = path_split(above, &name, path);
    if (r == 0)
        r = set_name(upload, name);
    if (r == 0 && ask->parents)
        r = path_make(above);
    if (r != 0)
        return r;
    directory = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0)
        return -errno;
    if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode)) {
        close(directory);
        return -EISDIR;
    }
    return new_file_begin(&upload->file, directory);
}

static int begin(Upload **ret, const MsgFileWrite *ask)
{
    _cleanup_(upload_freep) Upload *upload = calloc(1, sizeof(*upload));
    int r;

    if (!upload)
        return -ENOMEM;
    upload->file = NEW_FILE_NULL;
    upload->mode = (mode_t)uint_or(ask->mode, 0644);
    upload->modified = ask->modified;
    snprintf(upload->path, sizeof(upload->path), "%.*s", (int)MIN(ask->path.size, LIMIT_PATH),
             ask->path.data ? ask->path.data : "");
    r = begin_file(upload, ask);
    if (r == 0)
        *ret = take(upload);
    return r;
}

static Upload *take_kept(Files *files, uint64_t number)
{
    for (size_t i = 0; i < UPLOADS; i++)
        if (files->uploads[i] && files->uploads[i]->number == number)
            return take(files->uploads[i]);
    return NULL;
}

/* First, in the place of the one that nothing was sent to the longest. */
static void keep(Files *files, Upload *upload)
{
    size_t at = 0;

    while (at < UPLOADS - 1 && files->uploads[at])
        at++;
    upload_free(files->uploads[at]);
    memmove(files->uploads + 1, files->uploads, at * sizeof(files->uploads[0]));
    files->uploads[0] = upload;
}

/* A piece goes behind those that are there. */
static int add_piece(Upload *upload, const MsgFileWrite *ask)
{
    uint64_t offset = uint_or(ask->offset, upload->size);
    int fd = upload->file.fd;
    int r;

    if (offset < upload->size || offset > INT64_MAX - LIMIT_FILE_CHUNK)
        return -EINVAL;
    if (offset > upload->size && lseek(fd, (off_t)offset, SEEK_SET) < 0)
        return -errno;
    r = write_all(fd, ask->data.data, ask->data.size);
    upload->size = offset + ask->data.size;
    if (r == 0 && ask->last && ftruncate(fd, (off_t)upload->size) < 0)
        r = -errno;
    if (r == 0 && ask->last)
        r = set_modified(fd, upload->modified);
    if (r == 0 && ask->last)
        r = new_file_end(&upload->file, upload->name, upload->mode);
    return r;
}

int files_write(Files *files, uint64_t id, const MsgFileWrite *ask)
{
    _cleanup_(upload_freep) Upload *upload = NULL;
    MsgFileWriteReply reply = {.upload = NO_UINT};
    int r = 0;

    if (ask->upload != NO_UINT)
        upload = take_kept(files, ask->upload);
    else
        r = begin(&upload, ask);
    if (!upload)
        return r < 0 ? r : -ESTALE;
    if (r == 0 && (r = add_piece(upload, ask)) < 0)
        files_blame(files, upload->path, r);
    if (r < 0)
        return r;
    reply.size = upload->size;
    if (!ask->last) {
        if (upload->number == 0)
            upload->number = ++files->last;
        reply.upload = upload->number;
        keep(files, take(upload));
    }
    return files_reply(files, id, MsgFileWriteReply, &reply);
}

/* ---- store ---- */

typedef struct Store {
    int root;
    int above; /* the directory of the last one, which is mostly that of the next one too */
    Path above_path;
} Store;

static void store_deinit(Store *store)
{
    closep(&store->root);
    closep(&store->above);
}

/* Opens a directory below the root, and makes what is missing of it. */
static int make_beneath(int root, const char *path)
{
    Path part;
    int fd = beneath(root, path, O_PATH | O_DIRECTORY, 0);

    for (const char *end = path; fd == -ENOENT && *end;) {
        _cleanup_(closep) int above = -1;
        Path directory;
        const char *name;

        end += strspn(end, "/");
        end += strcspn(end, "/");
        snprintf(part, sizeof(part), "%.*s", (int)(end - path), path);
        if (path_split(directory, &name, part) < 0)
            return -EINVAL;
        above = beneath(root, directory, O_PATH | O_DIRECTORY, 0);
        if (above < 0)
            return above;
        if (mkdirat(above, name, 0755) < 0 && errno != EEXIST)
            return -errno;
    }
    return fd == -ENOENT ? beneath(root, path, O_PATH | O_DIRECTORY, 0) : fd;
}

static int go_above(Store *store, const char *path)
{
    if (store->above >= 0 && strcmp(store->above_path, path) == 0)
        return 0;
    close_fd(&store->above);
    store->above = make_beneath(store->root, path);
    strcpy(store->above_path, path);
    return MIN(store->above, 0);
}

static int store_file(Store *store, const char *name, const MsgFileEntry *entry)
{
    NewFile file _cleanup_(new_file_deinit) = NEW_FILE_NULL;
    int directory = fcntl(store->above, F_DUPFD_CLOEXEC, 3);
    int r = directory < 0 ? -errno : new_file_begin(&file, directory);

    if (r == 0)
        r = write_all(file.fd, entry->data.data, entry->data.size);
    if (r == 0)
        r = set_modified(file.fd, entry->modified);
    return r == 0 ? new_file_end(&file, name, (mode_t)uint_or(entry->mode, 0644)) : r;
}

/* Stores a directory. One that is there and somebody else's, as /session/artifacts, keeps its mode. */
static int store_directory(Store *store, const char *path, const MsgFileEntry *entry)
{
    _cleanup_(closep) int fd = make_beneath(store->root, path);
    char link[32];

    if (fd < 0)
        return fd;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    if (entry->mode != NO_UINT && chmod(link, (mode_t)entry->mode & MODE_MASK) < 0 && errno != EPERM)
        return -errno;
    return 0;
}

static int store_link(const Store *store, const char *name, Text target)
{
    Path to;
    int r =
        target.size == 0 || target.size > LIMIT_PATH || memchr(target.data, '\0', target.size) ? -EINVAL : 0;

    if (r < 0)
        return r;
    memcpy(to, target.data, target.size);
    to[target.size] = '\0';
    if (symlinkat(to, store->above, name) == 0)
        return 0;
    if (errno != EEXIST)
        return -errno;
    if (unlinkat(store->above, name, 0) < 0 || symlinkat(to, store->above, name) < 0)
        return -errno;
    return 0;
}

static int store_one(Store *store, const MsgFileEntry *entry, Path path)
{
    const char *name;
    Path above;
    int r = path_take(path, entry->path);

    if (r == 0 && path[0] == '/')
        r = -EINVAL;
    if (r == 0 && text_equal(entry->type, "directory"))
        return store_directory(store, path, entry);
    if (r == 0)
        r = path_split(above, &name, path);
    if (r == 0)
        r = go_above(store, above);
    if (r == 0 && text_equal(entry->type, "symlink"))
        return store_link(store, name, entry->target);
    return r == 0 && text_equal(entry->type, "file") ? store_file(store, name, entry) : MIN(r, 0);
}

int files_store(Files *files, uint64_t id, const MsgFileStore *ask)
{
    Store store _cleanup_(store_deinit) = {.root = -1, .above = -1};
    Path path, shown;
    int r = path_take(path, ask->path);

    if (r == 0)
        r = path_show(shown, ask->path);
    if (r == 0)
        r = path_make(path);
    if (r < 0)
        return r;
    store.root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (store.root < 0)
        return -errno;
    for (uint32_t i = 0; i < value_count(&ask->entries); i++) {
        MsgFileEntry entry;

        value_row(&entry, MsgFileEntry, &ask->entries, i);
        r = store_one(&store, &entry, path);
        if (r < 0)
            return path_join(shown, shown, path) < 0 ? r : files_blame(files, shown, r);
    }
    return files_reply_empty(files, id);
}

/* ---- mkdir, move ---- */

int files_mkdir(Files *files, uint64_t id, const MsgFileMkdir *ask)
{
    struct stat st;
    Path path;
    int r = path_take(path, ask->path);

    if (r == 0 && ask->parents)
        r = path_make(path);
    else if (r == 0 && mkdir(path, 0755) < 0)
        r = -errno;
    if (r == 0 && ask->parents && (stat(path, &st) < 0 || !S_ISDIR(st.st_mode)))
        r = -EEXIST;
    return r < 0 ? r : files_reply_empty(files, id);
}

int files_move(Files *files, uint64_t id, const MsgFileMove *ask)
{
    Path old, new, shown;
    int r = path_take(old, ask->old);

    if (r == 0)
        r = path_take(new, ask->new);
    if (r < 0)
        return r;
    if (rename(old, new) == 0)
        return files_reply_empty(files, id);
    r = -errno;
    /* The old one is there: it is about the new one. */
    if (faccessat(AT_FDCWD, old, F_OK, AT_SYMLINK_NOFOLLOW) == 0 && path_show(shown, ask->new) == 0)
        files_blame(files, shown, r);
    return r;
}

/* ---- remove: a tree goes in pieces, each by a question of its own, which begins where the last one ended
 * ---- */

/* Entries that one question removes. */
#define PIECE 2000u

/* Directories within each other. What lies deeper is moved up to the top first. */
#define DEPTH 64u

/* Passes over a directory to which something is added meanwhile. */
#define PASSES 8

typedef struct TreeRemoval {
    int top;        /* the directory that is removed */
    unsigned left;  /* of the piece */
    unsigned moved; /* directories, to the top: they are for the next question */
} TreeRemoval;

static int empty_directory(TreeRemoval *removal, int directory, unsigned depth);

/* Opens a directory to be emptied, whatever its mode was. */
static int open_directory(int above, const char *name)
{
    const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(above, name, flags);

    if (fd >= 0 || errno != EACCES)
        return fd < 0 ? -errno : fd;
    if (fchmodat(above, name, 0700, 0) < 0)
        return -errno;
    fd = openat(above, name, flags);
    return fd < 0 ? -errno : fd;
}

static int move_up(TreeRemoval *removal, int above, const char *name)
{
    char to[40];
    int r;

    do {
        snprintf(to, sizeof(to), TEMPORARY "remove-%u", removal->moved++);
        r = renameat2(above, name, removal->top, to, RENAME_NOREPLACE);
    } while (r < 0 && errno == EEXIST);
    return r < 0 ? -errno : 0;
}

/* 0: it is gone. -EAGAIN: the piece is at its end. */
static int remove_directory(TreeRemoval *removal, int above, const char *name, unsigned depth)
{
    _cleanup_(closep) int fd = open_directory(above, name);

    if (fd < 0)
        return fd;
    if (depth >= DEPTH)
        return move_up(removal, above, name);
    for (unsigned pass = 0; pass < PASSES; pass++) {
        int r = empty_directory(removal, fd, depth + 1);

        if (r < 0)
            return r;
        if (unlinkat(above, name, AT_REMOVEDIR) == 0)
            return 0;
        if (errno != ENOTEMPTY && errno != EEXIST)
            return -errno;
    }
    return -ENOTEMPTY;
}

static int remove_entry(TreeRemoval *removal, int directory, const char *name, unsigned depth)
{
    int r = 0;

    if (removal->left == 0)
        return -EAGAIN;
    removal->left--;
    if (unlinkat(directory, name, 0) < 0)
        r = -errno;
    /* EPERM is what POSIX has for a directory. */
    if (r == -EISDIR || r == -EPERM)
        r = remove_directory(removal, directory, name, depth);
    return r == -ENOENT ? 0 : r;
}

static int empty_directory(TreeRemoval *removal, int directory, unsigned depth)
{
    int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *entry;
    int r = 0;

    if (!stream) {
        r = -errno;
        closep(&fd);
        return r;
    }
    while (r == 0 && (entry = readdir(stream)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            r = remove_entry(removal, directory, entry->d_name, depth);
    closedir(stream);
    return r;
}

/* Refuses a directory that has to stay, such as /session, while there is all in it. */
static int check_removable(int directory)
{
    struct stat own, above;

    if (faccessat(directory, "..", W_OK, AT_EACCESS) < 0 || fstat(directory, &own) < 0 ||
        fstatat(directory, "..", &above, 0) < 0)
        return -EPERM;
    return above.st_mode & S_ISVTX && own.st_uid != geteuid() && above.st_uid != geteuid() ? -EPERM : 0;
}

static int remove_tree(const char *path, bool *ret_more)
{
    _cleanup_(closep) int top = open_directory(AT_FDCWD, path);
    TreeRemoval removal = {.top = top, .left = PIECE};
    int r = MIN(top, 0);

    if (r == -ENOTDIR || r == -ELOOP)
        return unlink(path) < 0 ? -errno : 0;
    if (r == 0)
        r = check_removable(top);
    if (r == 0)
        r = empty_directory(&removal, removal.top, 0);
    *ret_more = r == -EAGAIN || (r == 0 && removal.moved > 0);
    if (*ret_more)
        return 0;
    return r == 0 && rmdir(path) < 0 ? -errno : r;
}

static int remove_one(const char *path)
{
    if (unlink(path) == 0)
        return 0;
    if (errno != EISDIR && errno != EPERM)
        return -errno;
    return rmdir(path) < 0 ? -errno : 0;
}

int files_remove(Files *files, uint64_t id, const MsgFileRemove *ask)
{
    MsgFileRemoveReply reply = {0};
    Path path;
    int r = path_take(path, ask->path);

    if (r == 0)
        r = ask->recursive ? remove_tree(path, &reply.more) : remove_one(path);
    return r < 0 ? r : files_reply(files, id, MsgFileRemoveReply, &reply);
}
