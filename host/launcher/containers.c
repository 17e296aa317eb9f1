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

/* Mounts those of a demand. 0, or negative with the problem set and nothing mounted. */
static int sources_make(const Sources *sources, const Demand *demand, SourcePaths *ret, Problem *problem)
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

static Ward *find(const Wards *wards, const char *name)
{
    Ward *ward = NULL;

    HASH_FIND(by_name, wards->by_name, name, strlen(name), ward);
    return ward;
}

static void ward_free(Ward *ward)
{
    HASH_DELETE(by_name, ward->all->by_name, ward);
    sources_release(ward->all->sources, ward->name);
    free(ward);
}

/* ---- sweeping ---- */

static void begin_sweep(Wards *wards);

static void one_less(Wards *wards)
{
    if (--wards->to_sweep > 0)
        return;
    wards->sweeping = false;
    wards->events->swept(wards, wards->swept);
    if (wards->sweep_again)
        begin_sweep(wards);
}

static void on_engine_swept(void *userdata, unsigned removed)
{
    Wards *wards = userdata;

    wards->swept += removed;
    one_less(wards);
}

static bool is_known(void *userdata, const char *name)
{
    return find(userdata, name) != NULL;
}

static void remove_ward(Ward *ward)
{
    if (ward->removing)
        return;
    ward->removing = true;
    ward->all->engine->ops->remove(ward->container);
}

static void begin_sweep(Wards *wards)
{
    Ward *ward, *next;

    wards->sweeping = true;
    wards->sweep_again = false;
    wards->swept = 0;
    wards->to_sweep = 1; /* the engine's own */
    HASH_ITER (by_name, wards->by_name, ward, next) {
        if (!ward->orphan || ward->removing)
            continue;
        ward->swept = true;
        wards->swept++;
        wards->to_sweep++;
        remove_ward(ward);
    }
    sources_sweep(wards->sources, is_known, wards);
    wards->engine->ops->sweep(wards->engine, on_engine_swept, wards);
}

int wards_sweep(Wards *wards)
{
    if (wards->sweep_again)
        return -EBADMSG;
    if (wards->sweeping)
        wards->sweep_again = true; /* of an earlier controller */
    else
        begin_sweep(wards);
    return 0;
}

/* ---- what the engine tells ---- */

static void on_started(Container *container, void *userdata, pid_t first_process)
{
    Ward *ward = userdata;

    sources_release(ward->all->sources, ward->name);
    ward->state = WARD_STARTED;
    ward->first_process = first_process;
    if (!ward->orphan)
        ward->all->events->started(ward->all, ward);
}

static void on_failed(Container *container, void *userdata, const Problem *problem)
{
    Ward *ward = userdata;

    sources_release(ward->all->sources, ward->name);
    ward->state = WARD_FAILED;
    ward->problem = *problem;
    if (!ward->orphan)
        ward->all->events->failed(ward->all, ward->name, problem);
}

static void on_gone(Container *container, void *userdata, const char *why)
{
    Ward *ward = userdata;

    ward->state = WARD_GONE;
    problem_set(&ward->problem, ERR_ENGINE_ERROR, "%s", why);
    if (!ward->orphan)
        ward->all->events->gone(ward->all, ward);
}

static void on_removed(void *userdata)
{
    Ward *ward = userdata;
    Wards *wards = ward->all;
    bool swept = ward->swept;

    if (!ward->orphan)
        wards->events->removed(wards, ward->name);
    ward_free(ward);
    if (swept)
        one_less(wards);
}

static const ContainerEvents container_events = {on_started, on_failed, on_gone, on_removed};

/* ---- what the controller asks for ---- */

static Ward *ward_new(Wards *wards, const char *name)
{
    Ward *ward = calloc(1, sizeof(*ward));

    if (!ward)
        return NULL;
    ward->all = wards;
    snprintf(ward->name, sizeof(ward->name), "%s", name);
    HASH_ADD(by_name, wards->by_name, name[0], strlen(ward->name), ward);
    if (!ward->by_name.tbl) {
        free(ward);
        return NULL;
    }
    return ward;
}

typedef int Getter(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events, void *userdata,
                   Container **ret, Problem *problem);

static int get(Wards *wards, const Demand *demand, const SourcePaths *paths, int data, Getter *getter,
               Problem *problem)
{
    Ward *ward = ward_new(wards, demand->container);
    ContainerSpec spec = {
        .name = demand->container,
        .owner = wards->owner,
        .session = demand->session,
        .image = demand->image,
        .memory = demand->memory,
        .cpus = demand->cpus,
        .pids = demand->pids,
        .largest_file = demand->largest_file,
        .network = demand->network,
        .session_dir = paths->session,
        .scratch_dir = paths->scratch,
        .link_dir = paths->link,
        .work = demand->work,
        .data = data,
    };
    int r;

    if (!ward)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    r = getter(wards->engine, &spec, &container_events, ward, &ward->container, problem);
    if (r < 0)
        ward_free(ward);
    return r;
}

static int create(Wards *wards, const Demand *demand, int data, Problem *problem)
{
    SourcePaths paths;
    int r;

    if (HASH_CNT(by_name, wards->by_name) >= wards->most)
        return problem_set(problem, ERR_BUSY, "there are %zu containers already (option max_sessions)",
                           wards->most);
    r = sources_make(wards->sources, demand, &paths, problem);
    if (r < 0)
        return r;
    r = get(wards, demand, &paths, data, wards->engine->ops->create, problem);
    if (r < 0)
        sources_release(wards->sources, demand->container);
    return r;
}

int wards_create(Wards *wards, const Demand *demand, int data)
{
    Problem problem = PROBLEM_NULL;

    if (find(wards, demand->container))
        return -EBADMSG;
    if (create(wards, demand, data, &problem) < 0)
        wards->events->failed(wards, demand->container, &problem);
    return 0;
}

/* To a controller that has missed it. */
static void tell(Wards *wards, const Ward *ward)
{
    Problem problem = PROBLEM_NULL;

    if (ward->removing)
        problem_set(&problem, ERR_ENGINE_ERROR, "it is being removed");
    if (ward->removing)
        wards->events->failed(wards, ward->name, &problem);
    else if (ward->state == WARD_STARTED)
        wards->events->started(wards, ward);
    else if (ward->state != WARD_STARTING)
        wards->events->failed(wards, ward->name, &ward->problem);
}

int wards_adopt(Wards *wards, const Demand *demand)
{
    static const SourcePaths none;
    Problem problem = PROBLEM_NULL;
    Ward *ward = find(wards, demand->container);

    if (ward && !ward->orphan)
        return -EBADMSG;
    if (ward) {
        ward->orphan = false;
        tell(wards, ward);
    } else if (get(wards, demand, &none, -1, wards->engine->ops->adopt, &problem) < 0) {
        wards->events->failed(wards, demand->container, &problem);
    }
    return 0;
}

/* Removes a container. One that could not even be begun is as good as removed. */
int wards_remove(Wards *wards, const char *name)
{
    Ward *ward = find(wards, name);

    if (ward && !ward->orphan)
        remove_ward(ward);
    else
        wards->events->removed(wards, name);
    return 0;
}

/* Leaves a container, which is known here as long as we run: the next controller need not look for it. */
int wards_leave(Wards *wards, const char *name)
{
    Ward *ward = find(wards, name);

    if (!ward || ward->orphan)
        return -EBADMSG;
    ward->orphan = true;
    return 0;
}

/* NULL with the problem set when it does not run. */
static Ward *find_running(Wards *wards, const char *name, Problem *problem)
{
    Ward *ward = find(wards, name);

    if (ward && !ward->orphan && ward->state == WARD_STARTED && !ward->removing)
        return ward;
    problem_set(problem, ERR_ENGINE_ERROR, "the container has ended");
    return NULL;
}

int wards_attach(Wards *wards, const char *name, int data, Problem *problem)
{
    Ward *ward = find_running(wards, name, problem);

    return ward ? wards->engine->ops->attach_data(ward->container, data, problem) : -ESRCH;
}

int wards_attach_packages(Wards *wards, const char *name, const char *packages, Problem *problem)
{
    Ward *ward = find_running(wards, name, problem);

    return ward ? wards->engine->ops->attach_packages(ward->container, packages, problem) : -ESRCH;
}

void wards_orphan(Wards *wards)
{
    Ward *ward, *next;

    HASH_ITER (by_name, wards->by_name, ward, next)
        ward->orphan = true;
    wards->sweep_again = false;
}

bool wards_leave_all(Wards *wards)
{
    Ward *ward, *next;

    HASH_ITER (by_name, wards->by_name, ward, next) {
        if (ward->state != WARD_STARTED || ward->removing)
            continue;
        wards->engine->ops->leave(ward->container);
        HASH_DELETE(by_name, wards->by_name, ward);
        free(ward);
    }
    return !wards->by_name;
}
