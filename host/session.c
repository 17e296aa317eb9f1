#include "host/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "host/epitaph.h"
#include "host/journal_ended.h"
#include "host/journal_sandbox.h"
#include "host/pool.h"
#include "host/sandbox_parts.h"
#include "host/sessions.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static void answer_open(Session *session, Request *request)
{
    const MsgOpenReply reply = {
        .session = text_of(session->name),
        .instance = text_of(session->instance),
        .created = !session->announced,
        .engine = text_of(session->controller->engine->ops->name),
        .has_options = true,
        .options = session_options_say(&session->sandbox->options),
    };

    session->announced = true;
    request_answer(request, MsgOpenReply, &reply);
}

void session_wait_open(Session *session, Request *request)
{
    if (session->state == SESSION_READY)
        answer_open(session, request);
    else
        list_append(&session->openers, &request->link);
}

void session_become_ready(Session *session)
{
    Request *request;

    session->state = SESSION_READY;
    list_foreach (request, &session->openers, Request, link)
        answer_open(session, request);
    session_rest(session);
}

void session_fail_openers(Session *session, const Problem *problem)
{
    Request *request;

    list_foreach (request, &session->openers, Request, link)
        request_fail(request, problem);
}

Session *session_new(Controller *controller, const char *name)
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
    session->epoch = 1;
    session->created = clock_unix();
    session->used = clock_now();
    list_init(&session->stored);
    list_init(&session->openers);
    list_init(&session->closers);
    list_init(&session->waiters);
    list_init(&session->in_sandbox);
    return session;
}

/* In a container that is made for it. */
static Session *start_anew(Controller *controller, const char *name, const char *output_id,
                           SessionOptions *options, Problem *problem)
{
    Session *session = session_new(controller, name);

    if (!session) {
        problem_set(problem, ERR_INTERNAL, "out of memory");
        return NULL;
    }
    if (sandbox_start(controller, session, output_id, options, problem) == 0)
        return session;
    free(session);
    return NULL;
}

int session_start(Session **ret, Controller *controller, const char *name, const char *output_id,
                  SessionOptions *options, Problem *problem)
{
    Session *session;

    if (controller->session_count >= controller->options->max_sessions)
        return problem_set(problem, ERR_BUSY,
                           "%zu sessions are open already (option max_sessions); close one of them first",
                           controller->session_count);
    session = pool_claim(controller->pool, name, output_id, options);
    if (!session)
        session = start_anew(controller, name, output_id, options, problem);
    if (!session)
        return -EPROTO;
    sessions_add(controller, session);
    *ret = session;
    return 0;
}

/* Those who wait for the end of sessions */

void farewell_init(Farewell *farewell)
{
    list_init(&farewell->closers);
    list_init(&farewell->waiters);
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

void session_free(Session *session, Farewell *farewell)
{
    if (!session->sandbox->spare)
        log_info("session closed", "session=%s calls=%llu", session->name,
                 (unsigned long long)session->execution_count);
    move_all(&farewell->waiters, &session->waiters);
    move_all(&farewell->closers, &session->closers);
    if (!session->sandbox->left)
        ended_keep(session);
    if (session->branch != 0)
        journal_branch_closed(session);
    calls_orphan(session->controller, &session->stored);
    sessions_remove(session->controller, session);
    loop_timer_cancel(&session->idle_timer);
    list_remove(&session->in_sandbox);
    free(session);
}

void farewell_tell(Farewell *farewell, Controller *controller)
{
    SessionWaiter *waiter;
    Request *request;

    list_foreach (request, &farewell->closers, Request, link)
        request_reply_empty(request);
    list_foreach (waiter, &farewell->waiters, SessionWaiter, link) {
        list_remove(&waiter->link);
        waiter->on_gone(waiter);
    }
    controller_session_gone(controller);
}

void session_set_closing(Session *session, const char *reason)
{
    Problem problem = PROBLEM_NULL;

    if (session->state != SESSION_CLOSING)
        epitaph_note(session, reason);
    session->state = SESSION_CLOSING;
    loop_timer_cancel(&session->idle_timer);
    problem_set(&problem, ERR_SESSION_CLOSED, "the session '%s' was closed: %s", session->name, reason);
    session_fail_openers(session, &problem);
}

void session_close(Session *session, Request *request, const char *reason)
{
    if (request)
        list_append(&session->closers, &request->link);
    if (session->branch == 0 || session->controller->closing)
        sandbox_close(session->sandbox, reason);
    else if (session->state != SESSION_CLOSING)
        session_close_branch(session, reason);
}

void session_wait_gone(Session *session, SessionWaiter *waiter)
{
    list_append(&session->waiters, &waiter->link);
}

/* Its turns */

static int check_queue(const Session *session, Problem *problem)
{
    if (session->queued < LIMIT_QUEUE)
        return 0;
    return problem_set(problem, ERR_BUSY,
                       "%u calls wait on the session '%s' already; wait for one of them to end", LIMIT_QUEUE,
                       session->name);
}

int session_run(Session *session, Call *call, Problem *problem)
{
    int r = check_queue(session, problem);

    if (r < 0)
        return r;
    call->turn.session = session;
    sandbox_queue(session->sandbox, &call->turn);
    return 0;
}

void session_order(Session *session, Order *order)
{
    Problem problem = PROBLEM_NULL;

    if (check_queue(session, &problem) < 0)
        order_fail(order, &problem);
    else
        sandbox_queue(session->sandbox, &order->turn);
}

void session_reset(Session *session, Order *order)
{
    Sandbox *sandbox = session->sandbox;
    Call *running = session_running(session);

    sandbox_queue_first(sandbox, &order->turn);
    if (!running) {
        sandbox_next(sandbox);
        return;
    }
    asks_interrupt(running);
    order_send(order);
}

Call *session_running(const Session *session)
{
    Call *call = sandbox_running_call(session->sandbox);

    return call && call->turn.session == session ? call : NULL;
}

bool session_interrupt(Session *session, Call *call)
{
    Sandbox *sandbox = session->sandbox;

    if (!call)
        return false;
    if (call == session_running(session)) {
        asks_interrupt(call);
        return sandbox_send(sandbox, MSG_INTERRUPT, call->turn.number) == 0;
    }
    sandbox_unqueue(sandbox, &call->turn);
    sandbox_end_bare(call, "interrupted", "kept", "Interrupted",
                     "interrupted before it began; nothing was run");
    if (sandbox->ephemeral)
        sandbox_close(sandbox, "its call was interrupted");
    return true;
}

void session_grant(Session *session, const Call *call, unsigned count)
{
    sandbox_grant(session->sandbox, call, count);
}

bool session_busy(const Session *session)
{
    const Turn *running = session->sandbox->running;

    return session->queued > 0 || (running && running->session == session);
}

/* The trunk's time does not end while a branch is used. */
static bool in_use(const Session *session)
{
    const Sandbox *sandbox = session->sandbox;

    return session_busy(session) ||
           (session->branch == 0 && (sandbox->running || !list_empty(&sandbox->turns)));
}

/* What is in use gets its time again when it rests. */
static void on_idle_due(LoopTimer *timer)
{
    Session *session = container_of(timer, Session, idle_timer);

    if (!in_use(session))
        session_close(session, NULL, "it was idle for its ttl");
}

static void start_ttl(Session *session)
{
    const Sandbox *sandbox = session->sandbox;

    if (sandbox->options.ttl > 0 && !sandbox->ephemeral)
        loop_timer_set(session->controller->loop, &session->idle_timer,
                       clock_now() + clock_from_seconds(sandbox->options.ttl), on_idle_due);
}

void session_rest(Session *session)
{
    session->used = clock_now();
    start_ttl(session);
    if (session->branch != 0)
        start_ttl(session->sandbox->trunk);
}

const char *session_status(const Session *session)
{
    if (session->state == SESSION_STARTING)
        return "starting";
    if (session->state == SESSION_CLOSING)
        return "closing";
    return session_busy(session) ? "running" : "idle";
}
