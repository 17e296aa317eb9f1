#include "host/session_parts.h"

#include <string.h>

#include "host/record.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* The supervisor answers by the deadline and three seconds; this much later it counts as stuck. */
#define WATCHDOG_SLACK 8.0

static RecordHead record_head(const Session *session, const Call *call)
{
    return (RecordHead){
        .run_id = call->run_id,
        .session = session->ephemeral ? NULL : session->name,
        .engine = session->controller->engine->ops->name,
        .execution_count = session->execution_count,
        .epoch = session->epoch,
    };
}

/* Ends a call that has no more than a reason. */
static void end_bare(Session *session, Call *call, const char *status, const char *state, const char *name,
                     const char *message)
{
    RecordHead head = record_head(session, call);
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;

    call->session = session;
    if (record_write_bare(&record, &head, status, state, name, message) == 0) {
        call_end(call, &record);
        return;
    }
    problem_set(&problem, ERR_INTERNAL, "out of memory");
    call_fail(call, &problem);
}

static void on_idle_due(LoopTimer *timer)
{
    session_close(container_of(timer, Session, idle_timer), NULL, "it was idle for its ttl");
}

static void start_next(Session *session);

void session_rest(Session *session)
{
    session->used = clock_now();
    if (session->options.ttl > 0 && !session->ephemeral)
        loop_timer_set(session->controller->loop, &session->idle_timer,
                       session->used + clock_from_seconds(session->options.ttl), on_idle_due);
    start_next(session);
}

static void after_call(Session *session)
{
    if (session->ephemeral)
        session_close(session, NULL, "its call has ended");
    else
        session_rest(session);
}

static void on_watchdog(LoopTimer *timer)
{
    session_close(container_of(timer, Session, watchdog), NULL, "its supervisor did not answer in time");
}

static int send_execute(Session *session, Call *call)
{
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;
    int r;

    call->number = ++session->controller->last_number;
    writer_message(&w, &message, MSG_EXECUTE, call->number, 4);
    write_key(&w, "code");
    write_text_n(&w, call->code, call->code_size);
    write_key(&w, "timeout");
    write_double(&w, call->timeout);
    write_key(&w, "stream");
    write_bool(&w, call->stream != NULL);
    write_key(&w, "run_id");
    write_text(&w, call->run_id);
    r = writer_finish(&w);
    return r < 0 ? r : guest_send(session->guest, &message);
}

static void start_next(Session *session)
{
    Call *call;

    if (session->state != SESSION_READY || session->running || list_empty(&session->queue))
        return;
    call = list_entry(list_first(&session->queue), Call, in_session);
    list_remove(&call->in_session);
    session->queued--;
    session->running = call;
    loop_timer_cancel(&session->idle_timer);
    loop_timer_set(session->controller->loop, &session->watchdog,
                   clock_now() + clock_from_seconds(call->timeout + WATCHDOG_SLACK), on_watchdog);
    if (send_execute(session, call) < 0) {
        session_close(session, NULL, "its supervisor cannot be reached");
        return;
    }
    free(take(call->code));
}

int session_run(Session *session, Call *call, Problem *problem)
{
    if (session->queued >= LIMIT_QUEUE)
        return problem_set(problem, ERR_BUSY,
                           "%u calls wait on the session '%s' already; wait for one of them to end",
                           LIMIT_QUEUE, session->name);
    call->session = session;
    list_append(&session->queue, &call->in_session);
    session->queued++;
    start_next(session);
    return 0;
}

void session_grant(Session *session, const Call *call, unsigned count)
{
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    Writer w;

    if (count == 0)
        return;
    writer_message(&w, &message, MSG_CREDIT, call->number, 1);
    write_key(&w, "count");
    write_uint(&w, count);
    if (writer_finish(&w) == 0)
        guest_send(session->guest, &message);
}

bool session_interrupt(Session *session, Call *call)
{
    if (call && call == session->running)
        return session_send(session, MSG_INTERRUPT, call->number) == 0;
    if (!call)
        return false;
    list_remove(&call->in_session);
    session->queued--;
    end_bare(session, call, "interrupted", "kept", "Interrupted",
             "interrupted before it began; nothing was run");
    if (session->ephemeral)
        session_close(session, NULL, "its call was interrupted");
    return true;
}

/* Only the host can tell a kill for memory from another SIGKILL. */
static bool killed_for_memory(Session *session, const Executed *executed)
{
    uint64_t bytes, kills, before = session->oom_kills;

    if (!record_was_killed(executed) ||
        session->controller->engine->ops->memory(session->container, &bytes, &kills) < 0)
        return false;
    session->oom_kills = kills;
    return kills > before;
}

void session_fail_call(Session *session, const Problem *problem)
{
    loop_timer_cancel(&session->watchdog);
    call_fail(take(session->running), problem);
    after_call(session);
}

/* The record is made now that what the call left in artifacts is known. */
static void finish_call(Session *session)
{
    Call *call = take(session->running);
    Message message _cleanup_(message_deinit) = MESSAGE_NULL;
    Buf record _cleanup_(buf_deinit) = BUF_NULL;
    Problem problem = PROBLEM_NULL;
    Executed executed;
    RecordHead head = record_head(session, call);
    int r = message_decode(&message, buf_head(&session->executed), session->executed.size, &problem);

    if (r == 0)
        r = record_decode(&executed, &message.body, &problem);
    if (r == 0)
        r = record_write(&record, &head, &executed, killed_for_memory(session, &executed),
                         session->published);
    if (r == 0) {
        call_end(call, &record);
    } else {
        if (problem.code == ERR_NONE)
            problem_set(&problem, ERR_INTERNAL, "out of memory");
        call_fail(call, &problem);
    }
    buf_deinit(&session->executed);
    session->published = artifact_list_free(session->published);
    after_call(session);
}

static void on_work_published(void *userdata, ArtifactList *list)
{
    Session *session = userdata;

    session->published = artifact_list_merge(session->published, list);
    if (session->running)
        finish_call(session);
}

static void publish_work(Session *session)
{
    if (session->work_artifacts && artifacts_dirty(session->work_artifacts) &&
        artifacts_publish(session->work_artifacts, session->controller->worker, on_work_published, session) ==
            0)
        return;
    finish_call(session);
}

static void on_published(void *userdata, ArtifactList *list)
{
    Session *session = userdata;

    session->published = artifact_list_merge(session->published, list);
    if (session->running)
        publish_work(session);
}

void session_publish(Session *session)
{
    if (artifacts_dirty(session->artifacts) &&
        artifacts_publish(session->artifacts, session->controller->worker, on_published, session) == 0)
        return;
    publish_work(session);
}

void session_end_calls(Session *session, const char *reason)
{
    Problem problem = PROBLEM_NULL;
    Call *call = take(session->running);
    char message[512];

    problem_set(&problem, ERR_SESSION_CLOSED, "the session '%s' was closed: %s", session->name, reason);
    snprintf(message, sizeof(message), "the session ended while the call ran: %s; its variables are lost",
             reason);
    if (call)
        end_bare(session, call, "failed", "lost", "SandboxLost", message);
    list_foreach (call, &session->queue, Call, in_session) {
        if (session->ephemeral)
            end_bare(session, call, "failed", "lost", "SandboxLost", reason);
        else
            call_fail(call, &problem);
    }
    session->queued = 0;
}
