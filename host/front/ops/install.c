#include <math.h>

#include "host/front/ops.h"
#include "host/install/lock.h"

/* Nobody gets events any more who cannot be reached; what was begun goes on. */
static void on_output(void *userdata, const MsgOutput *output, Text body)
{
    request_event(userdata, MSG_OUTPUT, body);
}

static void on_done(void *userdata, const Installed *installed)
{
    const MsgInstalled reply = {
        .packages = lock_packages(&installed->lock),
        .lock = installed->lock,
        .cached = installed->cached,
        .duration = installed->seconds,
    };

    request_answer(userdata, MsgInstalled, &reply);
}

static void on_failed(void *userdata, const Problem *problem, Text log)
{
    request_fail_log(userdata, problem, log);
}

static const InstallEvents silent = {.done = on_done, .failed = on_failed};
static const InstallEvents streaming = {.output = on_output, .done = on_done, .failed = on_failed};

static int check(const MsgInstall *said, Problem *problem)
{
    if (isnan(said->timeout) || (said->timeout > 0 && said->timeout <= TIMEOUT_MAXIMUM))
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST, "timeout must be above 0 and at most %g seconds",
                       TIMEOUT_MAXIMUM);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    InstallOrder order;
    Session *session;
    MsgInstall said;
    int r;

    if (!op_decode(request, &said, MsgInstall, body))
        return;
    session = op_session(front, request, said.session, said.instance);
    if (!session)
        return;
    order = (InstallOrder){said.packages, isnan(said.timeout) ? INSTALL_SECONDS : said.timeout, false};
    r = check(&said, &problem);
    if (r == 0)
        r = install_begin(front->installs, session->sandbox, &order, said.stream ? &streaming : &silent,
                          request, &problem);
    if (r < 0)
        request_fail(request, &problem);
}

const Op op_install = {.kind = MSG_INSTALL, .handle = handle};
