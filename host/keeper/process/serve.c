#include "host/keeper/process/serve.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/files/session_disk.h"
#include "host/keeper/keeper.h"
#include "host/keeper/protocol.h"
#include "host/privilege/launcher_protocol.h"
#include "proto/base/log.h"

/* ---- disks ---- */

static Rpc launcher;

/* Asks a question whose answer says no more than that it is done. */
static int ask(LauncherKind kind, const Schema *schema, const void *body, Problem *problem)
{
    RpcAnswer answer _cleanup_(rpc_answer_deinit) = RPC_ANSWER_NULL;

    return launcher_ask(&launcher, kind, schema, body, -1, &answer, problem);
}

static int make(void *userdata, const char *id, DiskSize size, Problem *problem)
{
    const LauncherMsgDisk disk = {.directory = text_of(id), .bytes = size.bytes, .files = size.files};

    return ask(LAUNCHER_DISK, SCHEMA(LauncherMsgDisk), &disk, problem);
}

static int mount(void *userdata, const char *id, Problem *problem)
{
    const LauncherMsgDirectory directory = {.directory = text_of(id)};

    return ask(LAUNCHER_MOUNT, SCHEMA(LauncherMsgDirectory), &directory, problem);
}

static void detach(void *userdata, const char *id)
{
    const LauncherMsgDirectory directory = {.directory = text_of(id)};
    Problem problem = PROBLEM_NULL;

    if (ask(LAUNCHER_DETACH, SCHEMA(LauncherMsgDirectory), &directory, &problem) < 0)
        log_warn("disk not unmounted", "directory=%s reason=%s", id, problem.text);
}

static int on_launcher_message(Rpc *rpc, const Message *message, Descriptors *descriptors)
{
    int log _cleanup_(closep) = descriptors_take(descriptors, 0);

    return (LauncherKind)message->kind != LAUNCHER_LOG || log < 0 || dup2(log, STDERR_FILENO) < 0 ? -EBADMSG
                                                                                                  : 0;
}

int disks_elsewhere(Loop *loop, int socket)
{
    static const RpcEvents events = {on_launcher_message, launcher_lost};
    static const DiskMaker maker = {.make = make, .mount = mount, .detach = detach};
    int r = rpc_open(&launcher, loop, socket, &events);

    if (r == 0)
        disk_maker_set(&maker);
    return r;
}

/* ---- serving ---- */

/* Beyond that no request is taken until others are answered, and answers are read. */
#define JOBS_MAX 64u
static const KeeperLinkLimits limits = {.frame = KEEPER_REQUEST_MAX, .out = 64u << 20};

typedef struct Service {
    Loop *loop;
    Keeper *keeper;
    KeeperLink link;
    int error; /* why it ends */
} Service;

static void stop(Service *service, int error)
{
    service->error = error;
    loop_stop(service->loop, 0);
}

static void take_turns(Service *service)
{
    keeper_link_pause(&service->link, keeper_jobs(service->keeper) >= JOBS_MAX);
}

static void on_answer(void *userdata, uint64_t id, Buf *answer, int descriptors[static JOB_DESCRIPTORS])
{
    Service *service = userdata;

    if (answer->size == 0 || keeper_link_send(&service->link, answer, descriptors) == -ENOMEM)
        stop(service, -ENOMEM);
    take_turns(service);
}

/* No request has descriptors. */
static void on_message(KeeperLink *link, Buf *bytes, int descriptors[static JOB_DESCRIPTORS])
{
    Service *service = container_of(link, Service, link);
    Problem problem = PROBLEM_NULL;

    for (size_t i = 0; i < JOB_DESCRIPTORS; i++) {
        if (descriptors[i] >= 0)
            problem_set(&problem, ERR_BAD_REQUEST, "a request with a descriptor");
        close_fd(&descriptors[i]);
    }
    if (problem.code != ERR_NONE)
        buf_deinit(bytes);
    if (problem.code != ERR_NONE || keeper_take(service->keeper, bytes, &problem) < 0)
        stop(service, -EBADMSG);
    take_turns(service);
}

static void on_lost(KeeperLink *link, int error)
{
    stop(container_of(link, Service, link), error == -EPIPE || error == -ECONNRESET ? 0 : error);
}

static const KeeperLinkEvents events = {.message = on_message, .lost = on_lost};

static int begin(Service *service, const FilesWorker *worker)
{
    const KeeperConfig config = {
        .state_dir = worker->state_dir, .has_disks = true, .answer = on_answer, .userdata = service};
    int r = loop_new(&service->loop);

    if (r == 0)
        r = disks_elsewhere(service->loop, worker->launcher);
    if (r == 0)
        r = keeper_new(&service->keeper, service->loop, &config);
    if (r == 0)
        r = keeper_link_open(&service->link, service->loop, worker->controller, &limits, &events);
    return r;
}

int files_worker_run(const FilesWorker *worker, Problem *problem)
{
    Service service = {0};
    int r;

    r = begin(&service, worker);
    if (r == 0)
        r = loop_run(service.loop);
    if (r == 0)
        r = service.error;
    /* Jobs under way end; nobody hears of it. */
    keeper_link_close(&service.link);
    keeper_free(service.keeper);
    loop_free(service.loop);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "the files worker ends: %s", strerror(-r)) : 0;
}
