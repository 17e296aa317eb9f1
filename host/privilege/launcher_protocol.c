#include "host/privilege/launcher_protocol.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/log.h"

#define SCHEMA_FILE "host/privilege/launcher_protocol.def"
#include "proto/schema/as_tables.h"

/* Whatever the launcher has to do in between: it looks the host over, or makes a disk while others are made.
 */
#define ANSWER_SECONDS 120.0

void launcher_lost(Ipc *launcher, int error)
{
    log_error("launcher lost", "error=%s", strerror(-error));
    _exit(1);
}

int launcher_answered(const IpcAnswer *answer, Problem *problem)
{
    LauncherMsgProblem told;

    if ((LauncherKind)answer->message.kind == LAUNCHER_DONE)
        return 0;
    if ((LauncherKind)answer->message.kind != LAUNCHER_REFUSED ||
        body_decode(&told, LauncherMsgProblem, &answer->message.body, problem) < 0)
        return problem_set(problem, ERR_INTERNAL, "the launcher's answer makes no sense");
    problem_set(problem, (ErrorCode)told.code, "%.*s", (int)told.text.size, told.text.data);
    return told.error > 0 ? -(int)told.error : -EPROTO;
}

int launcher_ask(Ipc *launcher, LauncherKind kind, const Schema *schema, const void *body, IpcAnswer *ret,
                 Problem *problem)
{
    int r = ipc_ask(launcher, kind, schema, body, NULL, 0, ANSWER_SECONDS, ret);

    if (r == -EPIPE)
        launcher_lost(NULL, r);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "the launcher does not answer: %s", strerror(-r));
    return launcher_answered(ret, problem);
}
