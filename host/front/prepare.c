#include "host/front/prepare.h"

#include <string.h>

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

static void on_done(void *userdata, const Installed *installed)
{
    Session *session = take_session(userdata);

    if (session)
        session_all_ready(session);
}

static void on_failed(void *userdata, const Problem *problem, Text log)
{
    Session *session = take_session(userdata);

    if (session)
        session_fail(session, problem);
}

static const InstallEvents events = {.done = on_done, .failed = on_failed};

/* A refusal that is told from the loop: the function that begins the session has not returned yet. */
typedef struct Refusal {
    LoopIdle idle;
    Preparation *preparation;
    Problem problem;
} Refusal;

static void on_refusal_idle(LoopIdle *idle)
{
    Refusal *refusal = container_of(idle, Refusal, idle);

    on_failed(refusal->preparation, &refusal->problem, (Text){0});
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

void prepare_session(Front *front, Session *trunk)
{
    const InstallOrder order = {text_of(trunk->sandbox->options.packages), INSTALL_SECONDS, true};
    Preparation *preparation = calloc(1, sizeof(*preparation));
    Problem problem = PROBLEM_NULL;

    if (!preparation)
        return; /* the session ends when its opener gives up */
    *preparation = (Preparation){.front = front, .key = trunk->key};
    memcpy(preparation->instance, trunk->instance, sizeof(preparation->instance));
    if (install_begin(front->installs, trunk->sandbox, &order, &events, preparation, &problem) < 0)
        fail_later(preparation, &problem);
}
