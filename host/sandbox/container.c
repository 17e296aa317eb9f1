/* Making the container of a sandbox, and removing it. */
#include <stdio.h>

#include "host/sandbox/data.h"
#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* Until spares that gave way are gone. */
#define RETRY_PAUSE        (20 * NSEC_PER_MSEC)
#define LARGEST_FILE_LEAST (UINT64_C(1) << 30)

static const ContainerEvents container_events;

static void fail(Sandbox *sandbox, const Problem *problem)
{
    if (sandbox->owner->failed && sandbox->state != SANDBOX_WAKING)
        sandbox->owner->failed(sandbox, problem);
    sandbox_give_up(sandbox, problem);
}

static void give_up(Sandbox *sandbox, const char *reason)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_ENGINE_ERROR, "%s", reason);
    sandbox_give_up(sandbox, &problem);
}

/* Attaches the packages that the sandbox begins with; an adopted one has them. */
static int attach_packages(Sandbox *sandbox, Problem *problem)
{
    if (!*sandbox->packages || sandbox->state == SANDBOX_ADOPTING)
        return 0;
    return sandbox->all->engine->ops->attach_packages(sandbox->container, sandbox->packages, problem);
}

static void on_started(Container *container, void *userdata, pid_t first_process)
{
    Sandbox *sandbox = userdata;
    const EngineOps *ops = sandbox->all->engine->ops;
    Problem problem = PROBLEM_NULL;

    if (!(sandbox->awaits & AWAITS_CONTAINER) || sandbox->state >= SANDBOX_PARKING)
        return;
    if (guest_expect(sandbox->guest, ops->peer_is_first_process ? first_process : 0) < 0) {
        give_up(sandbox, "a process other than its first one answered for it");
        return;
    }
    if (attach_packages(sandbox, &problem) < 0) {
        fail(sandbox, &problem);
        return;
    }
    sandbox->awaits &= ~(unsigned)AWAITS_CONTAINER;
    sandbox_become_ready(sandbox);
}

/* A session that cannot be had, perhaps because spares have what it needs, is tried once more without them:
 * its container is removed and made again. */
static bool retry(Sandbox *sandbox, const Problem *problem)
{
    Sandboxes *all = sandbox->all;

    bool begins = sandbox->state == SANDBOX_STARTING || sandbox->state == SANDBOX_WAKING;

    if (!begins || sandbox->retried || problem->code != ERR_ENGINE_ERROR ||
        !all->events->make_room(all->userdata))
        return false;
    log_warn("container failed, trying again without spares", "session=%s reason=%s", sandbox->name,
             problem->text);
    sandbox->retried = true;
    loop_timer_cancel(&sandbox->start_timer);
    all->engine->ops->remove(sandbox->container);
    return true;
}

static void on_failed(Container *container, void *userdata, const Problem *problem)
{
    Sandbox *sandbox = userdata;

    if (sandbox->state != SANDBOX_PARKING && !retry(sandbox, problem))
        fail(sandbox, problem);
}

static void on_start_due(LoopTimer *timer)
{
    Sandbox *sandbox = container_of(timer, Sandbox, start_timer);
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_ENGINE_ERROR,
                "the container did not start within %.0f seconds (option start_timeout); see limpetd --check "
                "and limpet logs",
                sandbox->all->options->start_timeout);
    fail(sandbox, &problem);
}

static void on_gone(Container *container, void *userdata, const char *why)
{
    Sandbox *sandbox = userdata;
    char reason[256];

    snprintf(reason, sizeof(reason), "its container is gone: %s", why);
    if (sandbox->state != SANDBOX_PARKING)
        give_up(sandbox, reason);
}

/* Returns the limit of a single file, 0 for none: with a disk, more than the disk holds, so that a file that
 * grows meets the disk first. */
static uint64_t largest_file(const Sandbox *sandbox)
{
    return sandbox->all->has_disks ? MAX(2 * sandbox->options.disk, LARGEST_FILE_LEAST) : 0;
}

static ContainerSpec container_spec(const Sandbox *sandbox)
{
    const SessionOptions *options = &sandbox->options;

    return (ContainerSpec){
        .name = sandbox->container_name,
        .owner = sandbox->all->paths->owner,
        .session = sandbox->name,
        .image = options->image,
        .memory = options->memory,
        .cpus = options->cpus,
        .pids = (unsigned)options->pids,
        .largest_file = largest_file(sandbox),
        .network = options->network,
        .session_dir = sandbox->files.files_path,
        .scratch_dir = sandbox->files.scratch_path,
        .work = sandbox->files.ephemeral,
        .link_dir = sandbox->guest->directory,
        .data = -1,
    };
}

static void wait_for_start(Sandbox *sandbox)
{
    const Options *options = sandbox->all->options;
    double seconds = options->start_timeout;

    if (sandbox->birth.setup.data)
        seconds += options->template_setup_timeout;
    if (sandbox->state == SANDBOX_WAKING)
        seconds += SAVE_SECONDS;
    loop_timer_set(sandbox->all->loop, &sandbox->start_timer, clock_now() + clock_from_seconds(seconds),
                   on_start_due);
}

int sandbox_get_container(Sandbox *sandbox, ContainerGetter *get, int data, Problem *problem)
{
    ContainerSpec spec = container_spec(sandbox);
    int r;

    spec.data = data;
    r = get(sandbox->all->engine, &spec, &container_events, sandbox, &sandbox->container, problem);

    if (r == 0)
        wait_for_start(sandbox);
    return r;
}

int sandbox_open_data(const Sandbox *sandbox, uid_t user, const SessionOptions *options, int *ret,
                      Problem *problem)
{
    int fd = options->data ? data_open(sandbox->all->paths, user, text_of(options->data), problem) : -1;

    if (options->data && fd < 0)
        return fd;
    *ret = fd;
    return 0;
}

int sandbox_create_container(Sandbox *sandbox, Problem *problem)
{
    int data _cleanup_(closep) = -1;
    int r = sandbox_open_data(sandbox, sandbox->user, &sandbox->options, &data, problem);

    return r < 0 ? r : sandbox_get_container(sandbox, sandbox->all->engine->ops->create, data, problem);
}

static int begin_container(Sandbox *sandbox, Problem *problem)
{
    sandbox->all->events->begins(sandbox);
    return sandbox_create_container(sandbox, problem);
}

/* Gives the turns that wait the reason itself, before the sandbox ends: they would have got it if all of this
 * were done at once. */
static void on_places_made(Sandbox *sandbox, const Problem *failure)
{
    Problem problem = PROBLEM_NULL;

    if (!failure && begin_container(sandbox, &problem) < 0)
        failure = &problem;
    if (!failure && sandbox->owner->placed)
        sandbox->owner->placed(sandbox);
    if (!failure)
        return;
    sandbox_fail_waiting(sandbox, failure);
    fail(sandbox, failure);
}

void sandbox_set_container_name(Sandbox *sandbox)
{
    snprintf(sandbox->container_name, sizeof(sandbox->container_name), "limpet-%s-%s",
             sandbox->all->paths->owner, sandbox->instance);
}

int sandbox_begin(Sandbox *sandbox, const char *output_id, Problem *problem)
{
    int r;

    sandbox_set_container_name(sandbox);
    r = sandbox_make_places(sandbox, output_id, on_places_made, problem);
    if (r == 0 && sandbox->places.making)
        wait_for_start(sandbox);
    else if (r == 0)
        r = begin_container(sandbox, problem);
    if (r < 0)
        sandbox_free(sandbox);
    return r;
}

int sandbox_start(Sandbox **ret, Sandboxes *all, const SandboxHolder *holder, SessionOptions *options,
                  const SandboxOwner *owner, Problem *problem)
{
    Sandbox *sandbox = sandbox_new(all, holder->output_id != NULL, options, owner, NULL);
    int r;

    if (!sandbox)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    sandbox->user = sandbox->files.user = holder->user;
    sandbox->restorer = holder->restorer;
    snprintf(sandbox->name, sizeof(sandbox->name), "%s", holder->name);
    snprintf(sandbox->packages, sizeof(sandbox->packages), "%s", holder->packages ? holder->packages : "");
    r = sandbox_begin(sandbox, holder->output_id, problem);
    if (r < 0)
        return r;
    courtesy_wanted(&sandbox->courtesy);
    *ret = sandbox;
    return 0;
}

/* ---- its end ---- */

static void start_again(Sandbox *sandbox);

static void on_retry_due(LoopTimer *timer)
{
    start_again(container_of(timer, Sandbox, start_timer));
}

/* No container is there. */
static void start_again(Sandbox *sandbox)
{
    Sandboxes *all = sandbox->all;
    Problem problem = PROBLEM_NULL;

    if (!all->events->has_room(all->userdata)) {
        loop_timer_set(all->loop, &sandbox->start_timer, clock_now() + RETRY_PAUSE, on_retry_due);
        return;
    }
    if (sandbox_create_container(sandbox, &problem) == 0)
        return;
    fail(sandbox, &problem);
}

static void removed(Sandbox *sandbox)
{
    if (sandbox_is_ending(sandbox))
        sandbox_end(sandbox);
    else if (sandbox->state == SANDBOX_PARKING)
        sandbox_parked(sandbox);
    else
        start_again(sandbox);
}

static void on_nothing_there(LoopTimer *timer)
{
    removed(container_of(timer, Sandbox, start_timer));
}

void sandbox_remove_container(Sandbox *sandbox)
{
    if (sandbox->places.making)
        return; /* its end follows when they are made */
    if (sandbox->container)
        sandbox->all->engine->ops->remove(sandbox->container);
    else
        loop_timer_set(sandbox->all->loop, &sandbox->start_timer, clock_now(), on_nothing_there);
}

static void on_removed(void *userdata)
{
    Sandbox *sandbox = userdata;

    sandbox->container = NULL;
    removed(sandbox);
}

static const ContainerEvents container_events = {
    .started = on_started,
    .failed = on_failed,
    .gone = on_gone,
    .removed = on_removed,
};
