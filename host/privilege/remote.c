#include "host/privilege/remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <uthash.h>

#include "host/engine/cgroup.h"
#include "host/engine/image.h"
#include "host/files/access.h"
#include "host/privilege/launcher_protocol.h"
#include "host/ipc/ipc.h"
#include "proto/base/log.h"

typedef struct RemoteContainer {
    Container container;
    UT_hash_handle by_name;
    char name[64];
    List attachments; /* AttachQuestion: those that have no answer */
    bool started, removing;
    int idle; /* descriptor that set_idle writes to, or -1 */
    Cgroup memory, time;
} RemoteContainer;

/* A question whose answer says no more than that something is attached to a container. */
typedef struct AttachQuestion {
    IpcQuestion question;
    List link; /* RemoteContainer.attachments */
    AttachDone attached;
    bool *refused; /* set where no container can have it; NULL: nobody asks */
} AttachQuestion;

/* A directory that is being opened for a user. */
typedef struct DirectoryQuestion {
    IpcQuestion question;
    List link; /* Remote.directories */
    OpenDone *done;
    void *userdata;
} DirectoryQuestion;

struct Remote {
    Engine engine;
    EngineOps ops;
    Ipc ipc;
    EngineConfig config;
    RemoteContainer *by_name;
    bool refuses_data; /* no container that runs can have data */
    int clients;
    int keys; /* keys to let in over a network, until they are taken */
    char name[16], image[256], no_disks[PROBLEM_TEXT_MAX];
    void (*sweep_done)(void *userdata, unsigned removed);
    void *sweep_userdata;
    void (*log_moved)(void *userdata);
    void *log_userdata;
    void (*keys_changed)(void *userdata, int keys);
    void *keys_userdata;
    int (*client_of)(void *userdata, uid_t user);
    void *client_userdata;
    List directories; /* DirectoryQuestion: that are being opened */
};

static inline Remote *remote_of(Engine *engine)
{
    return container_of(engine, Remote, engine);
}

static inline RemoteContainer *remote_container(Container *container)
{
    return container_of(container, RemoteContainer, container);
}

/* ---- questions ---- */

/* Nobody repeats it: without memory for it we end, and whoever comes next adopts what there is. */
static void remote_say(Remote *remote, LauncherKind kind, const Schema *schema, const void *body)
{
    int r = ipc_send(&remote->ipc, kind, 0, schema, body, NULL, 0);

    if (r < 0)
        ipc_lose(&remote->ipc, r);
}

static void directory_free(DirectoryQuestion *directory)
{
    ipc_question_drop(&directory->question);
    list_remove(&directory->link);
    free(directory);
}

static void remote_free(Remote *remote)
{
    open_as_set(NULL, NULL);
    while (!list_empty(&remote->directories))
        directory_free(list_entry(list_first(&remote->directories), DirectoryQuestion, link));
    ipc_close(&remote->ipc);
    close_fd(&remote->clients);
    close_fd(&remote->keys);
    free(remote);
}

/* ---- the engine ---- */

static RemoteContainer *remote_find(const Remote *remote, Text name)
{
    RemoteContainer *container = NULL;

    HASH_FIND(by_name, remote->by_name, name.data, name.size, container);
    return container;
}

static void attachment_free(AttachQuestion *attachment)
{
    ipc_question_drop(&attachment->question);
    list_remove(&attachment->link);
    free(attachment);
}

static void remote_container_free(RemoteContainer *container)
{
    AttachQuestion *attachment;

    list_foreach (attachment, &container->attachments, AttachQuestion, link)
        attachment_free(attachment);
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
    list_init(&container->attachments);
    snprintf(container->name, sizeof(container->name), "%s", name);
    HASH_ADD(by_name, remote->by_name, name[0], strlen(container->name), container);
    if (!container->by_name.tbl) {
        free(container);
        return NULL;
    }
    return container;
}

static void say_name(RemoteContainer *container, LauncherKind kind)
{
    LauncherMsgName name = {.container = text_of(container->name)};

    remote_say(remote_of(container->container.engine), kind, SCHEMA(LauncherMsgName), &name);
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

static int get(Engine *engine, LauncherKind kind, const ContainerSpec *spec, const ContainerEvents *events,
               void *userdata, Container **ret, Problem *problem)
{
    Remote *remote = remote_of(engine);
    LauncherMsgContainer wanted = {
        .container = text_of(spec->name),
        .session = text_of(spec->session),
        .directory = part(spec->session_dir, remote->config.state_dir, "/sessions/", "/files"),
        .link = text_of(strrchr(spec->link_dir, '/') + 1),
        .image = text_of(spec->image),
        .network = text_of(spec->network),
        .data = kind == LAUNCHER_CREATE && spec->data >= 0,
        .work = spec->work,
        .memory = spec->memory,
        .pids = spec->pids,
        .largest_file = spec->largest_file,
        .cpus = spec->cpus,
    };
    RemoteContainer *container = container_new(remote, spec->name, events, userdata);
    int r = container ? ipc_send(&remote->ipc, kind, 0, SCHEMA(LauncherMsgContainer), &wanted, &spec->data,
                                 wanted.data)
                      : -ENOMEM;

    if (r == -EPIPE)
        launcher_lost(&remote->ipc, r); /* a refusal would end a session that the next controller can adopt */
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
    return get(engine, LAUNCHER_CREATE, spec, events, userdata, ret, problem);
}

static int remote_adopt(Engine *engine, const ContainerSpec *spec, const ContainerEvents *events,
                        void *userdata, Container **ret, Problem *problem)
{
    return get(engine, LAUNCHER_ADOPT, spec, events, userdata, ret, problem);
}

static void remote_remove(Container *base)
{
    if (!remote_container(base)->removing)
        say_name(remote_container(base), LAUNCHER_REMOVE);
    remote_container(base)->removing = true;
}

static void remote_leave(Container *base)
{
    say_name(remote_container(base), LAUNCHER_LEAVE);
    remote_container_free(remote_container(base));
}

/* ---- what is attached ---- */

static void end_attachment(AttachQuestion *attachment, int result, const Problem *problem)
{
    const AttachDone attached = attachment->attached;

    attachment_free(attachment);
    attached.done(attached.userdata, result, problem);
}

static void on_attached(IpcQuestion *question, int error, IpcAnswer *answer)
{
    AttachQuestion *attachment = container_of(question, AttachQuestion, question);
    Problem problem = PROBLEM_NULL;
    int r;

    if (error == -EPIPE)
        launcher_lost(NULL, error);
    r = error < 0 ? problem_set(&problem, ERR_INTERNAL, "the launcher does not answer: %s", strerror(-error))
                  : launcher_answered(answer, &problem);
    if (r == -EOPNOTSUPP && attachment->refused)
        *attachment->refused = true;
    end_attachment(attachment, r, &problem);
}

static void attachments_end(RemoteContainer *container)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_ENGINE_ERROR, "the container has ended");
    while (!list_empty(&container->attachments))
        end_attachment(list_entry(list_first(&container->attachments), AttachQuestion, link), -ESRCH,
                       &problem);
}

static int attach(Container *base, LauncherKind kind, const Schema *schema, const void *body, int descriptor,
                  const AttachDone *attached, bool *refused, Problem *problem)
{
    Remote *remote = remote_of(base->engine);
    AttachQuestion *attachment = calloc(1, sizeof(*attachment));
    int r = attachment ? ipc_ask_later(&remote->ipc, &attachment->question, kind, schema, body, &descriptor,
                                       descriptor >= 0, on_attached)
                       : -ENOMEM;

    if (r == -EPIPE)
        launcher_lost(&remote->ipc, r);
    if (r < 0) {
        free(attachment);
        return problem_set(problem, ERR_INTERNAL, "the launcher cannot be asked: %s", strerror(-r));
    }
    attachment->attached = *attached;
    attachment->refused = refused;
    list_append(&remote_container(base)->attachments, &attachment->link);
    return ATTACH_ASKED;
}

static int remote_attach_data(Container *base, int data, const AttachDone *attached, Problem *problem)
{
    LauncherMsgName name = {.container = text_of(remote_container(base)->name)};
    bool *refused = &remote_of(base->engine)->refuses_data;

    if (*refused) {
        problem_set(problem, ERR_ENGINE_ERROR, "no data directory can be added to a running container here");
        return -EOPNOTSUPP;
    }
    return attach(base, LAUNCHER_ATTACH, SCHEMA(LauncherMsgName), &name, data, attached, refused, problem);
}

static int remote_attach_packages(Container *base, const char *name, const AttachDone *attached,
                                  Problem *problem)
{
    LauncherMsgPackages packages = {.container = text_of(remote_container(base)->name),
                                    .packages = text_of(name)};

    return attach(base, LAUNCHER_PACKAGES, SCHEMA(LauncherMsgPackages), &packages, -1, attached, NULL,
                  problem);
}

/* ---- what it says of itself ---- */

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
    LauncherMsgNothing nothing = {0};

    remote->sweep_done = done;
    remote->sweep_userdata = userdata;
    remote_say(remote, LAUNCHER_SWEEP, SCHEMA(LauncherMsgNothing), &nothing);
}

/* Reads names here where they may get another meaning: from links that everybody may read. */
static const char *remote_image(Engine *engine, const char *name)
{
    Remote *remote = remote_of(engine);

    if (strcmp(remote->name, "oci") != 0)
        return *name ? name : remote->image;
    image_resolve(&remote->config, name, remote->image, sizeof(remote->image));
    return remote->image;
}

static void remote_close(Engine *engine)
{
    remote_free(remote_of(engine));
}

/* Sets the operations of the engine, as the launcher describes it. */
static void remote_set_ops(Remote *remote, bool isolates, bool first_process)
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
        .image = remote_image,
    };
    remote->engine.ops = &remote->ops;
}

/* ---- what the launcher tells ---- */

static void set_group(Cgroup *cgroup, Text directory, bool unified)
{
    *cgroup = (Cgroup){.directory = directory.data ? text_dup(directory) : NULL, .unified = unified};
}

static int on_started(Remote *remote, const msgpack_object_map *body, Descriptors *descriptors,
                      Problem *problem)
{
    LauncherMsgStarted started;
    RemoteContainer *container;

    if (body_decode(&started, LauncherMsgStarted, body, problem) < 0)
        return -EBADMSG;
    container = remote_find(remote, started.container);
    if (!container || container->started)
        return 0;
    container->started = true;
    container->idle = descriptors_take(descriptors, 0);
    set_group(&container->memory, started.memory, started.memory_unified);
    set_group(&container->time, started.time, started.time_unified);
    if (!container->removing)
        container->container.events.started(&container->container, container->container.userdata,
                                            (pid_t)started.first_process);
    return 0;
}

static int on_failed(Remote *remote, LauncherKind kind, const msgpack_object_map *body, Problem *problem)
{
    Problem told = PROBLEM_NULL;
    RemoteContainer *container;
    Container *base;
    LauncherMsgFailed failed;

    if (body_decode(&failed, LauncherMsgFailed, body, problem) < 0)
        return -EBADMSG;
    container = remote_find(remote, failed.container);
    if (!container || container->removing)
        return 0;
    base = &container->container;
    problem_set(&told, (ErrorCode)failed.code, "%.*s", (int)failed.text.size, failed.text.data);
    if (kind == LAUNCHER_GONE)
        base->events.gone(base, base->userdata, told.text);
    else
        base->events.failed(base, base->userdata, &told);
    return 0;
}

static int on_removed(Remote *remote, const msgpack_object_map *body, Problem *problem)
{
    void (*removed)(void *userdata);
    RemoteContainer *container;
    LauncherMsgName name;
    void *userdata;

    if (body_decode(&name, LauncherMsgName, body, problem) < 0)
        return -EBADMSG;
    container = remote_find(remote, name.container);
    if (!container)
        return 0;
    attachments_end(container);
    removed = container->container.events.removed;
    userdata = container->container.userdata;
    remote_container_free(container);
    removed(userdata);
    return 0;
}

static int on_swept(Remote *remote, const msgpack_object_map *body, Problem *problem)
{
    void (*done)(void *userdata, unsigned removed) = remote->sweep_done;
    LauncherMsgSwept swept;

    if (body_decode(&swept, LauncherMsgSwept, body, problem) < 0)
        return -EBADMSG;
    remote->sweep_done = NULL;
    if (done) /* otherwise it was an earlier controller's */
        done(remote->sweep_userdata, (unsigned)swept.removed);
    return 0;
}

static int on_log(Remote *remote, Descriptors *descriptors)
{
    int log _cleanup_(closep) = descriptors_take(descriptors, 0);

    if (log < 0 || dup2(log, STDERR_FILENO) < 0)
        return -EBADMSG;
    if (remote->log_moved)
        remote->log_moved(remote->log_userdata);
    return 0;
}

void remote_on_log(Remote *remote, void (*moved)(void *userdata), void *userdata)
{
    remote->log_moved = moved;
    remote->log_userdata = userdata;
}

static int on_keys(Remote *remote, Descriptors *descriptors)
{
    int keys _cleanup_(closep) = descriptors_take(descriptors, 0);

    if (keys < 0 || !remote->keys_changed)
        return -EBADMSG;
    remote->keys_changed(remote->keys_userdata, take_fd(&keys));
    return 0;
}

void remote_on_keys(Remote *remote, void (*changed)(void *userdata, int keys), void *userdata)
{
    remote->keys_changed = changed;
    remote->keys_userdata = userdata;
}

void remote_on_open(Remote *remote, int (*client_of)(void *userdata, uid_t user), void *userdata)
{
    remote->client_of = client_of;
    remote->client_userdata = userdata;
}

static int on_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    Remote *remote = container_of(ipc, Remote, ipc);
    Problem problem = PROBLEM_NULL;

    switch ((LauncherKind)message->kind) {
    case LAUNCHER_STARTED:
        return on_started(remote, &message->body, descriptors, &problem);
    case LAUNCHER_FAILED:
    case LAUNCHER_GONE:
        return on_failed(remote, (LauncherKind)message->kind, &message->body, &problem);
    case LAUNCHER_REMOVED:
        return on_removed(remote, &message->body, &problem);
    case LAUNCHER_SWEPT:
        return on_swept(remote, &message->body, &problem);
    case LAUNCHER_LOG:
        return on_log(remote, descriptors);
    case LAUNCHER_KEYS:
        return on_keys(remote, descriptors);
    default:
        return -EBADMSG;
    }
}

static const IpcEvents ipc_events = {.message = on_message, .lost = launcher_lost};

/* ---- directories of users ---- */

static void on_directory(IpcQuestion *question, int error, IpcAnswer *answer)
{
    DirectoryQuestion *directory = container_of(question, DirectoryQuestion, question);
    OpenDone *done = directory->done;
    void *userdata = directory->userdata;
    Problem problem = PROBLEM_NULL;
    int r = error < 0 ? error : launcher_answered(answer, &problem);
    int fd = r < 0 ? -1 : descriptors_take(&answer->descriptors, 0);

    directory_free(directory);
    done(userdata, r < 0 ? r : fd < 0 ? -EBADMSG : fd);
}

/* For reading alone: nothing else is asked for. */
static int open_for_user(void *userdata, uid_t user, const char *path, OpenDone *done, void *done_userdata)
{
    LauncherMsgOpen wanted = {.user = user, .path = text_of(path)};
    Remote *remote = userdata;
    int client = remote->client_of ? remote->client_of(remote->client_userdata, user) : -1, r;
    DirectoryQuestion *directory = client < 0 ? NULL : calloc(1, sizeof(*directory));

    if (!directory)
        return client < 0 ? -EACCES : -ENOMEM;
    directory->done = done;
    directory->userdata = done_userdata;
    list_append(&remote->directories, &directory->link);
    r = ipc_ask_later(&remote->ipc, &directory->question, LAUNCHER_OPEN, SCHEMA(LauncherMsgOpen), &wanted,
                      &client, 1, on_directory);
    if (r < 0)
        directory_free(directory);
    return r;
}

/* ---- the processes that are connected to others ---- */

static int start_process(Remote *remote, LauncherKind kind, int socket)
{
    return ipc_send(&remote->ipc, kind, 0, SCHEMA(LauncherMsgNothing), &(LauncherMsgNothing){0}, &socket, 1);
}

int remote_start_egress(Remote *remote, int socket)
{
    return start_process(remote, LAUNCHER_EGRESS, socket);
}

int remote_start_net(Remote *remote, int socket)
{
    return start_process(remote, LAUNCHER_NET, socket);
}

/* ---- beginning ---- */

static void keep(char *ret, size_t size, Text text)
{
    snprintf(ret, size, "%.*s", (int)text.size, text.data ? text.data : "");
}

static int begin(Remote *remote, const char *engine, Problem *problem)
{
    IpcAnswer answer _cleanup_(ipc_answer_deinit) = IPC_ANSWER_NULL;
    LauncherMsgEngine adopted = {.engine = text_of(*engine ? engine : NULL)};
    LauncherMsgBegun begun = {0};
    int r = launcher_ask(&remote->ipc, LAUNCHER_BEGIN, SCHEMA(LauncherMsgEngine), &adopted, &answer, problem);

    if (r == 0)
        r = body_decode(&begun, LauncherMsgBegun, &answer.message.body, problem);
    if (r < 0)
        return r;
    keep(remote->name, sizeof(remote->name), begun.engine);
    keep(remote->image, sizeof(remote->image), begun.image);
    keep(remote->no_disks, sizeof(remote->no_disks), begun.no_disks);
    remote->clients = descriptors_take(&answer.descriptors, 0);
    remote->keys = descriptors_take(&answer.descriptors, 1);
    remote_set_ops(remote, begun.isolates, begun.first_process);
    return 0;
}

int remote_open(Remote **ret, Loop *loop, int socket, const EngineConfig *config, const char *engine,
                Problem *problem)
{
    Remote *remote = calloc(1, sizeof(*remote));
    int r;

    if (!remote) {
        close(socket);
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    remote->config = *config;
    remote->clients = remote->keys = -1;
    list_init(&remote->directories);
    r = ipc_open(&remote->ipc, loop, socket, &ipc_messages, &ipc_events);
    if (r < 0)
        problem_set(problem, ERR_INTERNAL, "the launcher cannot be talked to: %s", strerror(-r));
    else
        r = begin(remote, engine, problem);
    if (r < 0) {
        remote_free(remote);
        return r;
    }
    open_as_set(open_for_user, remote);
    *ret = remote;
    return 0;
}

Engine *remote_engine(Remote *remote)
{
    return &remote->engine;
}

int remote_take_clients(Remote *remote)
{
    return take_fd(&remote->clients);
}

int remote_take_keys(Remote *remote)
{
    return take_fd(&remote->keys);
}

const char *remote_no_disks(const Remote *remote)
{
    return *remote->no_disks ? remote->no_disks : NULL;
}

void remote_ready(Remote *remote)
{
    LauncherMsgNothing nothing = {0};

    remote_say(remote, LAUNCHER_READY, SCHEMA(LauncherMsgNothing), &nothing);
}

void remote_unable(int socket, const Problem *problem)
{
    LauncherMsgProblem told = {.code = (uint64_t)problem->code, .text = text_of(problem->text)};

    ipc_send_over(socket, LAUNCHER_UNABLE, SCHEMA(LauncherMsgProblem), &told, NULL, 0);
}
