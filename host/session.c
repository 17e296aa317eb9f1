#include "host/session_parts.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "host/sessions.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static const ContainerEvents container_events;

static void answer_open(Session *session, Request *request, bool created)
{
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;

    writer_init(&w, &body);
    write_map(&w, 5);
    write_key(&w, "session");
    write_text(&w, session->name);
    write_key(&w, "instance");
    write_text(&w, session->instance);
    write_key(&w, "created");
    write_bool(&w, created);
    write_key(&w, "engine");
    write_text(&w, session->controller->engine->ops->name);
    write_key(&w, "options");
    session_options_write(&w, &session->options);
    writer_finish(&w);
    request_reply(request, &body);
}

void session_wait_open(Session *session, Request *request)
{
    if (session->state == SESSION_READY)
        answer_open(session, request, false);
    else
        list_append(&session->openers, &request->link);
}

void session_become_ready(Session *session)
{
    Request *request;
    uint64_t bytes;
    bool created = true;

    if (session->state != SESSION_STARTING || !session->container_started || !session->guest_ready)
        return;
    session->state = SESSION_READY;
    loop_timer_cancel(&session->start_timer);
    if (session->controller->engine->ops->memory(session->container, &bytes, &session->oom_kills) < 0)
        session->oom_kills = 0;
    log_info("session ready", "session=%s image=%s", session->name, session->options.image);
    list_foreach (request, &session->openers, Request, link) {
        answer_open(session, request, created);
        created = false;
    }
    session_rest(session);
}

static void on_started(Container *container, void *userdata, pid_t first_process)
{
    Session *session = userdata;
    const EngineOps *ops = session->controller->engine->ops;

    if (session->state != SESSION_STARTING)
        return;
    if (guest_expect(session->guest, ops->peer_is_first_process ? first_process : 0) < 0) {
        session_close(session, NULL, "someone else than its first process answered for it");
        return;
    }
    session->container_started = true;
    session_become_ready(session);
}

static void fail_openers(Session *session, const Problem *problem)
{
    Request *request;

    list_foreach (request, &session->openers, Request, link)
        request_fail(request, problem);
}

static void on_failed(Container *container, void *userdata, const Problem *problem)
{
    Session *session = userdata;

    log_warn("container failed", "session=%s reason=%s", session->name, problem->text);
    fail_openers(session, problem);
    session_close(session, NULL, problem->text);
}

static void on_start_due(LoopTimer *timer)
{
    Session *session = container_of(timer, Session, start_timer);
    Problem problem = PROBLEM_NULL;

    problem_set(
        &problem, ERR_ENGINE_ERROR,
        "the container was not up within %.0f seconds (option start_timeout); limpetd --check may say why",
        session->controller->options->start_timeout);
    on_failed(session->container, session, &problem);
}

static void on_gone(Container *container, void *userdata, const char *why)
{
    Session *session = userdata;
    char reason[256];

    snprintf(reason, sizeof(reason), "its container is gone: %s", why);
    session_close(session, NULL, reason);
}

static Session *session_alloc(Controller *controller, const char *name, bool ephemeral)
{
    Session *session = calloc(1, sizeof(*session));
    uint64_t random;

    if (!session || getrandom(&random, sizeof(random), 0) != sizeof(random)) {
        free(session);
        return NULL;
    }
    snprintf(session->instance, sizeof(session->instance), "%016llx", (unsigned long long)random);
    snprintf(session->name, sizeof(session->name), "%s", name);
    session->controller = controller;
    session->ephemeral = ephemeral;
    session->epoch = 1;
    session->created = clock_unix();
    session->used = clock_now();
    session->directory = SESSIONDIR_NULL;
    list_init(&session->queue);
    list_init(&session->stored);
    list_init(&session->openers);
    list_init(&session->resetters);
    list_init(&session->closers);
    list_init(&session->waiters);
    return session;
}

static int create_container(Session *session, Problem *problem)
{
    Controller *controller = session->controller;
    const SessionOptions *options = &session->options;
    ContainerSpec spec = {
        .name = session->container_name,
        .owner = controller->paths->owner,
        .session = session->name,
        .image = options->image,
        .memory = options->memory,
        .cpus = options->cpus,
        .pids = (unsigned)options->pids,
        .network = options->network,
        .session_dir = session->directory.files_path,
        .work_dir = session->directory.work_path,
        .data_dir = options->data,
        .link_dir = session->guest->directory,
    };

    snprintf(session->container_name, sizeof(session->container_name), "limpet-%s-%s",
             controller->paths->owner, session->instance);
    return controller->engine->ops->create(controller->engine, &spec, &container_events, session,
                                           &session->container, problem);
}

static int watch_artifacts(Session *session, Problem *problem)
{
    const SessionDir *directory = &session->directory;
    int r = artifacts_new(&session->artifacts, directory->artifacts_root, "/session/artifacts",
                          directory->published_path);

    if (r == 0 && session->ephemeral)
        r = artifacts_new(&session->work_artifacts, directory->work_artifacts_root, "/work/artifacts",
                          directory->work_published_path);
    if (r < 0)
        problem_set(problem, ERR_INTERNAL, "cannot watch the artifacts of '%s': %s", session->name,
                    strerror(-r));
    return r;
}

static Session *session_free(Session *session);

int session_start(Session **ret, Controller *controller, const char *name, bool ephemeral,
                  const char *output_id, SessionOptions *options, Problem *problem)
{
    Session *session = session_alloc(controller, name, ephemeral);
    int r;

    if (!session)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    session->options = *options;
    *options = (SessionOptions){0};
    r = sessiondir_make(&session->directory, controller->paths->state_dir, ephemeral ? output_id : name,
                        ephemeral, problem);
    if (r == 0)
        r = watch_artifacts(session, problem);
    if (r == 0)
        r = guest_new(&session->guest, controller, name, &session_guest_events, session, problem);
    if (r == 0)
        r = create_container(session, problem);
    if (r < 0) {
        session_free(session);
        return r;
    }
    sessions_add(controller, session);
    loop_timer_set(controller->loop, &session->start_timer,
                   clock_now() + clock_from_seconds(controller->options->start_timeout), on_start_due);
    *ret = session;
    return 0;
}

static Session *session_free(Session *session)
{
    loop_timer_cancel(&session->start_timer);
    loop_timer_cancel(&session->idle_timer);
    loop_timer_cancel(&session->watchdog);
    artifacts_free(session->artifacts);
    artifacts_free(session->work_artifacts);
    artifact_list_free(session->published);
    guest_free(session->guest);
    sessiondir_remove(&session->directory, session->controller->worker);
    session_options_deinit(&session->options);
    buf_deinit(&session->executed);
    free(session);
    return NULL;
}

/* Moves what is in `from` to the end of `to`. */
static void move_all(List *to, List *from)
{
    List *link;

    while ((link = list_first(from))) {
        list_remove(link);
        list_append(to, link);
    }
}

/* Nothing of the session is left when those who waited for its end are told. */
static void on_removed(void *userdata)
{
    Session *session = userdata;
    Controller *controller = session->controller;
    List waiters = LIST_INIT(waiters), closers = LIST_INIT(closers);
    SessionWaiter *waiter;
    Request *request;

    log_info("session closed", "session=%s calls=%llu", session->name,
             (unsigned long long)session->execution_count);
    move_all(&waiters, &session->waiters);
    move_all(&closers, &session->closers);
    calls_orphan(controller, &session->stored);
    sessions_remove(controller, session);
    session_free(session);
    list_foreach (request, &closers, Request, link)
        request_reply_empty(request);
    list_foreach (waiter, &waiters, SessionWaiter, link) {
        list_remove(&waiter->link);
        waiter->on_gone(waiter);
    }
    controller_session_gone(controller);
}

static const ContainerEvents container_events = {
    .started = on_started,
    .failed = on_failed,
    .gone = on_gone,
    .removed = on_removed,
};

void session_close(Session *session, Request *request, const char *reason)
{
    Problem problem = PROBLEM_NULL;
    Request *waiting;

    if (request)
        list_append(&session->closers, &request->link);
    if (session->state == SESSION_CLOSING)
        return;
    log_debug("session closing", "session=%s reason=%s", session->name, reason);
    session->state = SESSION_CLOSING;
    loop_timer_cancel(&session->start_timer);
    loop_timer_cancel(&session->idle_timer);
    loop_timer_cancel(&session->watchdog);
    if (session->running)
        session->epoch++;
    session_end_calls(session, reason);
    problem_set(&problem, ERR_SESSION_CLOSED, "the session '%s' was closed: %s", session->name, reason);
    fail_openers(session, &problem);
    list_foreach (waiting, &session->resetters, Request, link)
        request_fail(waiting, &problem);
    session->controller->engine->ops->remove(session->container);
}

void session_wait_gone(Session *session, SessionWaiter *waiter)
{
    list_append(&session->waiters, &waiter->link);
}

const char *session_status(const Session *session)
{
    if (session->state == SESSION_STARTING)
        return "starting";
    if (session->state == SESSION_CLOSING)
        return "closing";
    return session->running ? "running" : "idle";
}
