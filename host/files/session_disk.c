#include "host/files/session_disk.h"

#include "host/files/beneath.h"
#include "host/files/disk_mount.h"
#include "host/files/disk_template.h"
#include "host/files/sessiondir_parts.h"

/* As the container has them, and as sessions/ID has. */
static const DiskPart parts[] = {{"session", "files"}, {"work", "work"}};

static int make_mount_points(int session, size_t n)
{
    int r = 0;

    for (size_t i = 0; r >= 0 && i < n; i++) {
        _cleanup_(closep) int fd = r = beneath_mkdirs(session, parts[i].on, PRIVATE_MODE, NOBODY_ELSE);
    }
    return MIN(r, 0);
}

int session_disk_make(int session, bool work, DiskSize size, Problem *problem)
{
    size_t n = work ? 2 : 1;
    _cleanup_(closep) int image = disk_template_make(session, DISK_NAME, size, problem);
    int r;

    if (image < 0)
        return image;
    _cleanup_(closep) int mount = disk_mount(image);
    r = mount < 0 ? mount : sessiondir_make_writable(mount, parts[0].inside, work ? parts[1].inside : NULL);
    if (r == 0)
        r = make_mount_points(session, n);
    return r == 0 ? disk_attach(mount, session, parts, n) : r;
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

int disk_maker_make(int session, const char *id, bool work, DiskSize size, Problem *problem)
{
    return disk_maker ? disk_maker->make(disk_maker->userdata, id, work, size, problem)
                      : session_disk_make(session, work, size, problem);
}

void disk_maker_detach(int session, const char *id)
{
    if (disk_maker)
        disk_maker->detach(disk_maker->userdata, id);
    else
        session_disk_detach(session);
}
