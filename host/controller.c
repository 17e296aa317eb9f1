#include "host/controller.h"

#include <errno.h>
#include <string.h>

#include "host/call.h"
#include "host/engine/engine.h"
#include "host/files/sessiondir.h"
#include "host/front.h"
#include "host/guest.h"
#include "host/scheduling.h"
#include "host/session.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* For copying and hashing artifacts: the disk, not the number of processors, is what they wait for. */
#define WORKER_THREADS 2
/* Containers that are not gone by then are left to the next start. */
#define SHUTDOWN_SECONDS 20

static void stop(Controller *controller)
{
    Request *request;

    list_foreach (request, &controller->shutdown_waiters, Request, link)
        request_reply_empty(request);
    loop_stop(controller->loop, 0);
}

void controller_session_gone(Controller *controller)
{
    if (controller->closing && controller->session_count == 0)
        stop(controller);
}

static void on_shutdown_due(LoopTimer *timer)
{
    Controller *controller = container_of(timer, Controller, shutdown_timer);

    log_error("shutdown incomplete", "sessions=%zu", controller->session_count);
    stop(controller);
}

void controller_shutdown(Controller *controller)
{
    Session *session, *next;

    if (controller->closing)
        return;
    log_info("shutting down", "sessions=%zu", controller->session_count);
    controller->closing = true;
    loop_timer_set(controller->loop, &controller->shutdown_timer,
                   clock_now() + SHUTDOWN_SECONDS * NSEC_PER_SEC, on_shutdown_due);
    HASH_ITER (by_name, controller->sessions, session, next)
        session_close(session, NULL, "the controller is shutting down");
    controller_session_gone(controller);
}

static void on_signal(LoopSignals *signals, int number, pid_t sender)
{
    controller_shutdown(container_of(signals, Controller, signals));
}

static void on_swept(void *userdata, unsigned removed)
{
    if (removed > 0)
        log_info("removed containers of an earlier controller", "count=%u", removed);
}

static int open_engine(Controller *controller, Problem *problem)
{
    EngineConfig config = paths_engine_config(controller->paths, controller->options);
    const char *name = controller->options->engine;
    const EngineOps *ops = *name ? engine_find(name) : engine_choose(&config, problem);

    if (!ops && *name)
        return problem_set(problem, ERR_BAD_REQUEST,
                           "there is no engine '%s'; the engines are oci, docker and local", name);
    return ops ? ops->open(controller->loop, &config, &controller->engine, problem) : -EPROTO;
}

static int open_sockets(Controller *controller, Problem *problem)
{
    int r;

    controller->link_context = link_context_new();
    if (!controller->link_context)
        return problem_set(problem, ERR_INTERNAL, "ZeroMQ: %s", strerror(errno));
    r = router_new(&controller->clients, controller->loop, controller->link_context, LIMIT_CLIENT_FRAME,
                   &front_events, controller);
    if (r == 0)
        r = router_new(&controller->guests, controller->loop, controller->link_context, LIMIT_GUEST_FRAME,
                       &guest_router_events, controller);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "ZeroMQ: %s", strerror(-r));
    r = router_bind(controller->clients, controller->paths->socket);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot listen on %s: %s", controller->paths->socket,
                           strerror(-r));
    return 0;
}

/* What an earlier controller on this state directory left is removed: its sessions are nobody's. */
static void sweep(Controller *controller)
{
    guest_sweep(controller->paths);
    sessiondir_sweep(controller->paths->state_dir, controller->worker);
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

static int begin(Controller *controller, Problem *problem)
{
    int r = scheduling_claim(controller->options->core, problem);

    if (r < 0)
        return r;
    r = loop_new(&controller->loop);
    if (r == 0)
        r = watch_signals(controller);
    if (r == 0)
        r = worker_new(&controller->worker, controller->loop, WORKER_THREADS);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "cannot begin: %s", strerror(-r));
    r = open_engine(controller, problem);
    if (r == 0)
        r = open_sockets(controller, problem);
    if (r == 0)
        sweep(controller);
    return r;
}

static void end(Controller *controller)
{
    loop_timer_cancel(&controller->shutdown_timer);
    if (controller->signals.file.loop)
        loop_signals_remove(&controller->signals);
    /* What the threads still do may end in a reply: they go before the sockets. */
    worker_free(controller->worker);
    if (controller->loop)
        calls_deinit(controller);
    if (controller->clients)
        router_unbind(controller->clients, controller->paths->socket);
    router_free(controller->clients);
    router_free(controller->guests);
    link_context_free(controller->link_context);
    if (controller->engine)
        controller->engine->ops->close(controller->engine);
    loop_free(controller->loop);
    guest_sweep(controller->paths);
    rmdir(controller->paths->runtime_dir);
}

int controller_run(const Options *options, Paths *paths, void (*ready)(void *userdata), void *userdata,
                   Problem *problem)
{
    Controller controller = {.options = options, .paths = paths};
    int r;

    list_init(&controller.guests_all);
    list_init(&controller.shutdown_waiters);
    calls_init(&controller);
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
