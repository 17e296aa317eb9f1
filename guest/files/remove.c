/* remove: a tree goes in pieces, each by a question of its own. What was left is where the next one begins.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "guest/files/files.h"

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

static int remove_tree(const char *path, bool *ret_more)
{
    _cleanup_(closep) int top = open_directory(AT_FDCWD, path);
    TreeRemoval removal = {.top = top, .left = PIECE};
    int r = MIN(top, 0);

    if (r == -ENOTDIR || r == -ELOOP)
        return unlink(path) < 0 ? -errno : 0;
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
