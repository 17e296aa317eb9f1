#include "host/files/session_disk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "host/files/access.h"
#include "host/files/beneath.h"
#include "host/files/disk.h"
#include "host/files/transfer.h"
#include "host/files/tree.h"
#include "proto/base/log.h"

/* Lets a controller without root's rights into a directory where what code makes belongs to its own uid, so
 * that it can publish and remove it. Where the filesystem has no access lists only the local engine works for
 * such a user, which needs none. */
static void let_us_in(int directory)
{
    char path[FD_PATH_SIZE];

    if (geteuid() != 0)
        acl_allow_below(fd_path(path, directory), geteuid(), ACL_READ | ACL_WRITE | ACL_ENTER);
}

/* A directory sandboxed code writes to, with its `artifacts`. */
static int make_shared(int session, const char *name)
{
    _cleanup_(closep) int fd = beneath_mkdirs(session, name, SHARED_MODE, NOBODY_ELSE);
    _cleanup_(closep) int artifacts = fd < 0 ? fd : beneath_mkdirs(fd, "artifacts", SHARED_MODE, NOBODY_ELSE);

    if (artifacts < 0)
        return artifacts;
    let_us_in(fd);
    let_us_in(artifacts);
    return take_fd(&fd);
}

static int make_files(int parent, const char *name)
{
    static const uid_t supervisors[] = {0, SUPERVISOR_UID};
    _cleanup_(closep) int files = make_shared(parent, name);
    _cleanup_(closep) int ours =
        files < 0 ? files : beneath_mkdirs(files, TRANSFER_DIRECTORY, OURS_MODE, NOBODY_ELSE);
    char path[FD_PATH_SIZE];

    if (ours >= 0) /* the supervisor stores long output there, with its users mapped or not */
        acl_allow_each(fd_path(path, ours), supervisors, ARRAY_SIZE(supervisors),
                       ACL_READ | ACL_WRITE | ACL_ENTER);
    return MIN(ours, 0);
}

int session_disk_make_data(int scratch)
{
    _cleanup_(closep) int uploads = beneath_mkdirs(scratch, TRANSFER_DIRECTORY, PRIVATE_MODE, NOBODY_ELSE);
    _cleanup_(closep) int data =
        uploads < 0 ? uploads : beneath_mkdirs(scratch, "data", OURS_MODE, NOBODY_ELSE);

    return MIN(data, 0);
}

/* The home is the guest's own where it can be given away. */
static int make_scratch(int parent, const char *name)
{
    const mode_t home_mode = geteuid() == 0 ? OURS_MODE : SHARED_MODE;
    _cleanup_(closep) int fd = beneath_mkdirs(parent, name, OURS_MODE, NOBODY_ELSE);
    _cleanup_(closep) int tmp = fd < 0 ? fd : beneath_mkdirs(fd, "tmp", SHARED_MODE, NOBODY_ELSE);
    _cleanup_(closep) int home = tmp < 0 ? tmp : beneath_mkdirs(fd, "home", home_mode, GUEST_UID, GUEST_UID);
    _cleanup_(closep) int work = home < 0 ? home : make_shared(fd, "work");

    if (work < 0)
        return work;
    let_us_in(tmp);
    let_us_in(home);
    return session_disk_make_data(fd);
}

int session_disk_fill(int parent, const char *files, const char *scratch)
{
    int r = make_files(parent, files);

    return r < 0 ? r : make_scratch(parent, scratch);
}

static void remove_children(int parent, const char *path)
{
    DIR *stream;

    if (beneath_open_list(parent, path, &stream) < 0)
        return;
    for (struct dirent *entry; (entry = readdir(stream));)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            remove_tree(dirfd(stream), entry->d_name, NULL);
    closedir(stream);
}

void session_disk_empty(int parent)
{
    static const struct {
        const char *path;
        mode_t mode;
        uid_t owner;
    } places[] = {
        {"files", SHARED_MODE, (uid_t)-1},
        {"scratch/tmp", SHARED_MODE, (uid_t)-1},
        {"scratch/home", OURS_MODE, GUEST_UID},
        {"scratch/work", SHARED_MODE, (uid_t)-1},
    };

    for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
        remove_children(parent, places[i].path);
        if ((fchownat(parent, places[i].path, places[i].owner, places[i].owner, AT_SYMLINK_NOFOLLOW) < 0 ||
             fchmodat(parent, places[i].path, places[i].mode, 0) < 0) &&
            errno != ENOENT)
            log_warn("a directory of the session stays as it was", "name=%s error=%s", places[i].path,
                     strerror(errno));
    }
}

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
    r = mount < 0 ? mount : session_disk_fill(mount, parts[0].inside, parts[1].inside);
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
