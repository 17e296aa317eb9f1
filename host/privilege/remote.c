#include "host/privilege/remote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/files/access.h"
#include "host/privilege/asking.h"
#include "host/privilege/internal.h"
#include "host/privilege/packet.h"
#include "proto/base/log.h"

/* ---- questions ---- */

/* Asks a question whose answer says no more than that it is done. */
int remote_ask_for(const Remote *remote, SeamKind kind, const Schema *schema, const void *body,
                   int descriptor, Problem *problem)
{
    RpcAnswer answer _cleanup_(rpc_answer_deinit) = RPC_ANSWER_NULL;

    return launcher_ask(&remote->rpc, kind, schema, body, descriptor, &answer, problem);
}

/* Nobody repeats it: without memory for it we end, and whoever comes next adopts what there is. */
void remote_say(Remote *remote, SeamKind kind, const Schema *schema, const void *body)
{
    int r = rpc_send(&remote->rpc, kind, 0, schema, body, NULL, 0);

    if (r < 0)
        rpc_lose(&remote->rpc, r);
}

void remote_free(Remote *remote)
{
    open_as_set(NULL, NULL);
    rpc_close(&remote->rpc);
    close_fd(&remote->clients);
    close_fd(&remote->keys);
    free(remote);
}

/* ---- what the launcher tells ---- */

static void set_group(Cgroup *cgroup, Text directory, bool unified)
{
    *cgroup = (Cgroup){.directory = directory.data ? text_dup(directory) : NULL, .unified = unified};
}

static int on_started(Remote *remote, const msgpack_object_map *body, Descriptors *descriptors,
                      Problem *problem)
{
    SeamStarted started;
    RemoteContainer *container;

    if (body_decode(&started, SeamStarted, body, problem) < 0)
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

static int on_failed(Remote *remote, SeamKind kind, const msgpack_object_map *body, Problem *problem)
{
    Problem told = PROBLEM_NULL;
    RemoteContainer *container;
    Container *base;
    SeamFailed failed;

    if (body_decode(&failed, SeamFailed, body, problem) < 0)
        return -EBADMSG;
    container = remote_find(remote, failed.container);
    if (!container || container->removing)
        return 0;
    base = &container->container;
    problem_set(&told, (ErrorCode)failed.code, "%.*s", (int)failed.text.size, failed.text.data);
    if (kind == SEAM_GONE)
        base->events.gone(base, base->userdata, told.text);
    else
        base->events.failed(base, base->userdata, &told);
    return 0;
}

static int on_removed(Remote *remote, const msgpack_object_map *body, Problem *problem)
{
    void (*removed)(void *userdata);
    RemoteContainer *container;
    SeamName name;
    void *userdata;

    if (body_decode(&name, SeamName, body, problem) < 0)
        return -EBADMSG;
    container = remote_find(remote, name.container);
    if (!container)
        return 0;
    removed = container->container.events.removed;
    userdata = container->container.userdata;
    remote_container_free(container);
    removed(userdata);
    return 0;
}

static int on_swept(Remote *remote, const msgpack_object_map *body, Problem *problem)
{
    void (*done)(void *userdata, unsigned removed) = remote->sweep_done;
    SeamSwept swept;

    if (body_decode(&swept, SeamSwept, body, problem) < 0)
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

static int on_message(Rpc *rpc, const Message *message, Descriptors *descriptors)
{
    Remote *remote = container_of(rpc, Remote, rpc);
    Problem problem = PROBLEM_NULL;

    switch ((SeamKind)message->kind) {
    case SEAM_STARTED:
        return on_started(remote, &message->body, descriptors, &problem);
    case SEAM_FAILED:
    case SEAM_GONE:
        return on_failed(remote, (SeamKind)message->kind, &message->body, &problem);
    case SEAM_REMOVED:
        return on_removed(remote, &message->body, &problem);
    case SEAM_SWEPT:
        return on_swept(remote, &message->body, &problem);
    case SEAM_LOG:
        return on_log(remote, descriptors);
    case SEAM_KEYS:
        return on_keys(remote, descriptors);
    default:
        return -EBADMSG;
    }
}

static const RpcEvents rpc_events = {on_message, launcher_lost};

/* ---- directories of users ---- */

/* For reading alone: nothing else is asked for. */
static int open_for_user(void *userdata, uid_t user, const char *path)
{
    RpcAnswer answer _cleanup_(rpc_answer_deinit) = RPC_ANSWER_NULL;
    SeamOpen wanted = {.user = user, .path = text_of(path)};
    Problem problem = PROBLEM_NULL;
    const Remote *remote = userdata;
    int client = remote->client_of ? remote->client_of(remote->client_userdata, user) : -1, r;

    if (client < 0)
        return -EACCES;
    r = launcher_ask(&remote->rpc, SEAM_OPEN, SCHEMA(SeamOpen), &wanted, client, &answer, &problem);
    if (r < 0)
        return r;
    r = descriptors_take(&answer.descriptors, 0);
    return r < 0 ? -EBADMSG : r;
}

/* ---- the processes that are connected to others ---- */

static int start_process(Remote *remote, SeamKind kind, int *ret_socket)
{
    RpcAnswer answer _cleanup_(rpc_answer_deinit) = RPC_ANSWER_NULL;
    Problem problem = PROBLEM_NULL;
    int r = launcher_ask(&remote->rpc, kind, SCHEMA(SeamNothing), &(SeamNothing){0}, -1, &answer, &problem);
    int socket;

    if (r < 0)
        return r;
    socket = descriptors_take(&answer.descriptors, 0);
    if (socket < 0)
        return -EBADMSG;
    *ret_socket = socket;
    return 0;
}

int remote_start_egress(Remote *remote, int *ret_socket)
{
    return start_process(remote, SEAM_EGRESS, ret_socket);
}

int remote_start_net(Remote *remote, int *ret_socket)
{
    return start_process(remote, SEAM_NET, ret_socket);
}

/* ---- beginning ---- */

static void keep(char *ret, size_t size, Text text)
{
    snprintf(ret, size, "%.*s", (int)text.size, text.data ? text.data : "");
}

static int begin(Remote *remote, const char *engine, Problem *problem)
{
    RpcAnswer answer _cleanup_(rpc_answer_deinit) = RPC_ANSWER_NULL;
    SeamEngine adopted = {.engine = text_of(*engine ? engine : NULL)};
    SeamBegun begun = {0};
    int r = launcher_ask(&remote->rpc, SEAM_BEGIN, SCHEMA(SeamEngine), &adopted, -1, &answer, problem);

    if (r == 0)
        r = body_decode(&begun, SeamBegun, &answer.message.body, problem);
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
    r = rpc_open(&remote->rpc, loop, socket, &rpc_events);
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
    SeamNothing nothing = {0};

    remote_say(remote, SEAM_READY, SCHEMA(SeamNothing), &nothing);
}

void remote_unable(int socket, const Problem *problem)
{
    SeamProblem told = {.code = (uint64_t)problem->code, .text = text_of(problem->text)};
    int r;
    _cleanup_(packet_freep) Packet *packet =
        packet_new(SEAM_UNABLE, 0, SCHEMA(SeamProblem), &told, NULL, 0, &r);

    if (packet)
        packet_send(socket, packet);
}
