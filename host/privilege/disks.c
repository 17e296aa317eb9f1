#include "host/privilege/disks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/files/session_disk.h"
#include "host/privilege/asking.h"
#include "proto/base/log.h"

static Rpc launcher;

/* Asks a question whose answer says no more than that it is done. */
static int ask(SeamKind kind, const Schema *schema, const void *body, Problem *problem)
{
    RpcAnswer answer _cleanup_(rpc_answer_deinit) = RPC_ANSWER_NULL;

    return launcher_ask(&launcher, kind, schema, body, -1, &answer, problem);
}

static int make(void *userdata, const char *id, DiskSize size, Problem *problem)
{
    const SeamDisk disk = {.directory = text_of(id), .bytes = size.bytes, .files = size.files};

    return ask(SEAM_DISK, SCHEMA(SeamDisk), &disk, problem);
}

static int mount(void *userdata, const char *id, Problem *problem)
{
    const SeamDirectory directory = {.directory = text_of(id)};

    return ask(SEAM_MOUNT, SCHEMA(SeamDirectory), &directory, problem);
}

static void detach(void *userdata, const char *id)
{
    const SeamDirectory directory = {.directory = text_of(id)};
    Problem problem = PROBLEM_NULL;

    if (ask(SEAM_DETACH, SCHEMA(SeamDirectory), &directory, &problem) < 0)
        log_warn("disk not unmounted", "directory=%s reason=%s", id, problem.text);
}

static int on_message(Rpc *rpc, const Message *message, Descriptors *descriptors)
{
    int log _cleanup_(closep) = descriptors_take(descriptors, 0);

    return (SeamKind)message->kind != SEAM_LOG || log < 0 || dup2(log, STDERR_FILENO) < 0 ? -EBADMSG : 0;
}

int disks_elsewhere(Loop *loop, int socket)
{
    static const RpcEvents events = {on_message, launcher_lost};
    static const DiskMaker maker = {.make = make, .mount = mount, .detach = detach};
    int r = rpc_open(&launcher, loop, socket, &events);

    if (r == 0)
        disk_maker_set(&maker);
    return r;
}
