#include "host/controller.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "host/adopt.h"
#include "host/call.h"
#include "host/engine/engine.h"
#include "host/epitaph.h"
#include "host/files/beneath.h"
#include "host/files/disk_mount.h"
#include "host/files/sessiondir.h"
#include "host/front.h"
#include "host/guest.h"
#include "host/journal_ended.h"
#include "host/kept.h"
#include "host/pool.h"
#include "host/scheduling.h"
#include "host/session.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* For copying and hashing artifacts: the disk, not the number of processors, is what they wait for. */
#define WORKER_THREADS 2
#define WORKER_NICE    5
/* For making the disks of sessions, which is mostly waiting, too. */
#define MAKER_THREADS 2
#define MAKER_NICE    0
/* Containers that are not gone by then are left to the next start. */
#define SHUTDOWN_SECONDS 20
/* What an engine was still making when the last controller was killed is there by then. */
#define SWEEP_AGAIN_SECONDS 150

static void stop(Controller *controller)
{
    Request *request;

    list_foreach (request, &controller->shutdown_waiters, Request, link)
        request_reply_empty(request);
    loop_stop(controller->loop, 0);
}

void controller_session_gone(Controller *controller)
{
    if (controller->closing && list_empty(&controller->sandboxes))
        stop(controller);
}

static void on_shutdown_due(LoopTimer *timer)
{
    Controller *controller = container_of(timer, Controller, shutdown_timer);

    log_error("shutdown incomplete", "sessions=%zu", controller->session_count);
    stop(controller);
}

/* What one's end does may end others, so that each is looked for from the start. */
static bool leave_one(Controller *controller)
{
    Sandbox *sandbox;

    list_foreach (sandbox, &controller->sandboxes, Sandbox, link)
        if (sandbox_leave(sandbox))
            return true;
    return false;
}

void controller_shutdown(Controller *controller, bool keep)
{
    Sandbox *sandbox;

    if (controller->closing)
        return;
    log_info("shutting down", "sessions=%zu keep=%d", controller->session_count, keep);
    controller->closing = true;
    pool_stop(controller->pool);
    while (keep && leave_one(controller))
        ;
    loop_timer_set(controller->loop, &controller->shutdown_timer,
                   clock_now() + SHUTDOWN_SECONDS * NSEC_PER_SEC, on_shutdown_due);
    list_foreach (sandbox, &controller->sandboxes, Sandbox, link)
        sandbox_close(sandbox, "the controller is shutting down");
    controller_session_gone(controller);
}

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    controller_shutdown(container_of(signals, Controller, signals), false);
}

static bool has_directory(void *userdata, const char *id)
{
    const Controller *controller = userdata;
    const Sandbox *sandbox;

    list_foreach (sandbox, &controller->sandboxes, Sandbox, link)
        if (sessiondir_uses(&sandbox->directory, id))
            return true;
    return false;
}

/* Directories go when no container has them mounted any more. */
static void on_swept(void *userdata, unsigned removed)
{
    Controller *controller = userdata;

    sessiondir_sweep(controller->paths->state_dir, controller->worker, has_directory, controller);
    if (removed > 0)
        log_info("removed containers of an earlier controller", "count=%u", removed);
}

static int open_engine(Controller *controller, Problem *problem)
{
    EngineConfig config = paths_engine_config(controller->paths, controller->options);
    const char *name = controller->options->engine;
    const EngineOps *ops = *name ? engine_find(name) : adopt_engine(controller);

    if (!ops && !*name)
        ops = engine_choose(&config, problem);
    if (!ops && *name)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "there is no engine '%s'; the engines are oci, docker and local", name);
    return ops ? ops->open(controller->loop, &config, &controller->engine, problem) : -EPROTO;
}

/* The largest records a client may leave unread. */
#define UNREAD_RECORDS 4
#define CLIENTS_MAX    1024

static int open_socket(Controller *controller, Problem *problem)
{
    static const ListenerLimits limits = {
        .frame = LIMIT_CLIENT_FRAME,
        .queue = UNREAD_RECORDS * LIMIT_GUEST_FRAME,
        .peers = CLIENTS_MAX,
    };
    const char *path = controller->paths->socket;
    int r = listener_new(&controller->clients, controller->loop, path, &limits, &front_events, controller);

    if (r == -EADDRINUSE)
        return problem_set(
            problem, ERR_UNAVAILABLE,
            "another controller answers on %s; use that one, stop it, or give this one a socket "
            "of its own with --socket",
            path);
    return r < 0 ? problem_set(problem, ERR_INTERNAL, "cannot listen on %s: %s", path, strerror(-r)) : 0;
}

static void on_sweep_due(LoopTimer *timer)
{
    Controller *controller = container_of(timer, Controller, sweep_timer);

    controller->engine->ops->sweep(controller->engine, on_swept, controller);
}

/* What an earlier controller on this state directory left is taken over; what nobody can use is removed. */
static void take_over(Controller *controller)
{
    sessiondir_sweep_removed(controller->paths->state_dir, controller->worker);
    if (adopt_all(controller))
        loop_timer_set(controller->loop, &controller->sweep_timer,
                       clock_now() + SWEEP_AGAIN_SECONDS * NSEC_PER_SEC, on_sweep_due);
    guest_sweep(controller);
    controller->engine->ops->sweep(controller->engine, on_swept, controller);
}

static int watch_signals(Controller *controller)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    return loop_signals_add(controller->loop, &controller->signals, &set, on_signal);
}

/* Where they cannot be had sessions are not bounded, and that is said. */
static void look_for_disks(Controller *controller)
{
    Problem problem = PROBLEM_NULL;

    if (!controller->engine->ops->isolates)
        return;
    controller->has_disks = disk_check(controller->paths->state_dir, &problem) == 0;
    if (!controller->has_disks)
        log_warn("sessions have no disks of their own", "reason=%s consequence=%s", problem.text,
                 "what they write to /session is not bounded");
}

static int begin_workers(Controller *controller)
{
    int r = worker_new(&controller->worker, controller->loop, WORKER_THREADS, WORKER_NICE);

    return r < 0 ? r : worker_new(&controller->makers, controller->loop, MAKER_THREADS, MAKER_NICE);
}

static int check_kernel(Problem *problem)
{
    if (beneath_supported())
        return 0;
    return problem_set(
        problem, ERR_INTERNAL,
        "this kernel has no openat2, or a filter hides it, and files of a sandbox cannot be opened "
        "safely without; use Linux 5.6 or newer");
}

static int begin(Controller *controller, Problem *problem)
{
    int r = check_kernel(problem);

    if (r == 0)
        r = scheduling_claim(controller->options->core, problem);

    if (r < 0)
        return r;
    r = loop_new(&controller->loop);
    if (r == 0)
        r = watch_signals(controller);
    if (r == 0)
        r = begin_workers(controller);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot begin: %s", strerror(-r));
    r = open_engine(controller, problem);
    if (r == 0)
        r = open_socket(controller, problem);
    if (r == 0)
        r = pool_new(&controller->pool, controller, problem);
    if (r == 0) {
        look_for_disks(controller);
        take_over(controller);
        pool_begin(controller->pool);
        kept_begin(controller);
    }
    return r;
}

/* Those that are empty: what is in them belongs to sessions that live on. */
static void remove_directories(const Paths *paths)
{
    char path[PATH_MAX];

    snprintf(path, sizeof(path), "%s/guests", paths->runtime_dir);
    rmdir(path);
    rmdir(paths->runtime_dir);
}

static void end(Controller *controller)
{
    loop_timer_cancel(&controller->shutdown_timer);
    loop_timer_cancel(&controller->sweep_timer);
    courtesies_deinit(&controller->courtesies);
    if (controller->signals.file.loop)
        loop_signals_remove(&controller->signals);
    /* What the threads still do may end in a reply: they go before the sockets. */
    worker_free(controller->makers);
    worker_free(controller->worker);
    kept_end(controller);
    pool_free(controller->pool);
    if (controller->loop) {
        calls_deinit(controller);
        ended_deinit(controller);
    }
    epitaphs_deinit(controller);
    listener_free(controller->clients);
    if (controller->engine)
        controller->engine->ops->close(controller->engine);
    loop_free(controller->loop);
    remove_directories(controller->paths);
}

int controller_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
                   Problem *problem)
{
    Controller controller = {.options = options, .paths = paths};
    int r;

    list_init(&controller.guests_all);
    list_init(&controller.shutdown_waiters);
    list_init(&controller.adopt_waiting);
    list_init(&controller.sandboxes);
    calls_init(&controller);
    ended_init(&controller);
    courtesies_init(&controller.courtesies);
    epitaphs_init(&controller);
    r = begin(&controller, problem);
    if (r == 0) {
        log_info("serving", "socket=%s engine=%s state=%s", paths->socket, controller.engine->ops->name,
                 paths->state_dir);
        ready(userdata);
        r = loop_run(controller.loop);
    }
    end(&controller);
    return r;
}
