#include "host/launcher/containers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "host/files/beneath.h"
#include "host/files/disk.h"
#include "proto/base/log.h"

/* The paths for a container's description. */
typedef struct SourcePaths {
    char session[PATH_MAX], scratch[PATH_MAX], link[PATH_MAX];
} SourcePaths;

/* ---- sources ---- */

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
    _cleanup_(closep) int links = beneath_open(sources->runtime, LAUNCHER_LINKS, O_PATH | O_DIRECTORY, 0);

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

static int mount_all(const Sources *sources, const LauncherRequest *request, int place)
{
    _cleanup_(closep) int session = open_part(sources, request->directory, "files");
    _cleanup_(closep) int scratch = open_part(sources, request->directory, "scratch");
    _cleanup_(closep) int link = open_link(sources, request->link);
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

static void say_paths(const Sources *sources, const LauncherRequest *request, SourcePaths *ret)
{
    char *const paths[] = {ret->session, ret->scratch, ret->link};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        snprintf(paths[i], PATH_MAX, "%s/" DIRECTORY "/%s/%s", sources->runtime_dir, request->container,
                 names[i]);
}

/* Takes them away: a container that has started has its own. Nothing there is no reason to complain. */
static void sources_release(const Sources *sources, const char *container)
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

/* Mounts those of a request. 0, or negative with the problem set and nothing mounted. */
static int sources_make(const Sources *sources, const LauncherRequest *request, SourcePaths *ret,
                        Problem *problem)
{
    _cleanup_(closep) int place = open_place(sources, request->container);
    int r = place < 0 ? place : mount_all(sources, request, place);

    if (r < 0) {
        sources_release(sources, request->container);
        return problem_set(problem, ERR_INTERNAL, "cannot mount the directories of the session: %s",
                           strerror(-r));
    }
    say_paths(sources, request, ret);
    return 0;
}

/* Takes away those of every container that is not in use. */
static void sources_sweep(const Sources *sources, bool (*in_use)(void *userdata, const char *container),
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

static LauncherContainer *find(const LauncherContainers *containers, const char *name)
{
    LauncherContainer *container = NULL;

    HASH_FIND(by_name, containers->by_name, name, strlen(name), container);
    return container;
}

static void container_free(LauncherContainer *container)
{
    HASH_DELETE(by_name, container->all->by_name, container);
    sources_release(container->all->sources, container->name);
    free(container);
}

/* ---- sweeping ---- */

static void begin_sweep(LauncherContainers *containers);

static void one_less(LauncherContainers *containers)
{
    if (--containers->to_sweep > 0)
        return;
    containers->sweeping = false;
    containers->events->swept(containers, containers->swept);
    if (containers->sweep_again)
        begin_sweep(containers);
}

static void on_engine_swept(void *userdata, unsigned removed)
{
    LauncherContainers *containers = userdata;

    containers->swept += removed;
    one_less(containers);
}

static bool is_known(void *userdata, const char *name)
{
    return find(userdata, name) != NULL;
}

static void remove_container(LauncherContainer *container)
{
    if (container->removing)
        return;
    container->removing = true;
    container->all->engine->ops->remove(container->base);
}

static void begin_sweep(LauncherContainers *containers)
{
    LauncherContainer *container, *next;

    containers->sweeping = true;
    containers->sweep_again = false;
    containers->swept = 0;
    containers->to_sweep = 1; /* the engine's own */
    HASH_ITER (by_name, containers->by_name, container, next) {
        if (!container->orphan || container->removing)
            continue;
        container->swept = true;
        containers->swept++;
        containers->to_sweep++;
        remove_container(container);
    }
    sources_sweep(containers->sources, is_known, containers);
    containers->engine->ops->sweep(containers->engine, on_engine_swept, containers);
}

int containers_sweep(LauncherContainers *containers)
{
    if (containers->sweep_again)
        return -EBADMSG;
    if (containers->sweeping)
        containers->sweep_again = true; /* of an earlier controller */
    else
        begin_sweep(containers);
    return 0;
}

/* ---- what the engine tells ---- */

static void on_started(Container *base, void *userdata, pid_t first_process)
{
    LauncherContainer *container = userdata;

    sources_release(container->all->sources, container->name);
    container->state = CONTAINER_STARTED;
    container->first_process = first_process;
    if (!container->orphan)
        container->all->events->started(container->all, container);
}

static void on_failed(Container *base, void *userdata, const Problem *problem)
{
    LauncherContainer *container = userdata;

    sources_release(container->all->sources, container->name);
    container->state = CONTAINER_FAILED;
    container->problem = *problem;
    if (!container->orphan)
        container->all->events->failed(container->all, container->name, problem);
}

static void on_gone(Container *base, void *userdata, const char *why)
{
    LauncherContainer *container = userdata;

    container->state = CONTAINER_GONE;
    problem_set(&container->problem, ERR_ENGINE_ERROR, "%s", why);
    if (!container->orphan)
        container->all->events->gone(container->all, container);
}

static void on_removed(void *userdata)
{
    LauncherContainer *container = userdata;
    LauncherContainers *containers = container->all;
    bool swept = container->swept;

    if (!container->orphan)
        containers->events->removed(containers, container->name);
    container_free(container);
    if (swept)
        one_less(containers);
}

static const ContainerEvents container_events = {on_started, on_failed, on_gone, on_removed};

/* ---- what the controller asks for ---- */

static LauncherContainer *container_new(LauncherContainers *containers, const char *name)
{
    LauncherContainer *container = calloc(1, sizeof(*container));

    if (!container)
        return NULL;
    container->all = containers;
    snprintf(container->name, sizeof(container->name), "%s", name);
    HASH_ADD(by_name, containers->by_name, name[0], strlen(container->name), container);
    if (!container->by_name.tbl) {
        free(container);
        return NULL;
    }
    return container;
}

typedef int Getter(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events, void *userdata,
                   Container **ret, Problem *problem);

static int get(LauncherContainers *containers, const LauncherRequest *request, const SourcePaths *paths,
               int data, Getter *getter, Problem *problem)
{
    LauncherContainer *container = container_new(containers, request->container);
    ContainerSpec spec = {
        .name = request->container,
        .owner = containers->owner,
        .session = request->session,
        .image = request->image,
        .memory = request->memory,
        .cpus = request->cpus,
        .pids = request->pids,
        .largest_file = request->largest_file,
        .network = request->network,
        .session_dir = paths->session,
        .scratch_dir = paths->scratch,
        .link_dir = paths->link,
        .work = request->work,
        .data = data,
    };
    int r;

    if (!container)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = getter(containers->engine, &spec, &container_events, container, &container->base, problem);
    if (r < 0)
        container_free(container);
    return r;
}

static int create(LauncherContainers *containers, const LauncherRequest *request, int data, Problem *problem)
{
    SourcePaths paths;
    int r;

    if (HASH_CNT(by_name, containers->by_name) >= containers->most)
        return problem_set(problem, ERR_BUSY, "there are %zu containers already (option max_sessions)",
                           containers->most);
    r = sources_make(containers->sources, request, &paths, problem);
    if (r < 0)
        return r;
    r = get(containers, request, &paths, data, containers->engine->ops->create, problem);
    if (r < 0)
        sources_release(containers->sources, request->container);
    return r;
}

int containers_create(LauncherContainers *containers, const LauncherRequest *request, int data)
{
    Problem problem = PROBLEM_NULL;

    if (find(containers, request->container))
        return -EBADMSG;
    if (create(containers, request, data, &problem) < 0)
        containers->events->failed(containers, request->container, &problem);
    return 0;
}

/* To a controller that has missed it. */
static void tell(LauncherContainers *containers, const LauncherContainer *container)
{
    Problem problem = PROBLEM_NULL;

    if (container->removing)
        problem_set(&problem, ERR_ENGINE_ERROR, "it is being removed");
    if (container->removing)
        containers->events->failed(containers, container->name, &problem);
    else if (container->state == CONTAINER_STARTED)
        containers->events->started(containers, container);
    else if (container->state != CONTAINER_STARTING)
        containers->events->failed(containers, container->name, &container->problem);
}

int containers_adopt(LauncherContainers *containers, const LauncherRequest *request)
{
    static const SourcePaths none;
    Problem problem = PROBLEM_NULL;
    LauncherContainer *container = find(containers, request->container);

    if (container && !container->orphan)
        return -EBADMSG;
    if (container) {
        container->orphan = false;
        tell(containers, container);
    } else if (get(containers, request, &none, -1, containers->engine->ops->adopt, &problem) < 0) {
        containers->events->failed(containers, request->container, &problem);
    }
    return 0;
}

/* Removes a container. One that could not even be begun is as good as removed. */
int containers_remove(LauncherContainers *containers, const char *name)
{
    LauncherContainer *container = find(containers, name);

    if (container && !container->orphan)
        remove_container(container);
    else
        containers->events->removed(containers, name);
    return 0;
}

/* Leaves a container, which is known here as long as we run: the next controller need not look for it. */
int containers_leave(LauncherContainers *containers, const char *name)
{
    LauncherContainer *container = find(containers, name);

    if (!container || container->orphan)
        return -EBADMSG;
    container->orphan = true;
    return 0;
}

/* NULL with the problem set when it does not run. */
static LauncherContainer *find_running(LauncherContainers *containers, const char *name, Problem *problem)
{
    LauncherContainer *container = find(containers, name);

    if (container && !container->orphan && container->state == CONTAINER_STARTED && !container->removing)
        return container;
    problem_set(problem, ERR_ENGINE_ERROR, "the container has ended");
    return NULL;
}

int containers_attach(LauncherContainers *containers, const char *name, int data, Problem *problem)
{
    LauncherContainer *container = find_running(containers, name, problem);

    return container ? containers->engine->ops->attach_data(container->base, data, NULL, problem) : -ESRCH;
}

int containers_attach_packages(LauncherContainers *containers, const char *name, const char *packages,
                               Problem *problem)
{
    LauncherContainer *container = find_running(containers, name, problem);

    return container ? containers->engine->ops->attach_packages(container->base, packages, NULL, problem)
                     : -ESRCH;
}

void containers_orphan(LauncherContainers *containers)
{
    LauncherContainer *container, *next;

    HASH_ITER (by_name, containers->by_name, container, next)
        container->orphan = true;
    containers->sweep_again = false;
}

bool containers_leave_all(LauncherContainers *containers)
{
    LauncherContainer *container, *next;

    HASH_ITER (by_name, containers->by_name, container, next) {
        if (container->state != CONTAINER_STARTED || container->removing)
            continue;
        containers->engine->ops->leave(container->base);
        HASH_DELETE(by_name, containers->by_name, container);
        free(container);
    }
    return !containers->by_name;
}
