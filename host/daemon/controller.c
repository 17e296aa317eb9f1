#include "host/daemon/controller.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/daemon/check.h"
#include "host/egress/process.h"
#include "host/engine/rootless.h"
#include "host/files/beneath.h"
#include "host/files/disk.h"
#include "host/front/front.h"
#include "host/front/ops.h"
#include "host/journal/session_journal.h"
#include "host/sandbox/data.h"
#include "host/sandbox/leftovers.h"
#include "host/daemon/net.h"
#include "host/journal/adoption.h"
#include "host/journal/ended.h"
#include "host/privilege/remote.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

typedef struct EgressChild {
    const Options *options;
    Loop *loop;
    LoopChild child;
} EgressChild;

typedef struct Controller {
    const Options *options;
    Paths *paths;
    ControllerPeers peers; /* until they are talked to */
    Remote *remote;
    EgressChild egress; /* where there is no launcher to start it */
    Net net;            /* clients on other machines */
    Loop *loop;
    LoopSignals signals;
    Sandboxes sandboxes;
    Pool *pool;
    Sessions sessions;
    Calls calls;
    Installs installs;
    Ended ended;          /* sessions, of which records are stored */
    Adopting adopting;    /* sessions of an earlier controller */
    RetentionTimer *kept; /* leftovers of ended sessions */
    Templates templates;
    Front front;
    LoopTimer shutdown_timer;
    LoopTimer ending_timer; /* where the controller ends with its session, or is told to */
    LoopTimer sweep_timer;
} Controller;

static void stop_if_empty(Controller *controller);
static void end_with_session(Controller *controller);

/* ---- the egress process, where there is no launcher ---- */

/* Root with an engine that needs none has no launcher either. */
/* An EgressStarter whose userdata is an EgressChild. */
static int egress_child_start(void *userdata, int socket)
{
    EgressChild *egress = userdata;
    const Options *options = egress->options;
    Problem problem = PROBLEM_NULL;
    bool root = geteuid() == 0;
    Account account;

    if (root && account_find(options->egress_user, &account, &problem) < 0)
        return -ENOENT;
    return egress_start(egress->loop, &egress->child, root ? &account : NULL, options->log_level, socket);
}

/* ---- events of sandboxes and sessions ---- */

static void on_sandbox_gone(void *userdata)
{
    Controller *controller = userdata;

    retention_timer_wake(controller->kept);
    stop_if_empty(controller);
    end_with_session(controller);
}

/* Leaves a parked sandbox, which is on disk, to the next controller. */
static void on_sandbox_parked(Sandbox *sandbox)
{
    Controller *controller = sandbox->all->userdata;

    if (controller->front.closing)
        sandbox_leave(sandbox);
    else
        retention_timer_wake(controller->kept);
    end_with_session(controller);
}

static void on_sandbox_asked(Sandbox *sandbox, uint64_t id, Text packages)
{
    Controller *controller = sandbox->all->userdata;

    pip_asked(&controller->front, sandbox, id, packages);
}

static bool make_room(void *userdata)
{
    const Controller *controller = userdata;

    return pool_evict(controller->pool);
}

static void on_image_opened(void *userdata, const MemoryImage *image)
{
    const Controller *controller = userdata;

    pool_image_opened(controller->pool, image);
}

static bool has_room(void *userdata)
{
    const Controller *controller = userdata;

    return pool_is_empty(controller->pool);
}

static const SandboxesEvents sandboxes_events = {
    .begins = session_journal_begin,
    .assigned = session_journal_claimed,
    .changed = session_journal_rewrite,
    .closing = session_journal_closing,
    .parking = session_journal_saved,
    .parked = on_sandbox_parked,
    .over = session_journal_end,
    .asked = on_sandbox_asked,
    .gone = on_sandbox_gone,
    .make_room = make_room,
    .has_room = has_room,
    .image_opened = on_image_opened,
};

static void on_session_ready(Session *root)
{
    session_journal_ready(root->sandbox);
}

static void on_session_branched(Session *branch)
{
    session_journal_branch(branch);
}

/* Keeps what ended with the session. Nothing has ended of one that is left to the next controller. */
static void on_session_gone(Session *session)
{
    Controller *controller = session->all->userdata;

    if (session->sandbox->state != SANDBOX_LEFT)
        ended_keep(&controller->ended, session);
    if (session->branch != 0)
        session_journal_branch_closed(session);
    calls_orphan(&controller->calls, &session->stored);
}

static void on_session_prepare(Session *root)
{
    Controller *controller = root->all->userdata;

    prepare_session(&controller->front, root);
}

static bool on_session_closes(Session *root)
{
    Controller *controller = root->all->userdata;

    return call_last(&controller->calls, root);
}

static bool on_bounds(void *userdata, uid_t user, UserBounds *ret)
{
    const Controller *controller = userdata;

    return net_bounds(&controller->net, user, ret);
}

static void on_session_woken(Session *root, const Problem *failure)
{
    Controller *controller = root->all->userdata;

    front_resume_all(&controller->front, &root->asleep, failure);
}

static void on_name_settled(void *userdata, List *waiting)
{
    Controller *controller = userdata;

    front_resume_all(&controller->front, waiting, NULL);
}

static const SessionsEvents sessions_events = {
    .bounds = on_bounds,
    .closes = on_session_closes,
    .ready = on_session_ready,
    .prepare = on_session_prepare,
    .branched = on_session_branched,
    .back = session_journal_back,
    .woken = on_session_woken,
    .committed = session_journal_committed,
    .settled = on_name_settled,
    .gone = on_session_gone,
};

/* Containers that are not gone by then are left to the next start. */
#define SHUTDOWN_SECONDS 20
/* Time after which everything is there that an engine was still making when the last controller was
 * killed. */
#define SWEEP_AGAIN_SECONDS 150

/* ---- shutting down ---- */

static void stop(Controller *controller)
{
    Request *request;

    list_foreach (request, &controller->front.shutdown_waiters, Request, link)
        request_reply_empty(request);
    loop_stop(controller->loop, 0);
}

static void stop_if_empty(Controller *controller)
{
    if (controller->front.closing && list_empty(&controller->sandboxes.list))
        stop(controller);
}

static void on_shutdown_due(LoopTimer *timer)
{
    Controller *controller = container_of(timer, Controller, shutdown_timer);

    log_error("shutdown incomplete", "sessions=%zu", controller->sessions.count);
    stop(controller);
}

/* Leaves one sandbox: the end of one may end others, so that the next is looked for from the start. */
static bool leave_one(Controller *controller, bool keep)
{
    Sandbox *sandbox;

    list_foreach (sandbox, &controller->sandboxes.list, Sandbox, link)
        if ((keep || sandbox->state == SANDBOX_PARKED) && sandbox_leave(sandbox))
            return true;
    return false;
}

/* With `keep` those that are open are left to the next controller. Those that are saved always are. */
static void shut_down(void *userdata, bool keep)
{
    Controller *controller = userdata;
    Sandbox *sandbox;

    if (controller->front.closing)
        return;
    log_info("shutting down", "sessions=%zu keep=%d", controller->sessions.count, keep);
    controller->front.closing = true;
    pool_stop(controller->pool);
    data_shut_down(&controller->sandboxes);
    pieces_shut_down(&controller->front);
    while (leave_one(controller, keep))
        ;
    loop_timer_set(controller->loop, &controller->shutdown_timer,
                   clock_now() + SHUTDOWN_SECONDS * NSEC_PER_SEC, on_shutdown_due);
    list_foreach (sandbox, &controller->sandboxes.list, Sandbox, link)
        if (!sandbox->root || !session_close_gently(sandbox->root, "the controller is shutting down"))
            sandbox_shut_down(sandbox);
    stop_if_empty(controller);
}

/* ---- ending with the session, in a pod ---- */

/* For replies that are on their way through another process. */
#define REPLY_SECONDS 1
/* Time that a call has when the pod is about to go. It is interrupted then, and the session is saved. */
#define CALL_SECONDS 10

static void on_session_over(LoopTimer *timer)
{
    Controller *controller = container_of(timer, Controller, ending_timer);

    while (leave_one(controller, false))
        ;
    stop_if_empty(controller);
}

/* Takes no more requests once the session is over, or saved: somebody else makes another pod for the next. */
static void end_with_session(Controller *controller)
{
    if (!controller->sandboxes.engine->ops->single || controller->front.closing)
        return;
    controller->front.closing = true;
    pool_stop(controller->pool);
    loop_timer_set(controller->loop, &controller->ending_timer, clock_now() + REPLY_SECONDS * NSEC_PER_SEC,
                   on_session_over);
}

/* Nobody uses the session of the pod, or it has none: whoever had the pod made may have died. */
static void on_claim_due(LoopTimer *timer)
{
    Controller *controller = container_of(timer, Controller, ending_timer);
    Sandbox *sandbox;

    list_foreach (sandbox, &controller->sandboxes.list, Sandbox, link)
        if (sandbox->state != SANDBOX_PARKED)
            return;
    log_info("nobody has opened the session of this pod", "timeout=%g", controller->options->claim_timeout);
    controller->front.closing = true;
    on_session_over(timer);
}

static void wait_for_claim(Controller *controller)
{
    if (controller->sandboxes.engine->ops->single && controller->options->claim_timeout > 0)
        loop_timer_set(controller->loop, &controller->ending_timer,
                       clock_now() + (uint64_t)(controller->options->claim_timeout * NSEC_PER_SEC),
                       on_claim_due);
}

static void on_call_due(LoopTimer *timer)
{
    Controller *controller = container_of(timer, Controller, ending_timer);
    Sandbox *sandbox;

    list_foreach (sandbox, &controller->sandboxes.list, Sandbox, link)
        sandbox_interrupt(sandbox);
}

/* Has the session of a pod saved for the next one, if it is one that would be saved when it is idle. False:
 * it is not. */
static bool save_for_next(Controller *controller)
{
    Sandbox *sandbox;
    bool saving = false;

    list_foreach (sandbox, &controller->sandboxes.list, Sandbox, link)
        saving |= sandbox->all->engine->ops->single && sandbox->root && !controller->front.closing &&
                  strcmp(sandbox->options.ttl_action, "save") == 0 && session_save(sandbox->root);
    if (!saving)
        return false;
    log_info("saving before the end", "timeout=%d", SHUTDOWN_SECONDS);
    controller->front.closing = true;
    loop_timer_set(controller->loop, &controller->ending_timer, clock_now() + CALL_SECONDS * NSEC_PER_SEC,
                   on_call_due);
    loop_timer_set(controller->loop, &controller->shutdown_timer,
                   clock_now() + SHUTDOWN_SECONDS * NSEC_PER_SEC, on_shutdown_due);
    return true;
}

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    Controller *controller = container_of(signals, Controller, signals);

    if (number == SIGHUP)
        net_read_keys(&controller->net);
    else if (!save_for_next(controller))
        shut_down(controller, false);
}

static const char *promised_packages(const void *userdata, size_t i)
{
    return templates_packages(userdata, i);
}

/* ---- beginning ---- */

/* The launcher's, which chooses it. */
static int open_remote(Controller *controller, const EngineConfig *config, Problem *problem)
{
    const EngineOps *adopted = adopt_engine(controller->paths);
    int r = remote_open(&controller->remote, controller->loop, take_fd(&controller->peers.launcher), config,
                        adopted ? adopted->name : "", problem);

    if (r == 0)
        controller->sandboxes.engine = remote_engine(controller->remote);
    return r;
}

/* NULL: the problem is set. */
static const EngineOps *choose_engine(const Options *options, const Paths *paths, const EngineConfig *config,
                                      Problem *problem)
{
    const char *name = options->engine;
    const EngineOps *ops = rootless_entered() ? &engine_oci : *name ? engine_find(name) : adopt_engine(paths);

    if (!ops && !*name)
        ops = engine_choose(config, problem);
    if (!ops && *name)
        problem_set(problem, ERR_BAD_REQUEST,
                    "unknown engine '%s'; the engines are oci, docker, pod and local", name);
    return ops;
}

int controller_claim_rights(const Options *options, Paths *paths, Problem *problem)
{
    EngineConfig config = engine_config(paths, options);
    const EngineOps *ops = geteuid() == 0 ? NULL : choose_engine(options, paths, &config, problem);

    if (geteuid() == 0)
        return 0;
    if (ops != &engine_oci)
        return ops ? 0 : -EPROTO;
    if (rootless_enter(&config, problem) < 0)
        return -EPROTO;
    paths->inside = true;
    return 0;
}

static int open_engine(Controller *controller, Problem *problem)
{
    EngineConfig config = engine_config(controller->paths, controller->options);
    const EngineOps *ops;

    if (controller->peers.launcher >= 0)
        return open_remote(controller, &config, problem);
    ops = choose_engine(controller->options, controller->paths, &config, problem);
    return ops ? ops->open(controller->loop, &config, &controller->sandboxes.engine, problem) : -EPROTO;
}

static void on_sweep_due(LoopTimer *timer)
{
    Controller *controller = container_of(timer, Controller, sweep_timer);

    sweep_sandboxes(&controller->sandboxes);
}

/* Takes over what an earlier controller on this state directory left, and removes what nobody can use. */
static void take_over(Controller *controller)
{
    bool complete;

    file_service_tell(controller->sandboxes.file_service, JOB_SWEEP_REMOVED, &(JobNothing){0});
    templates_load(&controller->templates, controller->paths, controller->sandboxes.file_service);
    complete = !adopt_all(&controller->adopting);
    memory_images_sweep(&controller->sandboxes.images);
    ended_load(&controller->ended);
    if (!complete)
        loop_timer_set(controller->loop, &controller->sweep_timer,
                       clock_now() + SWEEP_AGAIN_SECONDS * NSEC_PER_SEC, on_sweep_due);
    sweep_links(&controller->sandboxes);
    sweep_sandboxes(&controller->sandboxes);
}

static int watch_signals(Controller *controller)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    return loop_signals_add(controller->loop, &controller->signals, &set, on_signal);
}

/* Looks whether disks can be had. Without them sessions are not bounded, and a warning says so. */
static void look_for_disks(Sandboxes *all, const Remote *remote)
{
    const char *reason = remote ? remote_no_disks(remote) : NULL;
    Problem problem = PROBLEM_NULL;

    if (!sandboxes_isolate(all) || all->engine->ops->single)
        return;
    if (!remote && disk_check(all->paths->state_dir, &problem) < 0)
        reason = problem.text;
    all->has_disks = !reason;
    if (reason)
        log_warn("the size of /session is not limited", "reason=%s consequence=%s", reason,
                 "options disk and files have no effect");
}

static int begin_file_service(Controller *controller, Problem *problem)
{
    Sandboxes *all = &controller->sandboxes;
    int r;

    look_for_disks(all, controller->remote);
    if (controller->peers.files_worker >= 0)
        r = file_service_client_connect(&all->file_service, all->loop,
                                        take_fd(&controller->peers.files_worker));
    else
        r = file_service_client_new(&all->file_service, all->loop, all->paths->state_dir, all->has_disks);
    all->images.file_service = all->file_service;
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "cannot keep files: %s", strerror(-r)) : 0;
}

static int start_egress(void *userdata, int socket)
{
    return remote_start_egress(userdata, socket);
}

static void on_log_moved(void *userdata)
{
    Controller *controller = userdata;

    egress_client_say_log(controller->sandboxes.egress);
    net_send_log(&controller->net);
}

/* None runs before a session needs it. */
static int begin_egress(Controller *controller, Problem *problem)
{
    EgressClient **ret = &controller->sandboxes.egress;
    int r;

    controller->egress = (EgressChild){.options = controller->options, .loop = controller->loop};
    if (controller->remote)
        r = egress_client_new(ret, controller->loop, start_egress, controller->remote);
    else
        r = egress_client_new(ret, controller->loop, egress_child_start, &controller->egress);
    if (r == 0 && controller->remote)
        remote_on_log(controller->remote, on_log_moved, controller);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "out of memory") : 0;
}

static int client_of(void *userdata, uid_t user)
{
    const Controller *controller = userdata;

    return listener_connection_of(controller->front.clients, user);
}

static int begin_front(Controller *controller, Problem *problem)
{
    int r = front_open(&controller->front, controller->loop,
                       controller->remote ? remote_take_clients(controller->remote) : -1, problem);

    if (r == 0 && controller->remote)
        remote_on_open(controller->remote, client_of, controller);
    return r;
}

static int check_kernel(Problem *problem)
{
    if (beneath_supported())
        return 0;
    return problem_set(problem, ERR_INTERNAL,
                       "the system call openat2 is not available, and files of a sandbox cannot be opened "
                       "safely without it; use Linux 5.6 or newer");
}

/* Introduces the parts of the controller to each other: each to those that its folder may include. */
static void introduce(Controller *controller)
{
    Sandboxes *sandboxes = &controller->sandboxes;
    Sessions *sessions = &controller->sessions;
    Calls *calls = &controller->calls;

    sandboxes->options = sessions->options = controller->front.options = controller->options;
    sandboxes->paths = controller->ended.paths = controller->front.paths = controller->paths;
    sandboxes->events = &sandboxes_events;
    sandboxes->userdata = controller;
    sessions->sandboxes = sandboxes;
    sessions->events = &sessions_events;
    sessions->userdata = controller;
    calls->ended = session_journal_call;
    controller->ended.calls = calls;
    controller->ended.end_records = &sessions->end_records;
    controller->adopting = (Adopting){.sandboxes = sandboxes,
                                      .sessions = sessions,
                                      .calls = calls,
                                      .events = &front_adopting_events,
                                      .userdata = &controller->front};
    controller->front.sandboxes = controller->installs.sandboxes = sandboxes;
    controller->installs.installed = session_journal_packages;
    controller->installs.promised = promised_packages;
    controller->installs.userdata = &controller->templates;
    controller->front.installs = &controller->installs;
    controller->front.sessions = sessions;
    controller->front.calls = calls;
    controller->front.templates = &controller->templates;
    controller->front.adopting = &controller->adopting;
    controller->front.shutdown = shut_down;
    controller->front.userdata = controller;
}

static int begin_loop(Controller *controller, Problem *problem)
{
    int r = loop_new(&controller->loop);

    controller->sandboxes.loop = controller->sessions.loop = controller->loop;
    controller->sandboxes.cpu_yields.loop = controller->loop;
    controller->calls.loop = controller->ended.loop = controller->loop;
    if (r == 0)
        r = watch_signals(controller);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "cannot start: %s", strerror(-r)) : 0;
}

static int begin_pool(Controller *controller, Problem *problem)
{
    int r = pool_new(&controller->pool, &controller->sandboxes, problem);

    controller->sessions.pool = controller->pool;
    controller->front.pool = controller->pool;
    return r;
}

static int begin(Controller *controller, Problem *problem)
{
    int r = check_kernel(problem);

    if (r == 0)
        r = begin_loop(controller, problem);
    if (r == 0)
        r = open_engine(controller, problem);
    if (r == 0)
        r = begin_file_service(controller, problem);
    if (r == 0)
        r = begin_egress(controller, problem);
    if (r == 0)
        r = begin_front(controller, problem);
    if (r == 0)
        r = begin_pool(controller, problem);
    if (r == 0)
        r = net_begin(&controller->net, controller->options, controller->paths, controller->loop,
                      controller->remote, &controller->front, problem);
    if (r < 0)
        return r;
    take_over(controller);
    wait_for_claim(controller);
    pool_begin(controller->pool);
    controller->kept = retention_timer_begin(&controller->sandboxes);
    return 0;
}

/* ---- ending ---- */

/* Removes directories that are empty: what is in others belongs to sessions that live on. */
static void remove_directories(const Paths *paths)
{
    rmdir(paths->links);
    rmdir(paths->runtime_dir);
}

static void end(Controller *controller)
{
    Sandboxes *sandboxes = &controller->sandboxes;

    loop_timer_cancel(&controller->shutdown_timer);
    loop_timer_cancel(&controller->ending_timer);
    loop_timer_cancel(&controller->sweep_timer);
    sandboxes_deinit(sandboxes);
    egress_client_free(sandboxes->egress);
    helper_end(&controller->egress.child);
    net_end(&controller->net);
    if (controller->signals.file.loop)
        loop_signals_remove(&controller->signals);
    /* Work that the threads still do may end in a reply: they go before the sockets. */
    file_service_client_free(sandboxes->file_service);
    sandboxes->images.file_service = NULL;
    installs_deinit(&controller->installs);
    retention_timer_end(controller->kept);
    pool_free(controller->pool);
    memory_images_deinit(&sandboxes->images);
    templates_deinit(&controller->templates);
    calls_deinit(&controller->calls);
    ended_deinit(&controller->ended);
    end_records_deinit(&controller->sessions.end_records);
    listener_free(controller->front.clients);
    if (sandboxes->engine)
        sandboxes->engine->ops->close(sandboxes->engine);
    loop_free(controller->loop);
    close_fd(&controller->peers.launcher);
    close_fd(&controller->peers.files_worker);
    remove_directories(controller->paths);
}

int controller_run(const Options *options, Paths *paths, const ControllerPeers *peers,
                   void (*ready)(void *userdata), void *userdata, Problem *problem)
{
    Controller controller = {
        .options = options, .paths = paths, .peers = peers ? *peers : CONTROLLER_PEERS_NULL};
    int r;

    sandboxes_init(&controller.sandboxes);
    end_records_init(&controller.sessions.end_records);
    calls_init(&controller.calls);
    installs_init(&controller.installs);
    ended_init(&controller.ended);
    front_init(&controller.front);
    introduce(&controller);
    r = begin(&controller, problem);
    if (r == 0) {
        log_info("serving", "socket=%s engine=%s state=%s", paths->socket,
                 sandboxes_engine(&controller.sandboxes), paths->state_dir);
        if (controller.remote)
            remote_ready(controller.remote);
        ready(userdata);
        r = loop_run(controller.loop);
    }
    end(&controller);
    return r;
}
