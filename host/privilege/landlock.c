#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "host/privilege/drop.h"

/* Newer than the headers of some. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif
#ifndef LANDLOCK_ACCESS_FS_IOCTL_DEV
#define LANDLOCK_ACCESS_FS_IOCTL_DEV (1ULL << 15)
#endif

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define ALL     ((LANDLOCK_ACCESS_FS_IOCTL_DEV << 1) - 1)
/* Neither programs nor devices. */
#define WRITING                                                                                              \
    (ALL & ~(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK |     \
             LANDLOCK_ACCESS_FS_IOCTL_DEV))
/* Rights that are of use with a file that is no directory. */
#define OF_FILES (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)

/* Between directories nothing can be moved before the second version, which is too little here. */
#define VERSION_LEAST 2

static int version(void)
{
    return (int)syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

bool landlock_supported(void)
{
    return version() >= VERSION_LEAST;
}

static uint64_t known(int of_version)
{
    if (of_version >= 5)
        return ALL;
    return of_version >= 3 ? ALL >> 1 : ALL >> 2;
}

static int allow(int ruleset, const char *path, uint64_t access)
{
    _cleanup_(closep) int fd = open(path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {.parent_fd = fd, .allowed_access = access};
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISDIR(st.st_mode))
        rule.allowed_access &= OF_FILES;
    return syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0 ? -errno : 0;
}

static int allow_all(int ruleset, const char *const *places, uint64_t access)
{
    int r = 0;

    for (; r == 0 && *places; places++)
        r = allow(ruleset, *places, access);
    return r;
}

int landlock_confine(const Remnant *rights)
{
    int supported = version(), r;
    struct landlock_ruleset_attr handled = {.handled_access_fs = known(supported)};

    if (supported < VERSION_LEAST)
        return -EOPNOTSUPP;
    _cleanup_(closep) int ruleset =
        (int)syscall(SYS_landlock_create_ruleset, &handled, sizeof(handled.handled_access_fs), 0);
    if (ruleset < 0)
        return -errno;
    r = allow_all(ruleset, rights->readable, READING);
    if (r == 0)
        r = allow_all(ruleset, rights->writable, WRITING & handled.handled_access_fs);
    if (r == 0 && syscall(SYS_landlock_restrict_self, ruleset, 0) < 0)
        r = -errno;
    return r;
}
