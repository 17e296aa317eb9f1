/* Service of the launcher to the controller, and to the files worker, for which it makes, mounts and unmounts
 * disks; the directories that both work in. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "host/egress/process.h"
#include "host/engine/cgroup.h"
#include "host/files/access.h"
#include "host/files/beneath.h"
#include "host/files/disk.h"
#include "host/files/session_disk.h"
#include "host/launcher/internal.h"
#include "proto/base/log.h"

/* ---- directories ---- */

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
    static const char *const of_files_worker[] = {"sessions",       "outputs",  "removed",
                                                  "template-files", "packages", "memory-images"};
    const uid_t user = launcher->config->user.uid;
    int state = launcher->sources.state, r;

    r = make_directory(launcher->sources.runtime, LAUNCHER_LINKS, user);
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(of_controller); i++) {
        r = make_directory(state, of_controller[i], user);
        if (r == 0)
            r = give_files_away(state, of_controller[i], user);
    }
    for (size_t i = 0; r == 0 && i < ARRAY_SIZE(of_files_worker); i++)
        r = make_directory(state, of_files_worker[i], 0);
    return r;
}

/* ---- disks ---- */

/* Disks that are asked for at once. */
#define DISKS_MAX 1024

typedef struct DiskJob {
    WorkerJob job;
    Launcher *launcher;
    int session, socket;
    bool is_there; /* only to be mounted */
    DiskSize size;
    int result;
    Problem problem;
} DiskJob;

static void disk_run(WorkerJob *job)
{
    DiskJob *disk = container_of(job, DiskJob, job);

    disk->result = disk->is_there ? session_disk_mount(disk->session, &disk->problem)
                                  : session_disk_make(disk->session, disk->size, &disk->problem);
}

static void disk_free(DiskJob *disk)
{
    close_fd(&disk->session);
    free(disk);
}

/* Answers a question of that process with no more than that it is done, or why it is not. */
static void launcher_answer(pid_t asker, int socket, int r, const Problem *problem)
{
    LauncherMsgProblem refused = {
        .code = (uint64_t)problem->code, .text = text_of(problem->text), .error = (uint64_t)-r};
    LauncherMsgNothing done = {0};

    if (r < 0)
        ipc_answer(socket, asker, LAUNCHER_REFUSED, SCHEMA(LauncherMsgProblem), &refused, NULL, 0);
    else
        ipc_answer(socket, asker, LAUNCHER_DONE, SCHEMA(LauncherMsgNothing), &done, NULL, 0);
}

static void disk_done(WorkerJob *job)
{
    DiskJob *disk = container_of(job, DiskJob, job);

    disk->launcher->making--;
    launcher_answer(disk->launcher->files_worker.pid, disk->socket, disk->result, &disk->problem);
    disk_free(disk);
}

static int begin_disk(Launcher *launcher, const LauncherRequest *request, int socket)
{
    DiskJob *disk = launcher->making < DISKS_MAX ? calloc(1, sizeof(*disk)) : NULL;
    int r;

    if (!disk)
        return -EAGAIN;
    *disk = (DiskJob){.launcher = launcher,
                      .socket = socket,
                      .is_there = request->kind == LAUNCHER_MOUNT,
                      .size = request->disk};
    disk->session = sources_session(&launcher->sources, request->directory);
    r = disk->session < 0 ? disk->session : worker_submit(launcher->makers, &disk->job, disk_run, disk_done);
    if (r < 0)
        disk_free(disk);
    else
        launcher->making++;
    return r;
}

static void make_or_mount_disk(Launcher *launcher, const LauncherRequest *request, int socket)
{
    Problem problem = PROBLEM_NULL;
    int r = begin_disk(launcher, request, socket);

    if (r == 0)
        return;
    problem_set(&problem, ERR_INTERNAL, "the disk of the session cannot be had now: %s", strerror(-r));
    launcher_answer(launcher->files_worker.pid, socket, r, &problem);
}

static void detach_disk(Launcher *launcher, const LauncherRequest *request, int socket)
{
    int session _cleanup_(closep) = sources_session(&launcher->sources, request->directory);

    if (session >= 0)
        session_disk_detach(session);
    launcher_answer(launcher->files_worker.pid, socket, 0, &PROBLEM_NULL);
}

int launcher_on_files_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    Launcher *launcher = container_of(ipc, Launcher, files);
    const LauncherRequestRules rules = {launcher->config->paths->owner,
                                        launcher->config->options->allow_network};
    LauncherRequest request;

    if (launcher_request_read(&request, message, &rules) < 0 ||
        descriptors->n != launcher_request_descriptors(&request))
        return -EBADMSG;
    switch (request.kind) {
    case LAUNCHER_UNABLE:
        launcher->problem = request.problem;
        return 0;
    case LAUNCHER_DISK:
    case LAUNCHER_MOUNT:
        make_or_mount_disk(launcher, &request, descriptors_take(descriptors, 0));
        return 0;
    case LAUNCHER_DETACH:
        detach_disk(launcher, &request, descriptors_take(descriptors, 0));
        return 0;
    default:
        return -EBADMSG;
    }
}

static Launcher *launcher_of(LauncherContainers *containers)
{
    return container_of(containers, Launcher, containers);
}

/* ---- what it says ---- */

static void say(Launcher *launcher, LauncherKind kind, const Schema *schema, const void *body, const int *fds,
                size_t n)
{
    int r = launcher->ipc.file.loop ? ipc_send(&launcher->ipc, kind, 0, schema, body, fds, n) : 0;

    if (r < 0)
        ipc_lose(&launcher->ipc, r); /* lost, and so not said again */
}

static void on_started(LauncherContainers *containers, const LauncherContainer *container)
{
    ContainerGroups groups = containers->engine->ops->groups(container->base);
    int idle _cleanup_(closep) = cgroup_open_idle(groups.idle);
    LauncherMsgStarted started = {
        .container = text_of(container->name),
        .first_process = (uint64_t)container->first_process,
        .memory = text_of(groups.memory),
        .time = text_of(groups.time),
        .memory_unified = groups.memory_unified,
        .time_unified = groups.time_unified,
    };

    say(launcher_of(containers), LAUNCHER_STARTED, SCHEMA(LauncherMsgStarted), &started, &idle, idle >= 0);
}

static void say_failed(LauncherContainers *containers, LauncherKind kind, const char *name,
                       const Problem *problem)
{
    LauncherMsgFailed failed = {
        .container = text_of(name), .code = (uint64_t)problem->code, .text = text_of(problem->text)};

    say(launcher_of(containers), kind, SCHEMA(LauncherMsgFailed), &failed, NULL, 0);
}

static void on_failed(LauncherContainers *containers, const char *name, const Problem *problem)
{
    say_failed(containers, LAUNCHER_FAILED, name, problem);
}

static void on_gone(LauncherContainers *containers, const LauncherContainer *container)
{
    say_failed(containers, LAUNCHER_GONE, container->name, &container->problem);
}

static void on_removed(LauncherContainers *containers, const char *name)
{
    LauncherMsgName removed = {.container = text_of(name)};

    say(launcher_of(containers), LAUNCHER_REMOVED, SCHEMA(LauncherMsgName), &removed, NULL, 0);
}

static void on_swept(LauncherContainers *containers, unsigned removed)
{
    LauncherMsgSwept swept = {.removed = removed};

    say(launcher_of(containers), LAUNCHER_SWEPT, SCHEMA(LauncherMsgSwept), &swept, NULL, 0);
}

static const LauncherContainersEvents containers_events = {on_started, on_failed, on_gone, on_removed,
                                                           on_swept};

void launcher_say_log(Launcher *launcher)
{
    const int log = STDERR_FILENO;
    LauncherMsgNothing nothing = {0};

    say(launcher, LAUNCHER_LOG, SCHEMA(LauncherMsgNothing), &nothing, &log, 1);
    if (launcher->files.file.loop)
        ipc_send(&launcher->files, LAUNCHER_LOG, 0, SCHEMA(LauncherMsgNothing), &nothing, &log, 1);
}

/* ---- beginning ---- */

/* Chooses the engine, and refuses one that does not isolate: it would run what the controller chooses with
 * our rights. */
static const EngineOps *choose_engine(const LauncherConfig *config, const char *adopted, Problem *problem)
{
    const char *configured = config->options->engine, *name = *configured ? configured : adopted;
    const EngineOps *ops = *name ? engine_find(name) : engine_choose(&config->engine, problem);

    if (!ops && *name)
        problem_set(problem, ERR_BAD_REQUEST,
                    "there is no engine '%s'; the engines are oci, docker and local", name);
    if (!ops || ops->isolates)
        return ops;
    problem_set(
        problem, ERR_BAD_REQUEST,
        "%s has sessions of the engine '%s', which an earlier controller has left: start limpetd with "
        "--engine %s, and close them",
        config->paths->state_dir, name, name);
    return NULL;
}

static void look_for_disks(Launcher *launcher)
{
    Problem problem = PROBLEM_NULL;

    if (disk_check(launcher->config->paths->state_dir, &problem) < 0)
        snprintf(launcher->no_disks, sizeof(launcher->no_disks), "%s", problem.text);
}

static int listen_for_clients(Launcher *launcher, Problem *problem)
{
    const char *path = launcher->config->paths->socket;
    int r = unix_socket_listen(&launcher->clients, path);

    if (r == -EADDRINUSE)
        return problem_set(
            problem, ERR_UNAVAILABLE,
            "another controller answers on %s; use it, stop it, or set another socket with --socket", path);
    if (r == 0 && launcher->config->paths->group != NO_GROUP)
        r = unix_socket_admit(&launcher->clients, launcher->config->paths->group);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "cannot listen on %s: %s", path, strerror(-r)) : 0;
}

static int open_engine(Launcher *launcher, const char *adopted, Problem *problem)
{
    const LauncherConfig *config = launcher->config;
    const EngineOps *ops = choose_engine(config, adopted, problem);
    int r = ops ? ops->open(launcher->loop, &config->engine, &launcher->engine, problem) : -EPROTO;

    if (r < 0)
        return r;
    launcher->containers = (LauncherContainers){
        .engine = launcher->engine,
        .owner = config->paths->owner,
        .sources = &launcher->sources,
        .events = &containers_events,
        .most = 2 * (config->options->max_sessions + config->options->pool_limit) + 64,
    };
    look_for_disks(launcher);
    return listen_for_clients(launcher, problem);
}

static void begin(Launcher *launcher, const LauncherRequest *request, int socket)
{
    Problem problem = PROBLEM_NULL;
    LauncherMsgBegun begun;
    int r = launcher->engine ? 0 : open_engine(launcher, request->engine, &problem);

    if (r < 0) {
        launcher_answer(launcher->child.pid, socket, r, &problem);
        return;
    }
    begun = (LauncherMsgBegun){
        .engine = text_of(launcher->engine->ops->name),
        .isolates = launcher->engine->ops->isolates,
        .first_process = launcher->engine->ops->peer_is_first_process,
        .image = text_of(launcher->engine->ops->image(launcher->engine, "")),
        .no_disks = text_of(*launcher->no_disks ? launcher->no_disks : NULL),
    };
    const int given[] = {launcher->clients.fd, launcher->door.keys};

    ipc_answer(socket, launcher->child.pid, LAUNCHER_DONE, SCHEMA(LauncherMsgBegun), &begun, given,
               launcher->door.keys >= 0 ? 2 : 1);
}

static void ready(Launcher *launcher)
{
    if (!launcher->ready)
        launcher->config->ready(launcher->config->userdata);
    launcher->ready = true;
}

/* ---- /data ---- */

static int create(LauncherContainers *containers, const LauncherRequest *request, Descriptors *descriptors)
{
    int data _cleanup_(closep) = request->data ? descriptors_take(descriptors, 0) : -1;

    return containers_create(containers, request, data);
}

static void attach_data(Launcher *launcher, const LauncherRequest *request, Descriptors *descriptors)
{
    Problem problem = PROBLEM_NULL;
    int data _cleanup_(closep) = descriptors_take(descriptors, 0);
    int r = containers_attach(&launcher->containers, request->container, data, &problem);

    launcher_answer(launcher->child.pid, descriptors_take(descriptors, 1), r, &problem);
}

static void attach_packages(Launcher *launcher, const LauncherRequest *request, int socket)
{
    Problem problem = PROBLEM_NULL;
    int r =
        containers_attach_packages(&launcher->containers, request->container, request->packages, &problem);

    launcher_answer(launcher->child.pid, socket, r, &problem);
}

/* Returns whether a descriptor is a connection of a client of this user. The kernel says whose it is, and
 * that it was made at the socket of clients, where the controller cannot connect itself. Its other sockets
 * were made by root. */
static bool is_client_of(const Launcher *launcher, int fd, uid_t user)
{
    struct sockaddr_un at = {0}, from;
    struct ucred peer;
    int listens = 1;
    socklen_t at_size = sizeof(at), from_size = sizeof(from), peer_size = sizeof(peer),
              size = sizeof(listens);

    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && !listens &&
           getsockname(fd, (struct sockaddr *)&at, &at_size) == 0 && at.sun_family == AF_UNIX &&
           strncmp(at.sun_path, launcher->config->paths->socket, sizeof(at.sun_path)) == 0 &&
           getpeername(fd, (struct sockaddr *)&from, &from_size) == 0 &&
           getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) == 0 && peer.uid == user;
}

/* Likewise with a descriptor, or a negative errno. */
static void answer_with(const Launcher *launcher, int socket, int fd)
{
    const LauncherMsgNothing done = {0};

    if (fd < 0)
        launcher_answer(launcher->child.pid, socket, fd, &PROBLEM_NULL);
    else
        ipc_answer(socket, launcher->child.pid, LAUNCHER_DONE, SCHEMA(LauncherMsgNothing), &done, &fd, 1);
}

/* Directories that are being opened at once: as many threads. The controller has one of each user opened at a
 * time. */
#define OPENINGS_MAX 1024

/* A directory of the host that is opened for the controller. */
typedef struct DirectoryOpening {
    Launcher *launcher;
    int socket; /* for the answer */
} DirectoryOpening;

static void on_directory(void *userdata, int fd)
{
    DirectoryOpening *opening = userdata;
    int directory _cleanup_(closep) = fd;

    opening->launcher->opening--;
    answer_with(opening->launcher, opening->socket, directory);
    free(opening);
}

/* For reading, and only for a user who is connected. The file system may take as long as it likes. */
static void open_for_user(Launcher *launcher, const LauncherRequest *request, Descriptors *descriptors)
{
    int client _cleanup_(closep) = descriptors_take(descriptors, 0);
    bool may = is_client_of(launcher, client, request->user);
    DirectoryOpening *opening = may && launcher->opening < OPENINGS_MAX ? calloc(1, sizeof(*opening)) : NULL;
    int socket = descriptors_take(descriptors, 1), r = may ? -EAGAIN : -EACCES;

    if (opening) {
        *opening = (DirectoryOpening){.launcher = launcher, .socket = socket};
        r = open_as(launcher->loop, request->user, request->path, O_RDONLY | O_DIRECTORY, on_directory,
                    opening);
    }
    if (r == 0) {
        launcher->opening++;
        return;
    }
    free(opening);
    answer_with(launcher, socket, r);
}

/* The processes that reach the network, of which the launcher knows no more than that they run: each ends
 * with the socket that the controller has, or is ended for the next. Whoever has that sees the end of one
 * that could not be started. */
static int start_process(Launcher *launcher, LauncherKind kind, Descriptors *descriptors)
{
    const LauncherConfig *config = launcher->config;
    const char *level = config->options->log_level;
    int socket _cleanup_(closep) = descriptors_take(descriptors, 0), r;

    if (!ipc_is_made_by(socket, launcher->child.pid))
        return -EBADMSG;
    if (kind == LAUNCHER_EGRESS)
        r = egress_start(launcher->loop, &launcher->egress, &config->egress, level, socket);
    else
        r = net_start(launcher->loop, &launcher->net, &launcher->door, &config->net, level,
                      config->options->listen_connections, socket);
    if (r < 0)
        log_warn("process not started", "name=%s reason=%s", kind == LAUNCHER_EGRESS ? "egress" : "net",
                 strerror(-r));
    return 0;
}

/* ---- dispatching ---- */

static int serve(Launcher *launcher, const LauncherRequest *request, Descriptors *descriptors)
{
    LauncherContainers *containers = &launcher->containers;

    switch (request->kind) {
    case LAUNCHER_READY:
        ready(launcher);
        return 0;
    case LAUNCHER_CREATE:
        return create(containers, request, descriptors);
    case LAUNCHER_ADOPT:
        return containers_adopt(containers, request);
    case LAUNCHER_REMOVE:
        return containers_remove(containers, request->container);
    case LAUNCHER_LEAVE:
        return containers_leave(containers, request->container);
    case LAUNCHER_SWEEP:
        return containers_sweep(containers);
    case LAUNCHER_ATTACH:
        attach_data(launcher, request, descriptors);
        return 0;
    case LAUNCHER_PACKAGES:
        attach_packages(launcher, request, descriptors_take(descriptors, 0));
        return 0;
    case LAUNCHER_OPEN:
        open_for_user(launcher, request, descriptors);
        return 0;
    case LAUNCHER_EGRESS:
    case LAUNCHER_NET:
        return start_process(launcher, request->kind, descriptors);
    default:
        return -EBADMSG;
    }
}

int launcher_on_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    Launcher *launcher = container_of(ipc, Launcher, ipc);
    const LauncherRequestRules rules = {launcher->config->paths->owner,
                                        launcher->config->options->allow_network};
    LauncherRequest request;

    if (launcher_request_read(&request, message, &rules) < 0 ||
        descriptors->n != launcher_request_descriptors(&request))
        return -EBADMSG;
    if (request.kind == LAUNCHER_UNABLE) {
        launcher->problem = request.problem;
        return 0;
    }
    if ((request.kind == LAUNCHER_BEGIN) == launcher->begun)
        return -EBADMSG;
    if (launcher->begun)
        return launcher->engine ? serve(launcher, &request, descriptors) : -EBADMSG;
    launcher->begun = true;
    begin(launcher, &request, descriptors_take(descriptors, 0));
    return 0;
}
