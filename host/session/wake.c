/* Sessions that are saved, and wanted again. Their sandbox gets a new container; before anything else happens
 * in that it is given the variables. Until it is written down that it has them the session is saved: whatever
 * goes wrong, it is begun anew from what is on disk. */
#include "host/session/checkpoint_files.h"
#include "host/session/internal.h"
#include "host/session/limits.h"
#include "host/session/saved_place.h"
#include "proto/base/log.h"

static void woken(Session *trunk, const Problem *failure)
{
    trunk->all->events->woken(trunk, failure);
}

/* ---- as the owner of a sandbox that is WAKING ---- */

/* The supervisor says nothing of a session before. Again where the connection broke. */
static void on_hello(Sandbox *sandbox, const GuestHello *hello)
{
    Session *trunk = sandbox->trunk;
    const MsgSaveOrder load = {
        .path = text_of(SAVED_PLACE), .execution_count = trunk->execution_count, .epoch = trunk->epoch};
    Problem problem = PROBLEM_NULL;

    trunk->load = sandboxes_next_number(sandbox->all);
    if (guest_say(sandbox->guest, MSG_LOAD, trunk->load, MsgSaveOrder, &load) == 0)
        return;
    problem_set(&problem, ERR_ENGINE_ERROR, "its supervisor cannot be reached");
    sandbox_give_up(sandbox, &problem);
}

/* Also where they are lost: the supervisor tells of it with the next call. */
static int on_loaded(Sandbox *sandbox, const Message *message, Problem *problem)
{
    MsgLoaded said;
    int r = body_decode(&said, MsgLoaded, &message->body, problem);

    if (r < 0)
        return r;
    log_info("session woken", "session=%s missing=%u", sandbox->name, value_count(&said.missing));
    sandbox_supervisor_ready(sandbox);
    return 0;
}

static int on_refused(Sandbox *sandbox, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r < 0)
        return r;
    sandbox_give_up(sandbox, &why);
    return 0;
}

static int on_message(Sandbox *sandbox, const Message *message, Problem *problem)
{
    if (message->id != sandbox->trunk->load)
        return 0;
    if (message->kind == MSG_REPLY)
        return on_loaded(sandbox, message, problem);
    return message->kind == MSG_ERROR ? on_refused(sandbox, message, problem) : 0;
}

/* Its checkpoints went with the container. */
static void on_ready(Sandbox *sandbox)
{
    const Value none = {0};
    Session *trunk = sandbox->trunk;

    sandbox->owner = &session_owner;
    session_set_state(trunk, SESSION_STARTING);
    trunk->all->events->ready(trunk);
    checkpoint_files_prune(sandbox, &none, NULL);
    saved_place_remove(sandbox, SAVED_PLACE);
    session_all_ready(trunk);
    woken(trunk, NULL);
}

static void not_woken(Session *trunk, const Problem *problem)
{
    Problem why = *problem;

    problem_prefix(&why, "the session is saved, and cannot be woken now");
    woken(trunk, &why);
}

static void on_failed(Sandbox *sandbox, const Problem *problem)
{
    not_woken(sandbox->trunk, problem);
}

static void on_rested(Sandbox *sandbox, Session *session)
{
    session_owner.rested(sandbox, session);
}

static void on_closing(Sandbox *sandbox, const char *reason)
{
    session_owner.closing(sandbox, reason);
}

static void on_gone(Sandbox *sandbox)
{
    session_owner.gone(sandbox);
}

static void on_parked(Sandbox *sandbox)
{
    sandbox->owner = &session_owner;
    session_owner.parked(sandbox);
}

static const SandboxOwner waking_owner = {
    .hello = on_hello,
    .message = on_message,
    .ready = on_ready,
    .failed = on_failed,
    .rested = on_rested,
    .closing = on_closing,
    .gone = on_gone,
    .parked = on_parked,
};

/* ---- how it begins ---- */

void session_wake(Session *trunk)
{
    Sandbox *sandbox = trunk->sandbox;
    Problem problem = PROBLEM_NULL;

    if (sandbox->state != SANDBOX_PARKED)
        return; /* waking, or about to be */
    if (limits_check_wake(trunk->all, trunk->user, &sandbox->options, &problem) < 0)
        woken(trunk, &problem);
    else if (sandbox_wake(sandbox, &waking_owner, &problem) < 0)
        not_woken(trunk, &problem);
}

bool session_is_asleep(const Session *session)
{
    return session->state == SESSION_SAVED && session->sandbox->state != SANDBOX_WAKING;
}

void session_restore_saved(Session *trunk)
{
    session_set_state(trunk, SESSION_SAVED);
}
