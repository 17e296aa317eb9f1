#include "host/engine/attach.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "host/engine/view.h"
#include "proto/places.h"

/* ---- into a container that runs ---- */

#define DATA "data" /* below the container's root */

#ifndef MOVE_MOUNT_BENEATH
#define MOVE_MOUNT_BENEATH 0x00000200 /* Linux 6.5 */
#endif

typedef struct Attachment {
    int process; /* pidfd */
    int tree;    /* a mount that is nowhere yet */
    const char *target;
    int result;
} Attachment;

/* All flags are on the mount before anybody can see it. Its file system, which may not answer, is asked
 * nothing. */
static int make_tree(int directory, bool recursive, int *ret)
{
    struct mount_attr flags = {
        .attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
        .propagation = MS_PRIVATE,
    };
    unsigned reach = recursive ? AT_RECURSIVE : 0;
    int tree _cleanup_(closep) =
        open_tree(directory, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH | reach);
    struct statx st;

    if (tree < 0 || statx(tree, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE, &st) < 0)
        return -errno;
    if (!S_ISDIR(st.stx_mode))
        return -ENOTDIR;
    if (mount_setattr(tree, "", AT_EMPTY_PATH | reach, &flags, sizeof(flags)) < 0)
        return -errno;
    *ret = take_fd(&tree);
    return 0;
}

/* The container may have anything under that name. Only a directory will do, and no link. */
static int open_target(const Attachment *attachment)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int root _cleanup_(closep) = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    long target = root < 0 ? -1 : syscall(SYS_openat2, root, attachment->target, &how, sizeof(how));

    return target < 0 ? -errno : (int)target;
}

static int move(int tree, int target, unsigned flags)
{
    flags |= MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
    return move_mount(tree, "", target, "", flags) < 0 ? -errno : 0;
}

static int take_off(int mount)
{
    return fchdir(mount) < 0 || umount2(".", MNT_DETACH) < 0 ? -errno : 0;
}

/* The new mount goes beneath the old one, which is taken off then: nobody finds nothing there in between. It
 * may not go on top, as a mount on the directory that the old one shows: Linux undoes it when that directory
 * is removed, wherever that is done. Older kernels take the old one off first. */
static int replace(const Attachment *attachment, int old)
{
    int target _cleanup_(closep) = -1;

    if (move(attachment->tree, old, MOVE_MOUNT_BENEATH) == 0)
        return take_off(old);
    take_off(old); /* if anything is mounted there */
    target = open_target(attachment);
    return target < 0 ? target : move(attachment->tree, target, 0);
}

static int mount_inside(const Attachment *attachment)
{
    int target _cleanup_(closep) = -1;

    /* Only who shares its root with nobody can go elsewhere. */
    if (unshare(CLONE_FS) < 0 || setns(attachment->process, CLONE_NEWNS) < 0)
        return -errno;
    target = open_target(attachment);
    if (target < 0)
        return target;
    return replace(attachment, target);
}

static void *run(void *userdata)
{
    Attachment *attachment = userdata;

    attachment->result = mount_inside(attachment);
    return NULL;
}

/* A thread may be in a mount namespace of its own: a few system calls, and no process to start and to wait
 * for. */
static int mount_from_thread(Attachment *attachment)
{
    sigset_t all, before;
    pthread_t thread;
    int r;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r = pthread_create(&thread, NULL, run, attachment);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (r != 0)
        return -r;
    pthread_join(thread, NULL);
    return attachment->result;
}

int attach_refuse(Problem *problem, const char *why)
{
    problem_set(problem, ERR_ENGINE_ERROR, "cannot add a data directory to a running container: %s", why);
    return -EOPNOTSUPP;
}

int attach_too_late(Problem *problem)
{
    problem_set(problem, ERR_ENGINE_ERROR, "the container has ended");
    return -ESRCH;
}

static bool is_refused(int error)
{
    return error == -EPERM || error == -ENOSYS;
}

static int explain(int error, Problem *problem)
{
    if (is_refused(error))
        return attach_refuse(problem, "the kernel or the rights of this user do not allow it");
    if (error == -ESRCH)
        return attach_too_late(problem);
    problem_set(problem, ERR_ENGINE_ERROR, "cannot mount /data of the container: %s", strerror(-error));
    return error;
}

int attach_data(int process, int directory, bool recursive, Problem *problem)
{
    int tree _cleanup_(closep) = -1;
    int r = make_tree(directory, recursive, &tree);

    if (r < 0 && !is_refused(r)) {
        problem_set(problem, ERR_ENGINE_ERROR, "cannot mount the data directory: %s", strerror(-r));
        return r;
    }
    if (r == 0)
        r = mount_from_thread(&(Attachment){.process = process, .tree = tree, .target = DATA});
    return r < 0 ? explain(r, problem) : 0;
}

static int explain_packages(int error, Problem *problem)
{
    if (error == -ESRCH)
        return attach_too_late(problem);
    if (error == -ENOENT)
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "the image has no /" PACKAGES_TARGET "; build it again with: limpet image build");
    return problem_set(problem, ERR_ENGINE_ERROR, "cannot mount packages in the running container: %s",
                       is_refused(error) ? "the kernel or the rights of this user do not allow it"
                                         : strerror(-error));
}

void packages_path(char ret[static PACKAGES_PATH_SIZE], const char *name)
{
    snprintf(ret, PACKAGES_PATH_SIZE, "packages/%.64s/base", name);
}

int packages_open(const char *state_dir, const char *name, Problem *problem)
{
    struct open_how how = {
        .flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
        .resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS,
    };
    int state _cleanup_(closep) = open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    char path[PACKAGES_PATH_SIZE];
    long directory;

    packages_path(path, name);
    directory = state < 0 ? -1 : syscall(SYS_openat2, state, path, &how, sizeof(how));
    if (directory < 0)
        return problem_set(problem, ERR_ENGINE_ERROR, "the stored packages %s are not there: %s", name,
                           strerror(errno));
    return (int)directory;
}

int attach_packages(int process, const char *state_dir, const char *name, Problem *problem)
{
    int directory _cleanup_(closep) = packages_open(state_dir, name, problem);
    int tree _cleanup_(closep) = -1;
    int r;

    if (directory < 0)
        return directory;
    r = make_tree(directory, false, &tree);
    if (r == 0)
        r = mount_from_thread(&(Attachment){.process = process, .tree = tree, .target = PACKAGES_TARGET});
    return r < 0 ? explain_packages(r, problem) : 0;
}

/* ---- for programs that take paths alone ---- */

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

void attach_sweep(const char *runtime_dir, bool (*in_use)(void *userdata, const char *name), void *userdata)
{
    static const struct {
        const char *directory;
        void (*remove)(const char *runtime_dir, const char *name);
    } kinds[] = {{"data", data_unmount}, {"views", view_remove}};

    for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
        char path[PATH_MAX];
        struct dirent *entry;
        DIR *directory;

        snprintf(path, sizeof(path), "%s/%s", runtime_dir, kinds[i].directory);
        directory = opendir(path);
        if (!directory)
            continue;
        while ((entry = readdir(directory)))
            if (entry->d_name[0] != '.' && !in_use(userdata, entry->d_name))
                kinds[i].remove(runtime_dir, entry->d_name);
        closedir(directory);
        rmdir(path);
    }
}

/* ---- for engines that take no mount flags ---- */

int mounts_restrict(const char *directory)
{
    struct mount_attr flags = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV};
    int tree _cleanup_(closep) = open_tree(AT_FDCWD, directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &flags, sizeof(flags)) < 0 ||
        move_mount(tree, "", AT_FDCWD, directory, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

void mounts_release(const char *directory)
{
    umount2(directory, MNT_DETACH | UMOUNT_NOFOLLOW);
}
