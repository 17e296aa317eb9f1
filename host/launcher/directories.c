/* Directories that the controller and the files worker work in. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/launcher/internal.h"

/* Above it that makes nothing. */
static int make_directory(int parent, const char *name, uid_t owner)
{
    struct stat st;

    if ((mkdirat(parent, name, 0700) < 0 && errno != EEXIST) ||
        fstatat(parent, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return -errno;
    if (!S_ISDIR(st.st_mode))
        return -ENOTDIR;
    if (st.st_uid == owner)
        return 0;
    return fchownat(parent, name, owner, (gid_t)-1, AT_SYMLINK_NOFOLLOW) < 0 ? -errno : 0;
}

/* Whoever owns the directory may have linked what is root's elsewhere: that has a second name. */
static int give_file_away(int directory, const char *name, uid_t owner)
{
    _cleanup_(closep) int fd = openat(directory, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
    struct stat st;

    if (fd < 0 || fstat(fd, &st) < 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISREG(st.st_mode) || st.st_uid != 0 || st.st_nlink != 1)
        return 0;
    return fchownat(fd, "", owner, (gid_t)-1, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

/* Gives away the files that a limpetd of one process wrote there as root before it was killed. */
static int give_files_away(int parent, const char *directory, uid_t owner)
{
    DIR *stream;
    int r = beneath_open_list(parent, directory, &stream);

    if (r < 0)
        return r;
    for (struct dirent *entry; r == 0 && (entry = readdir(stream));)
        r = give_file_away(dirfd(stream), entry->d_name, owner);
    closedir(stream);
    return r;
}

/* Root's are those that the controller cannot enter. It has handles on its own. */
int launcher_make_directories(const Launcher *launcher)
{
    static const char *const of_controller[] = {"journals", "ended", "templates"};
    static const char *const of_files_worker[] = {"sessions", "outputs", "removed", "template-files",
                                                  "packages"};
    const uid_t user = launcher->config->user.uid;
    int state = launcher->sources.state, r;

    r = make_directory(launcher->sources.runtime, SEAM_LINKS, user);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(of_controller); i++) {
        r = make_directory(state, of_controller[i], user);
        if (r == 0)
            r = give_files_away(state, of_controller[i], user);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(of_files_worker); i++)
        r = make_directory(state, of_files_worker[i], 0);
    return r;
}
