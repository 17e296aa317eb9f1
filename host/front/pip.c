#include "host/front/pip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/install/requirements.h"

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

static void tell(const PipAsk *ask, Text text, bool over, bool failed)
{
    const MsgInstallTold told = {.text = text, .over = over, .failed = failed};
    Sandbox *sandbox = find_sandbox(ask);

    if (sandbox)
        guest_say(sandbox->guest, MSG_INSTALL, ask->id, MsgInstallTold, &told);
}

static void on_output(void *userdata, const MsgOutput *output, Text body)
{
    tell(userdata, output->data, false, false);
}

static void on_done(void *userdata, const Installed *installed)
{
    PipAsk *ask = userdata;

    tell(ask, text_of(installed->cached ? "The packages are installed already.\n" : ""), true, false);
    free(ask);
}

/* In the way of pip. */
static void refuse(PipAsk *ask, const char *why)
{
    char sentence[SENTENCE_SIZE];

    snprintf(sentence, sizeof(sentence), "ERROR: %s\n", why);
    tell(ask, text_of(sentence), true, true);
    free(ask);
}

static void on_failed(void *userdata, const Problem *problem, Text log)
{
    refuse(userdata, problem->text);
}

static const InstallEvents events = {.output = on_output, .done = on_done, .failed = on_failed};

/* 0, or negative with the problem set. */
static int check(const char *allowed, Text packages, Problem *problem)
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
    if (check(sandbox->options.pip, packages, &problem) < 0 ||
        install_begin(front->installs, sandbox, &order, &events, ask, &problem) < 0)
        refuse(ask, problem.text);
}
