/* Packages: install; what pip in a session asks for; and what a session has before it opens. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "host/front/ops.h"
#include "host/install/requirements.h"

/* ---- install ---- */

/* Nobody gets events any more who cannot be reached; what was begun goes on. */
static void on_output(void *userdata, const MsgOutput *output, Text body)
{
    request_event(userdata, MSG_OUTPUT, body);
}

static void on_installed(void *userdata, const Installed *installed)
{
    const MsgInstalled reply = {
        .packages = lock_packages(&installed->lock),
        .lock = installed->lock,
        .cached = installed->cached,
        .duration = installed->seconds,
    };

    request_answer(userdata, MsgInstalled, &reply);
}

static void on_install_failed(void *userdata, const Problem *problem, Text log)
{
    request_fail_log(userdata, problem, log);
}

static const InstallEvents silent = {.done = on_installed, .failed = on_install_failed};
static const InstallEvents streaming = {
    .output = on_output, .done = on_installed, .failed = on_install_failed};

static int check_install(const MsgInstall *said, Problem *problem)
{
    if (isnan(said->timeout) || (said->timeout > 0 && said->timeout <= TIMEOUT_MAXIMUM))
        return 0;
    return problem_set(problem, ERR_BAD_REQUEST, "timeout must be above 0 and at most %g seconds",
                       TIMEOUT_MAXIMUM);
}

static void handle_install(Front *front, Request *request, const msgpack_object_map *body)
{
    Problem problem = PROBLEM_NULL;
    InstallOrder order;
    Session *session;
    MsgInstall said;
    int r;

    session = op_decode_session(front, request, &said, MsgInstall, body);
    if (!session)
        return;
    order = (InstallOrder){said.packages, isnan(said.timeout) ? INSTALL_SECONDS : said.timeout, false};
    r = check_install(&said, &problem);
    if (r == 0)
        r = install_begin(front->installs, session->sandbox, &order, said.stream ? &streaming : &silent,
                          request, &problem);
    if (r < 0)
        request_fail(request, &problem);
}

const Op op_install = {.kind = MSG_INSTALL, .handle = handle_install};

/* ---- pip ---- */

#define SENTENCE_SIZE (PROBLEM_TEXT_MAX + 64)

/* The session may end meanwhile. */
typedef struct PipAsk {
    const Front *front;
    uint64_t id;
    char instance[INSTANCE_SIZE];
} PipAsk;

static Sandbox *find_sandbox(const PipAsk *ask)
{
    Sandbox *sandbox;

    list_foreach (sandbox, &ask->front->sandboxes->list, Sandbox, link)
        if (strcmp(sandbox->instance, ask->instance) == 0)
            return sandbox_is_ending(sandbox) ? NULL : sandbox;
    return NULL;
}

static void tell_pip(const PipAsk *ask, Text text, bool over, bool failed)
{
    const MsgInstallTold told = {.text = text, .over = over, .failed = failed};
    Sandbox *sandbox = find_sandbox(ask);

    if (sandbox)
        guest_send(sandbox->guest, MSG_INSTALL, ask->id, MsgInstallTold, &told);
}

static void on_pip_output(void *userdata, const MsgOutput *output, Text body)
{
    tell_pip(userdata, output->data, false, false);
}

static void on_pip_done(void *userdata, const Installed *installed)
{
    PipAsk *ask = userdata;

    tell_pip(ask, text_of(installed->cached ? "The packages are installed already.\n" : ""), true, false);
    free(ask);
}

/* In the way of pip. */
static void refuse_pip(PipAsk *ask, const char *why)
{
    char sentence[SENTENCE_SIZE];

    snprintf(sentence, sizeof(sentence), "ERROR: %s\n", why);
    tell_pip(ask, text_of(sentence), true, true);
    free(ask);
}

static void on_pip_failed(void *userdata, const Problem *problem, Text log)
{
    refuse_pip(userdata, problem->text);
}

static const InstallEvents pip_events = {
    .output = on_pip_output, .done = on_pip_done, .failed = on_pip_failed};

/* 0, or negative with the problem set. */
static int check_pip(const char *allowed, Text packages, Problem *problem)
{
    Buf requirements _cleanup_(buf_deinit) = BUF_NULL;

    if (strcmp(allowed, "allow") == 0)
        return 0;
    if (strcmp(allowed, "refuse") == 0)
        return problem_set(
            problem, ERR_DENIED,
            "pip may install nothing in this session. The operator allows it with `limpetd --pip allow` for "
            "all sessions, or with pip=\"allow\" where this one is opened, as in "
            "code_sandbox(pip=\"allow\"); from outside, session.install([...]) installs");
    if (requirements_read(&requirements, packages, problem) < 0)
        return -EPROTO;
    if (requirements_are_of(&requirements, allowed))
        return 0;
    return problem_set(problem, ERR_DENIED,
                       "in this session pip may install these packages and no others: %s", allowed);
}

void pip_asked(Front *front, Sandbox *sandbox, uint64_t id, Text packages)
{
    const InstallOrder order = {packages, INSTALL_SECONDS, false};
    PipAsk *ask = calloc(1, sizeof(*ask));
    Problem problem = PROBLEM_NULL;

    if (!ask)
        return;
    *ask = (PipAsk){.front = front, .id = id};
    memcpy(ask->instance, sandbox->instance, sizeof(ask->instance));
    if (check_pip(sandbox->options.pip, packages, &problem) < 0 ||
        install_begin(front->installs, sandbox, &order, &pip_events, ask, &problem) < 0)
        refuse_pip(ask, problem.text);
}

/* ---- before a session opens ---- */

/* The session may end meanwhile. */
typedef struct Preparation {
    Front *front;
    SessionKey key;
    char instance[INSTANCE_SIZE];
} Preparation;

/* Frees the preparation. NULL when its session has ended. */
static Session *take_session(Preparation *preparation)
{
    Session *session =
        sessions_find(preparation->front->sessions, preparation->key.user, text_of(preparation->key.name));
    bool same = session && strcmp(session->instance, preparation->instance) == 0;

    free(preparation);
    return same ? session : NULL;
}

static void on_prepared(void *userdata, const Installed *installed)
{
    Session *session = take_session(userdata);

    if (session)
        session_all_ready(session);
}

static void on_preparation_failed(void *userdata, const Problem *problem, Text log)
{
    Session *session = take_session(userdata);

    if (session)
        session_fail(session, problem);
}

static const InstallEvents preparation_events = {.done = on_prepared, .failed = on_preparation_failed};

/* A refusal that is told from the loop: the function that begins the session has not returned yet. */
typedef struct Refusal {
    LoopIdle idle;
    Preparation *preparation;
    Problem problem;
} Refusal;

static void on_refusal_idle(LoopIdle *idle)
{
    Refusal *refusal = container_of(idle, Refusal, idle);

    on_preparation_failed(refusal->preparation, &refusal->problem, (Text){0});
    free(refusal);
}

static void fail_later(Preparation *preparation, const Problem *problem)
{
    Refusal *refusal = calloc(1, sizeof(*refusal));

    if (!refusal) {
        free(preparation);
        return;
    }
    refusal->preparation = preparation;
    refusal->problem = *problem;
    loop_idle_add(preparation->front->sandboxes->loop, &refusal->idle, on_refusal_idle);
}

void prepare_session(Front *front, Session *root)
{
    const InstallOrder order = {text_of(root->sandbox->options.packages), INSTALL_SECONDS, true};
    Preparation *preparation = calloc(1, sizeof(*preparation));
    Problem problem = PROBLEM_NULL;

    if (!preparation)
        return; /* the session ends when its opener gives up */
    *preparation = (Preparation){.front = front, .key = root->key};
    memcpy(preparation->instance, root->instance, sizeof(preparation->instance));
    if (install_begin(front->installs, root->sandbox, &order, &preparation_events, preparation, &problem) < 0)
        fail_later(preparation, &problem);
}
