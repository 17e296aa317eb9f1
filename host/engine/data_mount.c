#include "host/engine/data_mount.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

static int path_of(char ret[static PATH_MAX], const char *runtime_dir, const char *name)
{
    return snprintf(ret, PATH_MAX, "%s/data/%s", runtime_dir, name) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static int path_that_it_has(char ret[static PATH_MAX], const char *link)
{
    ssize_t n = readlink(link, ret, PATH_MAX - 1);

    if (n < 0)
        return -errno;
    ret[n] = '\0';
    return 0;
}

static int make_target(char ret[static PATH_MAX], const char *runtime_dir, const char *name)
{
    int r = path_of(ret, runtime_dir, "");

    if (r == 0 && mkdir(ret, 0700) < 0 && errno != EEXIST)
        r = -errno;
    if (r == 0)
        r = path_of(ret, runtime_dir, name);
    if (r == 0 && mkdir(ret, 0700) < 0)
        r = -errno;
    return r;
}

/* Private, so that what is unmounted here stays where it was mounted from. */
int data_mount(char ret[static PATH_MAX], const char *runtime_dir, const char *name, int directory)
{
    char link[64];
    int r;

    snprintf(link, sizeof(link), "/proc/self/fd/%d", directory);
    if (geteuid() != 0)
        return path_that_it_has(ret, link);
    r = make_target(ret, runtime_dir, name);
    if (r < 0)
        return r;
    if (mount(link, ret, NULL, MS_BIND | MS_REC, NULL) == 0 &&
        mount(NULL, ret, NULL, MS_PRIVATE | MS_REC, NULL) == 0)
        return 0;
    r = -errno;
    data_unmount(runtime_dir, name);
    return r == -EPERM ? path_that_it_has(ret, link) : r;
}

int data_refuse(int error, Problem *problem)
{
    return problem_set(problem, ERR_ENGINE_ERROR, "cannot mount the data directory: %s", strerror(-error));
}

/* Nothing is removed but an empty directory, so that what is mounted cannot be meant. */
void data_unmount(const char *runtime_dir, const char *name)
{
    char path[PATH_MAX];

    if (path_of(path, runtime_dir, name) < 0 || access(path, F_OK) < 0)
        return;
    umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW);
    rmdir(path);
}

void data_unmount_unused(const char *runtime_dir, bool (*in_use)(void *userdata, const char *name),
                         void *userdata)
{
    char path[PATH_MAX];
    struct dirent *entry;
    DIR *directory;

    if (path_of(path, runtime_dir, "") < 0 || !(directory = opendir(path)))
        return;
    while ((entry = readdir(directory)))
        if (entry->d_name[0] != '.' && !in_use(userdata, entry->d_name))
            data_unmount(runtime_dir, entry->d_name);
    closedir(directory);
    rmdir(path);
}
