/* Sub-directories are not descended into but moved up: each directory is emptied of its files, its own
 * directories are renamed to numbered places at the top of the tree, and it is removed. The numbers are the
 * queue. So two descriptors are enough for any depth, and no ".." is ever trusted. */
#include "host/files/remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/beneath.h"

/* Passes over a directory to which something is added meanwhile. */
#define PASSES 8

typedef struct Removal {
    int top;
    uint64_t next;  /* number of the next directory moved to the top */
    uint64_t count; /* removed */
    int error;      /* the first one */
} Removal;

typedef char QueueName[32];

static const char *queue_name(QueueName buffer, uint64_t number)
{
    snprintf(buffer, sizeof(QueueName), ".remove-%llx", (unsigned long long)number);
    return buffer;
}

static void removal_fail(Removal *removal, int error)
{
    if (removal->error == 0 && error != -ENOENT)
        removal->error = error;
}

/* Opens a directory for reading and emptying, whatever its mode was. */
static int open_directory(int dirfd, const char *name)
{
    char path[FD_PATH_SIZE];
    int fd = beneath_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);

    if (fd < 0 && fd != -EACCES)
        return fd;
    /* Someone else's directory cannot be changed, but an access control list may let us in all the same. */
    if (fd >= 0 && (geteuid() == 0 || fchmod(fd, 0700) == 0 || errno == EPERM))
        return fd;
    close_fd(&fd);

    _cleanup_(closep) int handle = beneath_open(dirfd, name, O_PATH | O_DIRECTORY, 0);
    if (handle < 0)
        return handle;
    if (chmod(fd_path(path, handle), 0700) < 0)
        return -errno;
    return beneath_open(dirfd, name, O_RDONLY | O_DIRECTORY, 0);
}

/* Moves directory `name` of `dirfd` to the end of the queue. */
static void enqueue(Removal *removal, int dirfd, const char *name)
{
    QueueName to;

    for (;;) {
        if (renameat(dirfd, name, removal->top, queue_name(to, removal->next++)) == 0)
            return;
        /* A name that hostile code took beforehand: the next number then. */
        if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
            break;
    }
    if (errno != EACCES) {
        removal_fail(removal, -errno);
        return;
    }
    /* Moving a directory writes to it: without the right to, take it first. */
    _cleanup_(closep) int fd = open_directory(dirfd, name);
    if (fd < 0 || renameat(dirfd, name, removal->top, queue_name(to, removal->next++)) < 0)
        removal_fail(removal, fd < 0 ? fd : -errno);
}

typedef void (*OnDirectory)(Removal *removal, int dirfd, const char *name);

/* Unlinks what is in `dirfd` and hands each directory to `on_directory`. */
static void empty_directory(Removal *removal, int dirfd, OnDirectory on_directory)
{
    DIR *stream;
    int r = beneath_open_list(dirfd, ".", &stream);

    if (r < 0) {
        removal_fail(removal, r);
        return;
    }
    for (struct dirent *entry; (entry = readdir(stream));) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        if (unlinkat(dirfd, entry->d_name, 0) == 0)
            removal->count++;
        else if (errno == EISDIR || errno == EPERM)
            on_directory(removal, dirfd, entry->d_name);
        else
            removal_fail(removal, -errno);
    }
    closedir(stream);
}

/* Removes one directory whose own directories join the queue. */
static void remove_directory(Removal *removal, int dirfd, const char *name)
{
    _cleanup_(closep) int fd = open_directory(dirfd, name);

    if (fd == -ENOTDIR || fd == -ELOOP) { /* a taken queue name that is not a directory */
        if (unlinkat(dirfd, name, 0) == 0)
            removal->count++;
        return;
    }
    if (fd < 0) {
        removal_fail(removal, fd);
        return;
    }
    for (unsigned i = 0; i < PASSES; i++) {
        empty_directory(removal, fd, enqueue);
        if (unlinkat(dirfd, name, AT_REMOVEDIR) == 0) {
            removal->count++;
            return;
        }
        if (errno != ENOTEMPTY && errno != EEXIST)
            break;
    }
    removal_fail(removal, -errno);
}

static void remove_contents(Removal *removal)
{
    QueueName name;

    empty_directory(removal, removal->top, remove_directory);
    for (uint64_t i = 0; i < removal->next; i++)
        remove_directory(removal, removal->top, queue_name(name, i));
}

int remove_tree(int dirfd, const char *name, uint64_t *ret_count)
{
    Removal removal = {.top = open_directory(dirfd, name)};
    int flag = AT_REMOVEDIR;

    if (removal.top == -ENOTDIR || removal.top == -ELOOP)
        flag = 0;
    else if (removal.top < 0)
        removal_fail(&removal, removal.top);
    else
        remove_contents(&removal);

    if (removal.error == 0 && unlinkat(dirfd, name, flag) < 0)
        removal_fail(&removal, -errno);
    else if (removal.error == 0 && removal.top != -ENOENT)
        removal.count++;
    closep(&removal.top);
    if (ret_count)
        *ret_count = removal.count;
    return removal.error;
}

int remove_path(const char *path)
{
    _cleanup_(freep) char *copy = strdup(path);
    char *slash = copy ? strrchr(copy, '/') : NULL;

    if (!copy)
        return -ENOMEM;
    if (!slash)
        return remove_tree(AT_FDCWD, path, NULL);

    const char *parent = slash == copy ? "/" : copy;
    const char *name = path + (slash - copy) + 1;
    if (slash != copy)
        *slash = '\0';
    _cleanup_(closep) int dirfd = open(parent, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (dirfd < 0)
        return errno == ENOENT ? 0 : -errno;
    return remove_tree(dirfd, name, NULL);
}
