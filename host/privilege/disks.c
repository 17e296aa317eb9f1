#include "host/privilege/disks.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "host/files/session_disk.h"
#include "host/privilege/rpc.h"
#include "host/privilege/seam.h"
#include "proto/base/log.h"

/* Whatever the launcher has to do in between: it makes a disk while others are made. */
#define ANSWER_SECONDS 120.0

static Rpc launcher;

/* The controller ends with us, and whoever comes next does again what was asked for: no session is told of a
 * failure. */
static _Noreturn void end_without_launcher(int error)
{
    log_error("launcher lost", "error=%s", strerror(-error));
    _exit(1);
}

static int refused(const RpcAnswer *answer, Problem *problem)
{
    SeamProblem told;

    if ((SeamKind)answer->message.kind != SEAM_REFUSED ||
        body_decode(&told, SeamProblem, &answer->message.body, problem) < 0)
        return problem_set(problem, ERR_INTERNAL, "the launcher's answer makes no sense");
    problem_set(problem, (ErrorCode)told.code, "%.*s", (int)told.text.size, told.text.data);
    return told.error > 0 ? -(int)told.error : -EPROTO;
}

static int ask(SeamKind kind, const Schema *schema, const void *body, Problem *problem)
{
    RpcAnswer answer _cleanup_(rpc_answer_deinit) = RPC_ANSWER_NULL;
    int r = rpc_ask(&launcher, kind, schema, body, NULL, 0, ANSWER_SECONDS, &answer);

    if (r == -EPIPE)
        end_without_launcher(r);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "the launcher does not answer: %s", strerror(-r));
    return (SeamKind)answer.message.kind == SEAM_DONE ? 0 : refused(&answer, problem);
}

static int make(void *userdata, const char *id, bool work, DiskSize size, Problem *problem)
{
    const SeamDisk disk = {.directory = text_of(id), .work = work, .bytes = size.bytes, .files = size.files};

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

static void on_lost(Rpc *rpc, int error)
{
    end_without_launcher(error);
}

int disks_elsewhere(Loop *loop, int socket)
{
    static const RpcEvents events = {on_message, on_lost};
    static const DiskMaker maker = {.make = make, .mount = mount, .detach = detach};
    int r = rpc_open(&launcher, loop, socket, &events);

    if (r == 0)
        disk_maker_set(&maker);
    return r;
}
