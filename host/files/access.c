#include "host/files/access.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <pwd.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/xattr.h>

#include "host/files/beneath.h"

/* The same for up to ACL_USERS_MAX users. */
#define ACL_USERS_MAX 2

/* ---- access control lists ---- */

/* The kernel's form of a list, from linux/posix_acl_xattr.h: little endian, entries by tag. */
#define ACL_VERSION 2u
#define NO_ID       0xffffffffu

enum { TAG_OWNER = 1, TAG_USER = 2, TAG_GROUP = 4, TAG_MASK = 16, TAG_OTHER = 32 };

typedef struct Entry {
    uint16_t tag, permissions;
    uint32_t id;
} Entry;

typedef struct AclList {
    uint32_t version;
    Entry entries[4 + ACL_USERS_MAX];
} AclList;

static Entry entry(unsigned tag, unsigned permissions, uint32_t id)
{
    return (Entry){htole16((uint16_t)tag), htole16((uint16_t)permissions), htole32(id)};
}

/* The list that says what `mode` says, and some users more. */
static int set(const char *path, const char *name, mode_t mode, const uid_t *uids, size_t n,
               unsigned permissions)
{
    AclList list = {.version = htole32(ACL_VERSION)};
    Entry *next = list.entries;

    assert(n <= ACL_USERS_MAX);
    *next++ = entry(TAG_OWNER, (mode >> 6) & 7, NO_ID);
    for (size_t i = 0; i < n; i++)
        *next++ = entry(TAG_USER, permissions, uids[i]);
    *next++ = entry(TAG_GROUP, (mode >> 3) & 7, NO_ID);
    *next++ = entry(TAG_MASK, permissions | ((mode >> 3) & 7), NO_ID);
    *next++ = entry(TAG_OTHER, mode & 7, NO_ID);
    return setxattr(path, name, &list, (size_t)((char *)next - (char *)&list), 0) < 0 ? -errno : 0;
}

int acl_allow_each(const char *path, const uid_t *uids, size_t n, unsigned permissions)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return -errno;
    return set(path, "system.posix_acl_access", st.st_mode, uids, n, permissions);
}

int acl_allow(const char *path, uid_t uid, unsigned permissions)
{
    return acl_allow_each(path, &uid, 1, permissions);
}

int acl_allow_below(const char *path, uid_t uid, unsigned permissions)
{
    return set(path, "system.posix_acl_default", 0755, &uid, 1, permissions);
}

/* ---- with the rights of a user ---- */

#define NOBODY_GROUP 65534u /* of a user whom the database does not know */
#define GROUPS_MAX   1024

typedef struct Rights {
    uid_t user;
    gid_t group;
    gid_t groups[GROUPS_MAX];
    int count;
} Rights;

/* An opening that is under way, on a thread of its own. */
typedef struct Opening {
    LoopFile over; /* an eventfd: the thread has ended */
    uid_t user;
    char *path;
    int flags;
    int result;
    OpenDone *done;
    void *userdata;
} Opening;

static void find_rights(Rights *ret, uid_t user)
{
    char space[1 << 14];
    struct passwd entry, *found = NULL;

    *ret = (Rights){.user = user, .group = NOBODY_GROUP};
    getpwuid_r(user, &entry, space, sizeof(space), &found);
    if (!found)
        return;
    ret->group = found->pw_gid;
    ret->count = GROUPS_MAX;
    if (getgrouplist(found->pw_name, found->pw_gid, ret->groups, &ret->count) < 0)
        ret->count = GROUPS_MAX; /* as many as fit */
}

/* The calls of the C library do it for all threads, the kernel's for this one alone. With another user id for
 * files it takes away what root may do with them. */
static int become(const Rights *rights)
{
    if (syscall(SYS_setgroups, (size_t)rights->count, rights->groups) < 0)
        return -errno;
    setfsgid(rights->group);
    setfsuid(rights->user);
    return (gid_t)setfsgid((gid_t)-1) == rights->group && (uid_t)setfsuid((uid_t)-1) == rights->user ? 0
                                                                                                     : -EPERM;
}

static int open_beneath_root(int from, const char *path)
{
    struct open_how how = {.flags = O_PATH | O_CLOEXEC, .resolve = RESOLVE_NO_MAGICLINKS};
    long fd = syscall(SYS_openat2, from, path, &how, sizeof(how));

    return fd < 0 ? -errno : (int)fd;
}

/* First a handle, which opens nothing, then what it holds. */
static int open_checked(const char *path, int flags)
{
    int handle _cleanup_(closep) = open_beneath_root(AT_FDCWD, path), inside _cleanup_(closep) = -1;
    char again[FD_PATH_SIZE];
    struct stat st;
    int fd;

    if (handle < 0)
        return handle;
    if (fstat(handle, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return -ENXIO;
    if (S_ISDIR(st.st_mode) && (inside = open_beneath_root(handle, ".")) < 0)
        return inside;
    fd = open(fd_path(again, handle), flags | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* The thread ends with the rights that it took. */
static void *run(void *userdata)
{
    Opening *opening = userdata;
    Rights rights;

    if (geteuid() == 0 && opening->user != 0) {
        find_rights(&rights, opening->user);
        opening->result = become(&rights);
    }
    if (opening->result == 0)
        opening->result = open_checked(opening->path, opening->flags);
    eventfd_write(opening->over.fd, 1);
    return NULL;
}

static Opening *opening_free(Opening *opening)
{
    if (!opening)
        return NULL;
    if (opening->over.loop) {
        int fd = opening->over.fd;

        loop_file_remove(&opening->over);
        close(fd);
    }
    free(opening->path);
    free(opening);
    return NULL;
}
DEFINE_CLEANUP(Opening *, opening_free);

static void on_over(LoopFile *file, uint32_t events)
{
    Opening *opening = container_of(file, Opening, over);
    OpenDone *done = opening->done;
    void *userdata = opening->userdata;
    int result = opening->result;

    opening_free(opening);
    done(userdata, result);
}

/* Nobody waits for the thread: one whose file system does not answer ends with this process. */
static int start_thread(Opening *opening)
{
    sigset_t all, before;
    pthread_attr_t detached;
    pthread_t thread;
    int r;

    sigfillset(&all);
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&thread, &detached, run, opening);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&detached);
    return -r;
}

static int add_to(Loop *loop, Opening *opening)
{
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), r = fd < 0 ? -errno : 0;

    if (r == 0)
        r = loop_file_add(loop, &opening->over, fd, EPOLLIN, on_over);
    if (r < 0)
        close_fd(&fd);
    return r;
}

static OpenAs *another;
static void *another_userdata;

void open_as_set(OpenAs *opener, void *userdata)
{
    another = opener;
    another_userdata = userdata;
}

int open_as(Loop *loop, uid_t user, const char *path, int flags, OpenDone *done, void *userdata)
{
    Opening *opening _cleanup_(opening_freep) = NULL;
    int r;

    if (*path != '/')
        return -EINVAL;
    if (another)
        return flags == (O_RDONLY | O_DIRECTORY) ? another(another_userdata, user, path, done, userdata)
                                                 : -EPERM;
    opening = calloc(1, sizeof(*opening));
    if (!opening)
        return -ENOMEM;
    *opening =
        (Opening){.user = user, .path = strdup(path), .flags = flags, .done = done, .userdata = userdata};
    r = opening->path ? add_to(loop, opening) : -ENOMEM;
    if (r == 0)
        r = start_thread(opening);
    if (r == 0)
        opening = NULL;
    return r;
}
