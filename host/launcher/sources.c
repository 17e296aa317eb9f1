#include "host/launcher/sources.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/disk.h"

#define DIRECTORY "sources"

static const char *const names[] = {"session", "scratch", "link"};

int sources_open(Sources *sources, const char *state_dir, const char *runtime_dir)
{
    *sources = (Sources){state_dir, runtime_dir, open(state_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), -1};
    if (sources->state < 0)
        return -errno;
    sources->runtime = open(runtime_dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
    return sources->runtime < 0 ? -errno : 0;
}

void sources_close(Sources *sources)
{
    if (sources->runtime >= 0)
        unlinkat(sources->runtime, DIRECTORY, AT_REMOVEDIR);
    close_fd(&sources->state);
    close_fd(&sources->runtime);
}

int sources_session(const Sources *sources, const char *directory)
{
    _cleanup_(closep) int sessions = beneath_open(sources->state, "sessions", O_PATH | O_DIRECTORY, 0);

    return sessions < 0 ? sessions : beneath_open(sessions, directory, O_PATH | O_DIRECTORY, 0);
}

/* Opens a part of a session's directory, which may be a mount point itself. */
static int open_part(const Sources *sources, const char *directory, const char *name)
{
    _cleanup_(closep) int session = sources_session(sources, directory);
    int fd = session < 0 ? -1 : openat(session, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

    return session < 0 ? session : fd < 0 ? -errno : fd;
}

static int open_link(const Sources *sources, const char *link)
{
    _cleanup_(closep) int links = beneath_open(sources->runtime, SEAM_LINKS, O_PATH | O_DIRECTORY, 0);

    return links < 0 ? links : beneath_open(links, link, O_PATH | O_DIRECTORY, 0);
}

/* Mounts what the handle is on at `name` of `place`, without what is mounted below it. */
static int mount_at(int place, const char *name, int handle)
{
    struct mount_attr attributes = {.attr_set = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV,
                                    .propagation = MS_PRIVATE};
    _cleanup_(closep) int tree =
        handle < 0 ? handle : open_tree(handle, "", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH);

    if (handle < 0)
        return handle;
    if (tree < 0 || mount_setattr(tree, "", AT_EMPTY_PATH, &attributes, sizeof(attributes)) < 0)
        return -errno;
    if ((mkdirat(place, name, 0700) < 0 && errno != EEXIST) ||
        move_mount(tree, "", place, name, MOVE_MOUNT_F_EMPTY_PATH) < 0)
        return -errno;
    return 0;
}

static int mount_all(const Sources *sources, const Demand *demand, int place)
{
    _cleanup_(closep) int session = open_part(sources, demand->directory, "files");
    _cleanup_(closep) int scratch = open_part(sources, demand->directory, "scratch");
    _cleanup_(closep) int link = open_link(sources, demand->link);
    int r = mount_at(place, "session", session);

    if (r == 0)
        r = mount_at(place, "scratch", scratch);
    if (r == 0)
        r = mount_at(place, "link", link);
    return r;
}

static int open_place(const Sources *sources, const char *container)
{
    _cleanup_(closep) int all = beneath_mkdirs(sources->runtime, DIRECTORY, 0700, (uid_t)-1, (gid_t)-1);

    return all < 0 ? all : beneath_mkdirs(all, container, 0700, (uid_t)-1, (gid_t)-1);
}

static void say_paths(const Sources *sources, const Demand *demand, SourcePaths *ret)
{
    char *const paths[] = {ret->session, ret->scratch, ret->link};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        snprintf(paths[i], PATH_MAX, "%s/" DIRECTORY "/%s/%s", sources->runtime_dir, demand->container,
                 names[i]);
}

int sources_make(const Sources *sources, const Demand *demand, SourcePaths *ret, Problem *problem)
{
    _cleanup_(closep) int place = open_place(sources, demand->container);
    int r = place < 0 ? place : mount_all(sources, demand, place);

    if (r < 0) {
        sources_release(sources, demand->container);
        return problem_set(problem, ERR_INTERNAL, "cannot mount the directories of the session: %s",
                           strerror(-r));
    }
    say_paths(sources, demand, ret);
    return 0;
}

void sources_release(const Sources *sources, const char *container)
{
    _cleanup_(closep) int all = beneath_open(sources->runtime, DIRECTORY, O_PATH | O_DIRECTORY, 0);
    _cleanup_(closep) int place = all < 0 ? -1 : beneath_open(all, container, O_PATH | O_DIRECTORY, 0);

    if (place < 0)
        return;
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        disk_detach(place, names[i]);
        unlinkat(place, names[i], AT_REMOVEDIR);
    }
    unlinkat(all, container, AT_REMOVEDIR);
}

void sources_sweep(const Sources *sources, bool (*in_use)(void *userdata, const char *container),
                   void *userdata)
{
    DIR *stream;

    if (beneath_open_list(sources->runtime, DIRECTORY, &stream) < 0)
        return;
    for (struct dirent *entry; (entry = readdir(stream));)
        if (entry->d_name[0] != '.' && !in_use(userdata, entry->d_name))
            sources_release(sources, entry->d_name);
    closedir(stream);
}
