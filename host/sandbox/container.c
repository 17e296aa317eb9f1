/* Making what a sandbox consists of, and removing it: its directories, its network and its container. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/files/sessiondir.h"
#include "host/sandbox/data.h"
#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* ---- network ----
 *
 * Network of a sandbox: its options say what it may reach, the egress process enforces it, and a port of the
 * loopback of its container leads there. */

int sandbox_serve_network(Sandbox *sandbox, const char *name, const SessionOptions *options, Problem *problem)
{
    const Sandboxes *all = sandbox->all;
    const EgressRules rules = {name, &options->allow, &options->bindings, all->options->network_limit,
                               sandbox->owner->trusts_rules};
    char path[PATH_MAX];
    int r;

    if (all->engine->ops->single && session_options_reach(options) && !session_options_relay(options))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "the network rules and bindings of a session need a host to go through, and the "
            "engine %s has none but a limpet-egress; let Pods open the session, or leave allow "
            "and bindings out",
            all->engine->ops->name);
    snprintf(path, sizeof(path), "%s/" GUEST_EGRESS, sandbox->guest->directory);
    /* A sandbox that an earlier controller served has programs that ask: they are told that nothing is
     * allowed any more. */
    if (!session_options_reach(options) && !sandbox_is_proxied(sandbox) && access(path, F_OK) < 0)
        return 0;
    r = egress_serve(all->egress, &sandbox->egress, path, &rules);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "the network rules cannot take effect: %s", strerror(-r));
    guest_admit(sandbox->guest, GUEST_EGRESS);
    return 0;
}

bool sandbox_is_proxied(const Sandbox *sandbox)
{
    return sandbox->egress.client != NULL;
}

int sandbox_set_network(Sandbox *sandbox, const MsgSetNetwork *given, Problem *problem)
{
    SessionOptions changed;
    int r = session_options_change_network(&changed, &sandbox->options, given, problem);

    if (r == 0)
        r = sandbox_serve_network(sandbox, sandbox->name, &changed, problem);
    session_options_take_network(&sandbox->options, &changed, r == 0);
    if (r < 0)
        return r;
    sandbox->all->events->changed(sandbox);
    /* A supervisor that is not connected is told with its welcome. */
    if (sandbox_is_proxied(sandbox) && sandbox->state == SANDBOX_READY)
        sandbox_send(sandbox, MSG_SET_NETWORK, sandboxes_next_number(sandbox->all));
    return 0;
}

/* ---- places ----
 *
 * Places of a sandbox on the host: its directories with their disk, and the one where its supervisor
 * connects. */

static bool is_another_users(const Sandbox *sandbox)
{
    return sandbox->user != sandbox->all->paths->user;
}

FilesSpec sandbox_files_spec(const Sandbox *sandbox, const char *name,
                             char published[static PUBLISHED_ID_SIZE])
{
    /* No name has an @. */
    if (is_another_users(sandbox))
        snprintf(published, PUBLISHED_ID_SIZE, "%u@%s", (unsigned)sandbox->user, name);
    else
        snprintf(published, PUBLISHED_ID_SIZE, "%s", name);
    return (FilesSpec){
        .state_dir = sandbox->all->paths->state_dir,
        .published = published,
        .reader = is_another_users(sandbox) ? sandbox->user : NO_UINT,
        .room = {sandbox->options.disk, sandbox->options.files},
        .ephemeral = sandbox->ephemeral,
    };
}

int sandbox_make_link(Sandbox *sandbox, const char *id, Problem *problem)
{
    int r = guest_new(&sandbox->guest, sandbox->all, id, &sandbox_guest_events, sandbox, problem);

    return r < 0 ? r : sandbox_serve_network(sandbox, sandbox->name, &sandbox->options, problem);
}

/* Names the directory of what code writes to. Another user gets to what is published below the name of the
 * session, and not to where the rest is. -EPROTO with the problem set where there can be none. */
static int name_directory(const Sandbox *sandbox, const char *name, char ret[static NAME_MAX + 1],
                          Problem *problem)
{
    const bool single = sandbox->all->engine->ops->single;
    const Sandbox *first = container_of(sandbox->all->list.next, Sandbox, link);

    if (single && first != sandbox && first->state == SANDBOX_WARMING)
        return problem_set(problem, ERR_UNAVAILABLE,
                           "the sandbox of this pod still imports its modules; ask again soon");
    if (single && first != sandbox)
        return problem_set(problem, ERR_LIMIT_REACHED,
                           "a pod has one session at a time, and this one has one; use another pod");
    if (single)
        snprintf(ret, NAME_MAX + 1, SESSIONDIR_MOUNTED);
    else if (is_another_users(sandbox))
        snprintf(ret, NAME_MAX + 1, PRIVATE_MARK "%s", sandbox->instance);
    else
        snprintf(ret, NAME_MAX + 1, "%s", name);
    return 0;
}

/* Makes where its supervisor connects, and asks for the directories. A spare publishes once it is a
 * session's. 0, or negative with the problem set. */
static int ask_for_places(Sandbox *sandbox, const char *output_id, Problem *problem)
{
    const char *name = output_id ? output_id : sandbox->name;
    char id[NAME_MAX + 1], published[PUBLISHED_ID_SIZE];
    FilesSpec spec = sandbox_files_spec(sandbox, name, published);
    int r = name_directory(sandbox, name, id, problem);

    if (r == 0)
        r = sandbox_make_link(sandbox, id, problem);
    if (r < 0)
        return r;
    spec.id = id;
    spec.disk = sandbox->all->has_disks;
    spec.template = sandbox->spare_spec.template;
    if (sandbox->state == SANDBOX_WARMING)
        spec.published = NULL;
    r = session_files_prepare(&sandbox->files, &spec, sandbox_on_files, sandbox, problem);
    sandbox->making = r == 0;
    return r;
}

/* ---- container ---- */

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

static bool awaits_container(const Sandbox *sandbox)
{
    return sandbox->awaits & AWAITS_CONTAINER && sandbox->state < SANDBOX_PARKING;
}

static void on_packages(void *userdata, int result, const Problem *problem)
{
    Sandbox *sandbox = userdata;

    if (!awaits_container(sandbox))
        return;
    if (result < 0) {
        fail(sandbox, problem);
        return;
    }
    sandbox->awaits &= ~(unsigned)AWAITS_CONTAINER;
    sandbox_become_ready(sandbox);
}

/* Attaches the packages that the sandbox begins with; an adopted one has them. */
static int attach_packages(Sandbox *sandbox, Problem *problem)
{
    if (!*sandbox->packages || sandbox->state == SANDBOX_ADOPTING || sandbox_is_saving(sandbox))
        return 0;
    return sandbox->all->engine->ops->attach_packages(sandbox->container, sandbox->packages,
                                                      &(AttachDone){on_packages, sandbox}, problem);
}

static void on_started(Container *container, void *userdata, pid_t first_process)
{
    Sandbox *sandbox = userdata;
    const EngineOps *ops = sandbox->all->engine->ops;
    Problem problem = PROBLEM_NULL;
    int r;

    if (!awaits_container(sandbox))
        return;
    if (guest_expect(sandbox->guest, ops->peer_is_first_process ? first_process : 0) < 0) {
        sandbox_give_up_for(sandbox, "a process other than its first one answered for it");
        return;
    }
    r = attach_packages(sandbox, &problem);
    if (r != ATTACH_ASKED)
        on_packages(sandbox, r, &problem);
}

static void remove_and_retry(Sandbox *sandbox, SandboxRetry retry)
{
    sandbox->retry = retry;
    sandbox->awaits = AWAITS_CONTAINER | AWAITS_SUPERVISOR;
    sandbox->all->engine->ops->remove(sandbox->container);
}

/* A session that cannot be had, perhaps because spares have what it needs, is tried once more without them:
 * its container is removed and made again. */
static bool retry(Sandbox *sandbox, const Problem *problem)
{
    Sandboxes *all = sandbox->all;
    bool begins = sandbox->state == SANDBOX_STARTING || sandbox->state == SANDBOX_WAKING;

    if (!begins || sandbox->retry != RETRY_ONCE || problem->code != ERR_ENGINE_ERROR ||
        !all->events->make_room(all->userdata))
        return false;
    log_warn("container failed, trying again without spares", "session=%s reason=%s", sandbox->name,
             problem->text);
    loop_timer_cancel(&sandbox->start_timer);
    remove_and_retry(sandbox, RETRY_IN_ROOM);
    return true;
}

void sandbox_make_anew(Sandbox *sandbox, const Problem *problem)
{
    if (sandbox->retry == RETRY_ONCE)
        remove_and_retry(sandbox, RETRY_NEVER);
    else
        fail(sandbox, problem);
}

static void on_failed(Container *container, void *userdata, const Problem *problem)
{
    Sandbox *sandbox = userdata;

    if (sandbox_is_saving(sandbox))
        sandbox_give_up(sandbox, problem);
    else if (!retry(sandbox, problem))
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
    sandbox_give_up_for(sandbox, reason);
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

void sandbox_wait_for_start(Sandbox *sandbox)
{
    const Options *options = sandbox->all->options;
    double seconds = options->start_timeout;

    if (sandbox->spare_spec.setup.data)
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
        sandbox_wait_for_start(sandbox);
    return r;
}

static void on_data(void *userdata, int directory, const char *path, const Problem *failure);

/* The container waits for it. */
static int open_data(Sandbox *sandbox, Problem *problem)
{
    sandbox->opening =
        data_open(sandbox->all, sandbox->user, text_of(sandbox->options.data), on_data, sandbox, problem);
    sandbox->making = sandbox->opening != NULL;
    return sandbox->making ? 0 : -EPROTO;
}

static bool lacks_data(const Sandbox *sandbox)
{
    return sandbox->options.data && sandbox->data < 0;
}

/* Returns whether the image that its interpreter has begun with is being opened. */
static bool open_memory(Sandbox *sandbox)
{
    sandbox->opens_memory = sandbox->making = sandbox->memory && memory_image_open(sandbox->memory);
    return sandbox->making;
}

int sandbox_create_container(Sandbox *sandbox, Problem *problem)
{
    if (lacks_data(sandbox))
        return open_data(sandbox, problem);
    if (open_memory(sandbox))
        return 0;
    return sandbox_get_container(sandbox, sandbox->all->engine->ops->create, sandbox->data, problem);
}

/* Gives the requests that wait the reason itself, before the sandbox ends: they would have got it if all of
 * this were done at once. */
static void on_places_made(Sandbox *sandbox, const Problem *failure)
{
    bool wakes = sandbox->state == SANDBOX_WAKING;
    Problem problem = PROBLEM_NULL;

    if (!failure && lacks_data(sandbox)) {
        if (open_data(sandbox, &problem) == 0)
            return;
        failure = &problem;
    }
    if (!failure && !wakes)
        sandbox->all->events->begins(sandbox);
    if (!failure && sandbox_create_container(sandbox, &problem) < 0)
        failure = &problem;
    if (!failure && !wakes && sandbox->owner->placed)
        sandbox->owner->placed(sandbox);
    if (!failure)
        return;
    if (!wakes)
        sandbox_fail_waiting(sandbox, failure);
    fail(sandbox, failure);
}

static void made(Sandbox *sandbox, const Problem *failure)
{
    sandbox->making = sandbox->opens_memory = false;
    if (sandbox_is_ending(sandbox))
        sandbox_end(sandbox);
    else if (sandbox->state == SANDBOX_PARKING)
        sandbox_parked(sandbox);
    else
        on_places_made(sandbox, failure);
}

void sandbox_on_files(void *userdata, const Problem *failure)
{
    Sandbox *sandbox = userdata;

    if (sandbox->making)
        made(sandbox, failure);
    else if (failure)
        sandbox_files_amiss(sandbox, failure);
}

void sandboxes_image_opened(void *userdata, const MemoryImage *image)
{
    Sandboxes *all = userdata;
    Sandbox *sandbox;

    list_foreach (sandbox, &all->list, Sandbox, link)
        if (sandbox->opens_memory && sandbox->memory == image)
            made(sandbox, NULL);
    all->events->image_opened(all->userdata, image);
}

static void on_data(void *userdata, int directory, const char *path, const Problem *failure)
{
    Sandbox *sandbox = userdata;

    sandbox->opening = NULL;
    sandbox->data = directory;
    made(sandbox, failure);
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
    r = ask_for_places(sandbox, output_id, problem);
    if (r == 0)
        sandbox_wait_for_start(sandbox);
    else
        sandbox_free(sandbox);
    return r;
}

int sandbox_start(Sandbox **ret, Sandboxes *all, const SandboxAssignment *assignment, SessionOptions *options,
                  const SandboxOwner *owner, Problem *problem)
{
    Sandbox *sandbox =
        sandbox_new(all, SANDBOX_STARTING, assignment->output_id != NULL, options, owner, NULL);
    int r;

    if (!sandbox)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    sandbox->user = sandbox->files.user = assignment->user;
    sandbox->forked = sandbox->loads = assignment->forked;
    sandbox->restorer = assignment->restorer;
    sandbox->memory = memory_image_ref(assignment->memory);
    sandbox->data = assignment->data ? fcntl(*assignment->data, F_DUPFD_CLOEXEC, 3) : -1;
    snprintf(sandbox->name, sizeof(sandbox->name), "%s", assignment->name);
    snprintf(sandbox->packages, sizeof(sandbox->packages), "%s",
             assignment->packages ? assignment->packages : "");
    r = sandbox_begin(sandbox, assignment->output_id, problem);
    if (r < 0)
        return r;
    cpu_yield_wanted(&sandbox->cpu_yield);
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

    if (sandbox->retry == RETRY_IN_ROOM && !all->events->has_room(all->userdata)) {
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
    if (sandbox->opening || sandbox->opens_memory) {
        sandbox->opening = data_forget(sandbox->opening);
        sandbox->making = sandbox->opens_memory = false;
    }
    if (sandbox->making)
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
