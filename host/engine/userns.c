#include "host/engine/userns.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>

#include "host/engine/rootless.h"
#include "proto/base/fdio.h"

#define IMAGES "images" /* where they are mounted */

/* ---- the namespace ---- */

static int write_map(pid_t pid, const char *name)
{
    char path[64], map[64];

    snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
    snprintf(map, sizeof(map), "0 %u 1\n%u %u 1\n", SUPERVISOR_UID, GUEST_UID, GUEST_UID);
    int fd _cleanup_(closep) = open(path, O_WRONLY | O_CLOEXEC);
    return fd < 0 ? -errno : write_all(fd, map, strlen(map));
}

static int open_map(pid_t pid)
{
    char path[64];
    int r = write_map(pid, "uid_map");

    if (r == 0)
        r = write_map(pid, "gid_map");
    if (r < 0)
        return r;
    snprintf(path, sizeof(path), "/proc/%d/ns/user", (int)pid);
    r = open(path, O_RDONLY | O_CLOEXEC);
    return r < 0 ? -errno : r;
}

/* A child that does nothing has it, until there is a descriptor of it. */
static int make_map(void)
{
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, NULL, NULL, NULL, NULL);
    int r;

    if (pid < 0)
        return -errno;
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    r = open_map(pid);
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return r;
}

/* ---- mounts ---- */

/* Returns a mount that is nowhere yet. */
static int clone_mapped(int map, const char *directory)
{
    struct mount_attr attributes = {
        .attr_set = MOUNT_ATTR_RDONLY | (rootless_entered() ? 0 : MOUNT_ATTR_IDMAP),
        .propagation = MS_PRIVATE,
        .userns_fd = rootless_entered() ? 0 : (uint64_t)map,
    };
    int tree _cleanup_(closep) = open_tree(AT_FDCWD, directory, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0)
        return -errno;
    return take_fd(&tree);
}

static int mount_mapped(const Userns *userns, const char *directory)
{
    int tree _cleanup_(closep) = clone_mapped(userns->map, directory);
    char target[PATH_MAX];

    if (tree < 0)
        return tree;
    snprintf(target, sizeof(target), "%s/" IMAGES, userns->directory);
    if ((mkdir(target, 0700) < 0 && errno != EEXIST) ||
        move_mount(tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static void remove_mount(const Userns *userns)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/" IMAGES, userns->directory);
    while (umount2(path, MNT_DETACH | UMOUNT_NOFOLLOW) == 0)
        ;
    rmdir(path);
    rmdir(userns->directory);
}

/* ---- what it takes ---- */

/* Without root there is no mapped mount, which is what crun lacks. */
static bool is_able(const Runtime *runtime)
{
    unsigned major, minor;

    if (runtime->kind == RUNTIME_CRUN)
        return rootless_entered();
    return runtime->kind == RUNTIME_RUNC && sscanf(runtime->version, "%u.%u", &major, &minor) == 2 &&
           (major > 1 || (major == 1 && minor >= 1));
}

static int check_runtime(const Runtime *runtime, Problem *problem)
{
    if (is_able(runtime))
        return 0;
    return problem_set(problem, ERR_ENGINE_ERROR, "this takes runc 1.1 or newer, not %s %s", runtime->name,
                       runtime->version);
}

static int check_mapping(int map, const char *directory, Problem *problem)
{
    int tree _cleanup_(closep) = clone_mapped(map, directory);

    if (tree >= 0 || tree == -ENOENT)
        return 0;
    return problem_set(problem, ERR_ENGINE_ERROR, "the kernel or the file system cannot map users of %s: %s",
                       directory, strerror(-tree));
}

/* By them the supervisor is let in to where it connects and stores output. */
static int check_lists(const char *directory, Problem *problem)
{
    if (getxattr(directory, "system.posix_acl_access", NULL, 0) >= 0 || errno != EOPNOTSUPP)
        return 0;
    return problem_set(problem, ERR_ENGINE_ERROR, "the file system of %s has no access control lists",
                       directory);
}

/* The runtime goes there as SUPERVISOR_UID. The directory of this controller and the one above are ours to
 * open; what is in them has its own rights. */
static int check_way(const char *directory, Problem *problem)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s", directory);
    for (unsigned above = 0; *path; above++, *strrchr(path, '/') = '\0') {
        struct stat st;

        if (stat(path, &st) < 0)
            return problem_set(problem, ERR_ENGINE_ERROR, "%s: %s", path, strerror(errno));
        if (st.st_mode & S_IXOTH || (above < 2 && chmod(path, (st.st_mode & 07777) | S_IXOTH) == 0))
            continue;
        return problem_set(problem, ERR_ENGINE_ERROR,
                           "the directory %s keeps others out; move runtime_dir, or let them enter with "
                           "chmod o+x %s",
                           path, path);
    }
    return 0;
}

static int check_all(int map, const EngineConfig *config, Problem *problem)
{
    int r;

    if (map < 0)
        return problem_set(problem, ERR_ENGINE_ERROR, "the kernel makes no user namespace: %s",
                           strerror(-map));
    r = check_mapping(map, config->images, problem);
    if (r == 0)
        r = check_lists(config->runtime_dir, problem);
    if (r == 0)
        r = check_lists(config->state_dir, problem);
    return r < 0 || rootless_entered() ? r : check_way(config->runtime_dir, problem);
}

int userns_check(const EngineConfig *config, const Runtime *runtime, Problem *problem)
{
    int map _cleanup_(closep) = -1;
    int r = check_runtime(runtime, problem);

    if (r < 0)
        return r;
    map = make_map();
    return check_all(map, config, problem);
}

/* ---- its life ---- */

int userns_open(Userns *ret, const EngineConfig *config, const Runtime *runtime, Problem *problem)
{
    Userns userns = {.map = -1, .config = config};
    int r;

    r = userns_check(config, runtime, problem);
    if (r < 0)
        return r;
    snprintf(userns.directory, sizeof(userns.directory), "%s/mapped",
             rootless_entered() ? ROOTLESS_PLACE : config->runtime_dir);
    remove_mount(&userns);
    userns.map = make_map();
    r = userns.map < 0 ? userns.map : 0;
    if (r == 0 && (mkdir(userns.directory, 0700) < 0 || chown(userns.directory, 0, SUPERVISOR_UID) < 0 ||
                   chmod(userns.directory, 0710) < 0))
        r = -errno;
    if (r < 0) {
        userns_close(&userns);
        return problem_set(problem, ERR_ENGINE_ERROR, "cannot create %s: %s", userns.directory, strerror(-r));
    }
    *ret = userns;
    return 0;
}

void userns_close(Userns *userns)
{
    if (userns->map < 0)
        return;
    remove_mount(userns);
    close_fd(&userns->map);
}

/* Returns what follows `directory` in `path`, which lies below it, or NULL. */
static const char *below(const char *path, const char *directory)
{
    size_t n = strlen(directory);

    return n > 0 && strncmp(path, directory, n) == 0 && path[n] == '/' ? path + n : NULL;
}

/* There may be no images yet when it is opened. Their paths are without links. */
static int mount_images(Userns *userns)
{
    char real[PATH_MAX];
    int r;

    if (*userns->images)
        return 0;
    if (!realpath(userns->config->images, real))
        return -errno;
    r = mount_mapped(userns, real);
    if (r == 0)
        strcpy(userns->images, real);
    return r;
}

int userns_path(Userns *userns, const char *path, char ret[static PATH_MAX])
{
    int r = mount_images(userns);
    const char *rest = r < 0 ? NULL : below(path, userns->images);

    if (r < 0)
        return r;
    if (!rest)
        return -EXDEV;
    return snprintf(ret, PATH_MAX, "%s/" IMAGES "%s", userns->directory, rest) < PATH_MAX ? 0 : -ENAMETOOLONG;
}

static json_t *mapped(unsigned inside, unsigned outside)
{
    return json_pack("{s:i, s:i, s:i}", "containerID", (int)inside, "hostID", (int)outside, "size", 1);
}

/* The browser has the interpreter's group. */
static json_t *groups(void)
{
    return json_pack("[o, o]", mapped(0, SUPERVISOR_UID), mapped(GUEST_UID, GUEST_UID));
}

static json_t *users(void)
{
    return json_pack("[o, o, o]", mapped(0, SUPERVISOR_UID), mapped(GUEST_UID, GUEST_UID),
                     mapped(BROWSER_UID, BROWSER_UID));
}

int userns_describe(json_t *linux_part)
{
    if (json_array_append_new(json_object_get(linux_part, "namespaces"), json_pack("{s:s}", "type", "user")) <
            0 ||
        json_object_set_new(linux_part, "uidMappings", users()) < 0 ||
        json_object_set_new(linux_part, "gidMappings", groups()) < 0)
        return -ENOMEM;
    return 0;
}
