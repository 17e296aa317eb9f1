#include "host/files/acl.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <sys/stat.h>
#include <sys/xattr.h>

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
