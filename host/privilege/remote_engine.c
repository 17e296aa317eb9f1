/* The engine whose containers are in the launcher's hands. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/engine/image.h"
#include "host/privilege/asking.h"
#include "host/privilege/internal.h"

RemoteContainer *remote_find(const Remote *remote, Text name)
{
    RemoteContainer *container = NULL;

    HASH_FIND(by_name, remote->by_name, name.data, name.size, container);
    return container;
}

void remote_container_free(RemoteContainer *container)
{
    HASH_DELETE(by_name, remote_of(container->container.engine)->by_name, container);
    close_fd(&container->idle);
    cgroup_deinit(&container->memory);
    cgroup_deinit(&container->time);
    free(container);
}

static RemoteContainer *container_new(Remote *remote, const char *name, const ContainerEvents *events,
                                      void *userdata)
{
    RemoteContainer *container = calloc(1, sizeof(*container));

    if (!container)
        return NULL;
    container->container = (Container){&remote->engine, *events, userdata};
    container->idle = -1;
    snprintf(container->name, sizeof(container->name), "%s", name);
    HASH_ADD(by_name, remote->by_name, name[0], strlen(container->name), container);
    if (!container->by_name.tbl) {
        free(container);
        return NULL;
    }
    return container;
}

static void say_name(RemoteContainer *container, SeamKind kind)
{
    SeamName name = {.container = text_of(container->name)};

    remote_say(remote_of(container->container.engine), kind, SCHEMA(SeamName), &name);
}

/* Returns the part of a path between two others, "" where they are not there. The launcher makes the path
 * itself. */
static Text part(const char *path, const char *before, const char *between, const char *after)
{
    size_t b = strlen(before), m = strlen(between), a = strlen(after), n = strlen(path);

    if (n <= b + m + a || strncmp(path, before, b) != 0 || strncmp(path + b, between, m) != 0 ||
        strcmp(path + n - a, after) != 0)
        return (Text){"", 0};
    return (Text){path + b + m, n - b - m - a};
}

static int get(Engine *engine, SeamKind kind, const ContainerSpec *spec, const ContainerEvents *events,
               void *userdata, Container **ret, Problem *problem)
{
    Remote *remote = remote_of(engine);
    SeamContainer wanted = {
        .container = text_of(spec->name),
        .session = text_of(spec->session),
        .directory = part(spec->session_dir, remote->config.state_dir, "/sessions/", "/files"),
        .link = text_of(strrchr(spec->link_dir, '/') + 1),
        .image = text_of(spec->image),
        .network = text_of(spec->network),
        .data = kind == SEAM_CREATE && spec->data >= 0,
        .work = spec->work,
        .memory = spec->memory,
        .pids = spec->pids,
        .largest_file = spec->largest_file,
        .cpus = spec->cpus,
    };
    RemoteContainer *container = container_new(remote, spec->name, events, userdata);
    int r = container
                ? rpc_send(&remote->rpc, kind, 0, SCHEMA(SeamContainer), &wanted, &spec->data, wanted.data)
                : -ENOMEM;

    if (r == -EPIPE)
        launcher_lost(&remote->rpc, r); /* a refusal would end a session that the next controller can adopt */
    if (r < 0) {
        if (container)
            remote_container_free(container);
        return problem_set(problem, ERR_INTERNAL, "the launcher cannot be asked: %s", strerror(-r));
    }
    *ret = &container->container;
    return 0;
}

static int remote_create(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                         void *userdata, Container **ret, Problem *problem)
{
    return get(engine, SEAM_CREATE, spec, events, userdata, ret, problem);
}

static int remote_adopt(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                        void *userdata, Container **ret, Problem *problem)
{
    return get(engine, SEAM_ADOPT, spec, events, userdata, ret, problem);
}

static void remote_remove(Container *base)
{
    if (!remote_container(base)->removing)
        say_name(remote_container(base), SEAM_REMOVE);
    remote_container(base)->removing = true;
}

static void remote_leave(Container *base)
{
    say_name(remote_container(base), SEAM_LEAVE);
    remote_container_free(remote_container(base));
}

static int remote_attach_data(Container *base, int data, Problem *problem)
{
    SeamName name = {.container = text_of(remote_container(base)->name)};

    return remote_ask_for(remote_of(base->engine), SEAM_ATTACH, SCHEMA(SeamName), &name, data, problem);
}

static int remote_attach_packages(Container *base, const char *name, Problem *problem)
{
    SeamPackages packages = {.container = text_of(remote_container(base)->name), .packages = text_of(name)};

    return remote_ask_for(remote_of(base->engine), SEAM_PACKAGES, SCHEMA(SeamPackages), &packages, -1,
                          problem);
}

static int remote_memory(Container *base, uint64_t *ret_bytes, uint64_t *ret_oom_kills)
{
    return cgroup_read_memory(&remote_container(base)->memory, ret_bytes, ret_oom_kills);
}

static int remote_time(Container *base, uint64_t *ret_nsec)
{
    return cgroup_read_time(&remote_container(base)->time, ret_nsec);
}

static int remote_set_idle(Container *base, bool idle)
{
    if (remote_container(base)->idle < 0)
        return -ENOENT;
    return pwrite(remote_container(base)->idle, idle ? "1" : "0", 1, 0) < 0 ? -errno : 0;
}

static ContainerGroups remote_groups(Container *base)
{
    const RemoteContainer *container = remote_container(base);

    return (ContainerGroups){
        .memory = container->memory.directory,
        .time = container->time.directory,
        .memory_unified = container->memory.unified,
        .time_unified = container->time.unified,
    };
}

static void remote_sweep(Engine *engine, void (*done)(void *userdata, unsigned removed), void *userdata)
{
    Remote *remote = remote_of(engine);
    SeamNothing nothing = {0};

    remote->sweep_done = done;
    remote->sweep_userdata = userdata;
    remote_say(remote, SEAM_SWEEP, SCHEMA(SeamNothing), &nothing);
}

/* Returns the default image. Where it may change meanwhile it is read here: from a file that everybody may
 * read. */
static const char *remote_default_image(Engine *engine)
{
    Remote *remote = remote_of(engine);

    if (strcmp(remote->name, "oci") == 0)
        image_default(&remote->config, remote->image, sizeof(remote->image));
    return remote->image;
}

static void remote_close(Engine *engine)
{
    remote_free(remote_of(engine));
}

void remote_set_ops(Remote *remote, bool isolates, bool first_process)
{
    remote->ops = (EngineOps){
        .name = remote->name,
        .isolates = isolates,
        .peer_is_first_process = first_process,
        .close = remote_close,
        .create = remote_create,
        .adopt = remote_adopt,
        .remove = remote_remove,
        .leave = remote_leave,
        .attach_data = remote_attach_data,
        .attach_packages = remote_attach_packages,
        .sweep = remote_sweep,
        .memory = remote_memory,
        .time = remote_time,
        .set_idle = remote_set_idle,
        .groups = remote_groups,
        .default_image = remote_default_image,
    };
    remote->engine.ops = &remote->ops;
}
