/* How the container of a sandbox comes to be, and goes. */
#include <stdio.h>

#include "host/journal_sandbox.h"
#include "host/pool.h"
#include "host/sandbox_parts.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Until spares that gave way are gone. */
#define RETRY_PAUSE        (20 * NSEC_PER_MSEC)
#define LARGEST_FILE_LEAST (UINT64_C(1) << 30)

static const ContainerEvents container_events;

static void on_started(Container *container, void *userdata, pid_t first_process)
{
    Sandbox *sandbox = userdata;
    const EngineOps *ops = sandbox->controller->engine->ops;

    if (sandbox->state != SANDBOX_STARTING)
        return;
    if (guest_expect(sandbox->guest, ops->peer_is_first_process ? first_process : 0) < 0) {
        sandbox_close(sandbox, "someone else than its first process answered for it");
        return;
    }
    sandbox->container_started = true;
    sandbox_become_ready(sandbox);
}

static void fail(Sandbox *sandbox, const Problem *problem)
{
    if (!sandbox->spare)
        log_warn("container failed", "session=%s reason=%s", sandbox->trunk->name, problem->text);
    session_fail_openers(sandbox->trunk, problem);
    sandbox_close(sandbox, problem->text);
}

/* A session that cannot be had, perhaps because spares have what it needs, is tried once more without them:
 * its container is removed and made again. */
static bool retry(Sandbox *sandbox, const Problem *problem)
{
    Controller *controller = sandbox->controller;

    if (sandbox->spare || sandbox->adoption || sandbox->retried || problem->code != ERR_ENGINE_ERROR ||
        !pool_yield(controller->pool))
        return false;
    log_warn("container failed, tried again without spares", "session=%s reason=%s", sandbox->trunk->name,
             problem->text);
    sandbox->retried = true;
    loop_timer_cancel(&sandbox->start_timer);
    controller->engine->ops->remove(sandbox->container);
    return true;
}

static void on_failed(Container *container, void *userdata, const Problem *problem)
{
    Sandbox *sandbox = userdata;

    if (!retry(sandbox, problem))
        fail(sandbox, problem);
}

static void on_start_due(LoopTimer *timer)
{
    Sandbox *sandbox = container_of(timer, Sandbox, start_timer);
    Problem problem = PROBLEM_NULL;

    problem_set(
        &problem, ERR_ENGINE_ERROR,
        "the container was not up within %.0f seconds (option start_timeout); limpetd --check may say why",
        sandbox->controller->options->start_timeout);
    fail(sandbox, &problem);
}

static void on_gone(Container *container, void *userdata, const char *why)
{
    char reason[256];

    snprintf(reason, sizeof(reason), "its container is gone: %s", why);
    sandbox_close(userdata, reason);
}

/* Where a disk bounds what is written a single file is to meet that first. */
static uint64_t largest_file(const Sandbox *sandbox)
{
    return sandbox->controller->has_disks ? MAX(2 * sandbox->options.disk, LARGEST_FILE_LEAST) : 0;
}

static ContainerSpec container_spec(const Sandbox *sandbox)
{
    const SessionOptions *options = &sandbox->options;

    return (ContainerSpec){
        .name = sandbox->container_name,
        .owner = sandbox->controller->paths->owner,
        .session = sandbox->trunk->name,
        .image = options->image,
        .memory = options->memory,
        .cpus = options->cpus,
        .pids = (unsigned)options->pids,
        .largest_file = largest_file(sandbox),
        .network = options->network,
        .session_dir = sandbox->directory.files_path,
        .work_dir = sandbox->directory.work_path,
        .data_dir = options->data,
        .link_dir = sandbox->guest->directory,
    };
}

static void wait_for_start(Sandbox *sandbox)
{
    double seconds = sandbox->controller->options->start_timeout;

    loop_timer_set(sandbox->controller->loop, &sandbox->start_timer,
                   clock_now() + clock_from_seconds(seconds), on_start_due);
}

static int create_container(Sandbox *sandbox, Problem *problem)
{
    Engine *engine = sandbox->controller->engine;
    ContainerSpec spec = container_spec(sandbox);
    int r = engine->ops->create(engine, &spec, &container_events, sandbox, &sandbox->container, problem);

    if (r == 0)
        wait_for_start(sandbox);
    return r;
}

int sandbox_adopt_container(Sandbox *sandbox, Problem *problem)
{
    Engine *engine = sandbox->controller->engine;
    ContainerSpec spec = container_spec(sandbox);
    int r = engine->ops->adopt(engine, &spec, &container_events, sandbox, &sandbox->container, problem);

    if (r == 0)
        wait_for_start(sandbox);
    return r;
}

static int begin_container(Sandbox *sandbox, Problem *problem)
{
    journal_begin(sandbox);
    return create_container(sandbox, problem);
}

/* A call that waits in a container of its own gets the reason itself, as when all of this is done at once. */
static void fail_calls(Sandbox *sandbox, const Problem *problem)
{
    Turn *turn;

    list_foreach (turn, &sandbox->turns, Turn, link) {
        if (turn->kind != TURN_CALL)
            continue;
        sandbox_unqueue(sandbox, turn);
        call_fail(container_of(turn, Call, turn), problem);
    }
}

static void on_places_made(Sandbox *sandbox, const Problem *failure)
{
    Problem problem = PROBLEM_NULL;

    if (!failure && begin_container(sandbox, &problem) < 0)
        failure = &problem;
    if (!failure)
        return;
    fail_calls(sandbox, failure);
    fail(sandbox, failure);
}

int sandbox_begin(Sandbox *sandbox, const char *output_id, Problem *problem)
{
    Session *trunk = sandbox->trunk;
    int r = sandbox_make_places(sandbox, output_id, on_places_made, problem);

    snprintf(sandbox->container_name, sizeof(sandbox->container_name), "limpet-%s-%s",
             sandbox->controller->paths->owner, trunk->instance);
    if (r == 0 && sandbox->places.making)
        wait_for_start(sandbox);
    else if (r == 0)
        r = begin_container(sandbox, problem);
    if (r < 0) {
        sandbox_free(sandbox);
        return r;
    }
    trunk->sandbox = sandbox;
    if (!sandbox->spare)
        courtesy_wanted(sandbox);
    return 0;
}

int sandbox_start(Controller *controller, Session *trunk, const char *output_id, SessionOptions *options,
                  Problem *problem)
{
    Sandbox *sandbox = sandbox_new(controller, trunk, output_id != NULL, options);

    return sandbox ? sandbox_begin(sandbox, output_id, problem)
                   : problem_set(problem, ERR_INTERNAL, "out of memory");
}

/* ---- its end ---------------------------------------------------------------------------------------------
 */

static void start_again(Sandbox *sandbox);

static void on_retry_due(LoopTimer *timer)
{
    start_again(container_of(timer, Sandbox, start_timer));
}

/* No container is there. */
static void start_again(Sandbox *sandbox)
{
    Controller *controller = sandbox->controller;
    Problem problem = PROBLEM_NULL;

    if (!pool_is_empty(controller->pool)) {
        loop_timer_set(controller->loop, &sandbox->start_timer, clock_now() + RETRY_PAUSE, on_retry_due);
        return;
    }
    if (create_container(sandbox, &problem) == 0)
        return;
    fail(sandbox, &problem);
}

static void on_nothing_there(LoopTimer *timer)
{
    sandbox_end(container_of(timer, Sandbox, start_timer));
}

void sandbox_remove_container(Sandbox *sandbox)
{
    if (sandbox->places.making)
        return; /* its end follows when they are made */
    if (sandbox->container)
        sandbox->controller->engine->ops->remove(sandbox->container);
    else
        loop_timer_set(sandbox->controller->loop, &sandbox->start_timer, clock_now(), on_nothing_there);
}

static void on_removed(void *userdata)
{
    Sandbox *sandbox = userdata;

    sandbox->container = NULL;
    if (sandbox->state == SANDBOX_STARTING)
        start_again(sandbox);
    else
        sandbox_end(sandbox);
}

static const ContainerEvents container_events = {
    .started = on_started,
    .failed = on_failed,
    .gone = on_gone,
    .removed = on_removed,
};
