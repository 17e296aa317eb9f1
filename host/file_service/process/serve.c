#include "host/file_service/process/serve.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/files/session_disk.h"
#include "host/file_service/file_service.h"
#include "host/file_service/protocol.h"
#include "host/privilege/launcher_protocol.h"
#include "proto/base/log.h"

/* ---- disks ---- */

static Ipc launcher;

/* Asks a question whose answer says no more than that it is done. */
static int ask(LauncherKind kind, const Schema *schema, const void *body, Problem *problem)
{
    IpcAnswer answer _cleanup_(ipc_answer_deinit) = IPC_ANSWER_NULL;

    return launcher_ask(&launcher, kind, schema, body, &answer, problem);
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

static int on_launcher_message(Ipc *ipc, const Message *message, Descriptors *descriptors)
{
    int log _cleanup_(closep) = descriptors_take(descriptors, 0);

    return (LauncherKind)message->kind != LAUNCHER_LOG || log < 0 || dup2(log, STDERR_FILENO) < 0 ? -EBADMSG
                                                                                                  : 0;
}

int disks_elsewhere(Loop *loop, int socket)
{
    static const IpcEvents events = {.message = on_launcher_message, .lost = launcher_lost};
    static const DiskMaker maker = {.make = make, .mount = mount, .detach = detach};
    int r = ipc_open(&launcher, loop, socket, &ipc_messages, &events);

    if (r == 0)
        disk_maker_set(&maker);
    return r;
}

/* ---- serving ---- */

/* Beyond that no request is taken until others are answered, and answers are read. */
#define JOBS_MAX 64u
static const IpcLimits limits = {.frame = FILE_SERVICE_REQUEST_MAX, .out = 64u << 20, .most = SIZE_MAX};

typedef struct Service {
    Loop *loop;
    FileService *file_service;
    Ipc ipc;   /* to the controller */
    int error; /* why it ends */
} Service;

static void stop(Service *service, int error)
{
    service->error = error;
    loop_stop(service->loop, 0);
}

static void take_turns(Service *service)
{
    ipc_pause(&service->ipc, file_service_jobs(service->file_service) >= JOBS_MAX);
}

static void on_answer(void *userdata, uint64_t id, Buf *answer, Descriptors *descriptors)
{
    Service *service = userdata;

    if (answer->size == 0 || ipc_send_frame(&service->ipc, answer, descriptors) == -ENOMEM)
        stop(service, -ENOMEM);
    take_turns(service);
}

static int on_frame(Ipc *ipc, Buf *bytes, Descriptors *descriptors)
{
    Service *service = container_of(ipc, Service, ipc);
    Problem problem = PROBLEM_NULL;

    if (file_service_take(service->file_service, bytes, descriptors, &problem) < 0)
        return -EBADMSG;
    take_turns(service);
    return 0;
}

static void on_lost(Ipc *ipc, int error)
{
    stop(container_of(ipc, Service, ipc), error == -EPIPE ? 0 : error);
}

static const IpcEvents ipc_events = {.frame = on_frame, .lost = on_lost};

static int begin(Service *service, const FilesWorker *worker)
{
    const FileServiceConfig config = {
        .state_dir = worker->state_dir, .has_disks = true, .answer = on_answer, .userdata = service};
    int r = loop_new(&service->loop);

    if (r == 0)
        r = disks_elsewhere(service->loop, worker->launcher);
    if (r == 0)
        r = file_service_new(&service->file_service, service->loop, &config);
    if (r == 0)
        r = ipc_open(&service->ipc, service->loop, worker->controller, &limits, &ipc_events);
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
    ipc_close(&service.ipc);
    file_service_free(service.file_service);
    loop_free(service.loop);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "the files worker ends: %s", strerror(-r)) : 0;
}
