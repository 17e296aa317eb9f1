/* Making what a sandbox consists of, and removing it: its directories, its network and its container. */
#include <errno.h>
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

    if (all->engine->ops->single && session_options_reach(options))
        return problem_set(problem, ERR_BAD_REQUEST,
                           "the network rules and bindings of a session need a host to go through, and the "
                           "engine %s has none; leave allow and bindings out",
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

static FilesRoom room_of(const SessionOptions *options)
{
    return (FilesRoom){options->disk, options->files};
}

static bool is_another_users(const Sandbox *sandbox)
{
    return sandbox->user != sandbox->all->paths->user;
}

/* No name has an @. */
void sandbox_published_id(char ret[static PUBLISHED_ID_SIZE], const Sandbox *sandbox, const char *name)
{
    if (is_another_users(sandbox))
        snprintf(ret, PUBLISHED_ID_SIZE, "%u@%s", (unsigned)sandbox->user, name);
    else
        snprintf(ret, PUBLISHED_ID_SIZE, "%s", name);
}

static int claim_published(Sandbox *sandbox, const char *name, const FilesRoom *room, Problem *problem)
{
    char id[PUBLISHED_ID_SIZE];

    sandbox_published_id(id, sandbox, name);
    return session_files_claim(&sandbox->files, id, is_another_users(sandbox) ? sandbox->user : NO_UINT, room,
                               problem);
}

int sandbox_claim_published(Sandbox *sandbox, const char *name, Problem *problem)
{
    const FilesRoom room = room_of(&sandbox->options);

    return claim_published(sandbox, name, &room, problem);
}

/* Has what code writes to elsewhere than below the name of the session: another user gets to what is
 * published, and not to where the rest is. */
static int make_apart(Sandbox *sandbox, const char *name, Problem *problem)
{
    const bool single = sandbox->all->engine->ops->single;
    char id[INSTANCE_SIZE + 1];
    int r;

    if (single && sandbox->all->list.next->next != &sandbox->all->list)
        return problem_set(problem, ERR_LIMIT_REACHED,
                           "a pod has one session at a time, and this one has one; use another pod");
    if (single)
        snprintf(id, sizeof(id), SESSIONDIR_MOUNTED);
    else
        snprintf(id, sizeof(id), PRIVATE_MARK "%s", sandbox->instance);
    r = session_files_make(&sandbox->files, sandbox->all->paths->state_dir, id, sandbox->ephemeral, false,
                           problem);
    return r < 0 ? r : claim_published(sandbox, name, NULL, problem);
}

/* Makes what can be made at once, with the published directory unless the sandbox is a spare. */
static int make_directories(Sandbox *sandbox, const char *id, Problem *problem)
{
    if (is_another_users(sandbox) || sandbox->all->engine->ops->single)
        return make_apart(sandbox, id, problem);
    return session_files_make(&sandbox->files, sandbox->all->paths->state_dir, id, sandbox->ephemeral,
                              sandbox->state != SANDBOX_WARMING, problem);
}

int sandbox_watch_artifacts(Sandbox *sandbox, Problem *problem)
{
    return session_files_watch(&sandbox->files, room_of(&sandbox->options), problem);
}

/* Watches for artifacts, unless the sandbox is a spare: its files are watched once they are a session's. */
static int finish_places(Sandbox *sandbox, Problem *problem)
{
    return sandbox->state == SANDBOX_WARMING ? 0 : sandbox_watch_artifacts(sandbox, problem);
}

/* A step that took a moment is done. Whether there is more to do. */
static bool go_on(Sandbox *sandbox, const KeeperAnswer *answer)
{
    sandbox->places.making = false;
    if (sandbox_is_ending(sandbox))
        sandbox_end(sandbox);
    else if (answer->problem)
        sandbox->places.made(sandbox, answer->problem);
    else
        return true;
    return false;
}

static void finish_later(Sandbox *sandbox)
{
    Problem problem = PROBLEM_NULL;

    sandbox->places.made(sandbox, finish_places(sandbox, &problem) < 0 ? &problem : NULL);
}

static void on_template_put(void *userdata, KeeperAnswer *answer)
{
    if (go_on(userdata, answer))
        finish_later(userdata);
}

static int put_template(Sandbox *sandbox, Problem *problem)
{
    int r = session_files_put_template(&sandbox->files, sandbox->spare_spec.template, on_template_put,
                                       sandbox, problem);

    sandbox->places.making = r == 0;
    return r;
}

static void on_filled(void *userdata, KeeperAnswer *answer)
{
    Sandbox *sandbox = userdata;
    Problem problem = PROBLEM_NULL;

    if (!go_on(sandbox, answer))
        return;
    if (!sandbox->spare_spec.template)
        finish_later(sandbox);
    else if (put_template(sandbox, &problem) < 0)
        sandbox->places.made(sandbox, &problem);
}

/* At once, or on a disk or with the files of a template, which takes a moment. */
static int fill_places(Sandbox *sandbox, Problem *problem)
{
    int r;

    if (sandbox->all->has_disks) {
        r = session_files_fill_disk(&sandbox->files, room_of(&sandbox->options), on_filled, sandbox, problem);
        sandbox->places.making = r == 0;
        return r;
    }
    r = session_files_fill(&sandbox->files, problem);
    if (r < 0)
        return r;
    return sandbox->spare_spec.template ? put_template(sandbox, problem) : finish_places(sandbox, problem);
}

int sandbox_make_link(Sandbox *sandbox, Problem *problem)
{
    int r =
        guest_new(&sandbox->guest, sandbox->all, sandbox->files.id, &sandbox_guest_events, sandbox, problem);

    return r < 0 ? r : sandbox_serve_network(sandbox, sandbox->name, &sandbox->options, problem);
}

/* Begins to make its directories and where its supervisor connects. Where a thread is needed for it `made` is
 * called when they are there, or cannot be (failure is not NULL), unless the sandbox ends before; otherwise
 * it is not, and they are there now. 0, or negative with the problem set. */
static int make_places(Sandbox *sandbox, const char *output_id,
                       void (*made)(Sandbox *sandbox, const Problem *failure), Problem *problem)
{
    const char *id = output_id ? output_id : sandbox->name;
    int r = make_directories(sandbox, id, problem);

    sandbox->places.made = made;
    if (r == 0)
        r = sandbox_make_link(sandbox, problem);
    return r < 0 ? r : fill_places(sandbox, problem);
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

static void give_up_container(Sandbox *sandbox, const char *reason)
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
        give_up_container(sandbox, "a process other than its first one answered for it");
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
        give_up_container(sandbox, reason);
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

/* Gives the requests that wait the reason itself, before the sandbox ends: they would have got it if all of
 * this were done at once. */
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
    r = make_places(sandbox, output_id, on_places_made, problem);
    if (r == 0 && sandbox->places.making)
        wait_for_start(sandbox);
    else if (r == 0)
        r = begin_container(sandbox, problem);
    if (r < 0)
        sandbox_free(sandbox);
    return r;
}

int sandbox_start(Sandbox **ret, Sandboxes *all, const SandboxAssignment *assignment, SessionOptions *options,
                  const SandboxOwner *owner, Problem *problem)
{
    Sandbox *sandbox = sandbox_new(all, assignment->output_id != NULL, options, owner, NULL);
    int r;

    if (!sandbox)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    sandbox->user = sandbox->files.user = assignment->user;
    sandbox->restorer = assignment->restorer;
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
