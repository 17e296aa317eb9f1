#include "host/files/session_disk.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/disk.h"
#include "host/files/sessiondir.h"

/* As the container has them, and as sessions/ID has. */
static const DiskPart parts[] = {{"session", "files"}, {"scratch", "scratch"}};

static int make_mount_points(int session)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < ARRAY_SIZE(parts); i++) {
        _cleanup_(closep) int fd = r = beneath_mkdirs(session, parts[i].on, PRIVATE_MODE, NOBODY_ELSE);
    }
    return MIN(r, 0);
}

int session_disk_make(int session, DiskSize size, Problem *problem)
{
    _cleanup_(closep) int image = disk_template_make(session, DISK_NAME, size, problem);
    int r;

    if (image < 0)
        return image;
    _cleanup_(closep) int mount = disk_mount(image);
    r = mount < 0 ? mount : sessiondir_make_writable(mount, parts[0].inside, parts[1].inside);
    if (r == 0)
        r = make_mount_points(session);
    return r == 0 ? disk_attach(mount, session, parts, ARRAY_SIZE(parts)) : r;
}

/* Others may write to the directory. A descriptor, or a negative errno. */
static int open_image(int session)
{
    _cleanup_(closep) int image = openat(session, DISK_NAME, O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;

    if (image < 0 || fstat(image, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_nlink != 1)
        return -EPERM;
    return take_fd(&image);
}

/* Mounted twice it would be written to by two who know nothing of each other. What somebody else has open, as
 * a loop device does, cannot be leased. */
static int check_unused(int image)
{
    if (fcntl(image, F_SETLEASE, F_WRLCK) < 0)
        return errno == EAGAIN ? -EBUSY : 0;
    return fcntl(image, F_SETLEASE, F_UNLCK) < 0 ? -errno : 0;
}

int session_disk_mount(int session, Problem *problem)
{
    _cleanup_(closep) int image = open_image(session);
    int r = image < 0 ? image : check_unused(image);

    if (r == 0)
        r = disk_image_check(image, problem);
    if (r < 0)
        return r;
    _cleanup_(closep) int mount = disk_mount(image);
    r = mount < 0 ? mount : make_mount_points(session);
    return r == 0 ? disk_attach(mount, session, parts, ARRAY_SIZE(parts)) : r;
}

void session_disk_detach(int session)
{
    for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
        disk_detach(session, parts[i].on);
}

static const DiskMaker *disk_maker;

void disk_maker_set(const DiskMaker *maker)
{
    disk_maker = maker;
}

int disk_maker_make(int session, const char *id, DiskSize size, Problem *problem)
{
    return disk_maker ? disk_maker->make(disk_maker->userdata, id, size, problem)
                      : session_disk_make(session, size, problem);
}

int disk_maker_mount(int session, const char *id, Problem *problem)
{
    return disk_maker ? disk_maker->mount(disk_maker->userdata, id, problem)
                      : session_disk_mount(session, problem);
}

void disk_maker_detach(int session, const char *id)
{
    if (disk_maker)
        disk_maker->detach(disk_maker->userdata, id);
    else
        session_disk_detach(session);
}
