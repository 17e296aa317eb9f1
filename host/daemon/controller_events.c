#include "host/daemon/internal.h"

#include "host/front/defer.h"
#include "host/front/pip.h"
#include "host/front/prepare.h"
#include "host/journal/session_journal.h"

static void on_sandbox_gone(void *userdata)
{
    Controller *controller = userdata;

    kept_wake(controller->kept);
    controller_stop_if_empty(controller);
}

/* Leaves a parked sandbox, which is on disk, to the next controller. */
static void on_sandbox_parked(Sandbox *sandbox)
{
    const Controller *controller = sandbox->all->userdata;

    if (controller->front.closing)
        sandbox_leave(sandbox);
    else
        kept_wake(controller->kept);
}

static void on_sandbox_asked(Sandbox *sandbox, uint64_t id, Text packages)
{
    Controller *controller = sandbox->all->userdata;

    pip_asked(&controller->front, sandbox, id, packages);
}

static bool make_room(void *userdata)
{
    const Controller *controller = userdata;

    return pool_yield(controller->pool);
}

static bool has_room(void *userdata)
{
    const Controller *controller = userdata;

    return pool_is_empty(controller->pool);
}

const SandboxesEvents controller_sandboxes_events = {
    .begins = session_journal_begin,
    .claimed = session_journal_claimed,
    .changed = session_journal_rewrite,
    .closing = session_journal_closing,
    .parking = session_journal_saved,
    .parked = on_sandbox_parked,
    .over = session_journal_end,
    .asked = on_sandbox_asked,
    .gone = on_sandbox_gone,
    .make_room = make_room,
    .has_room = has_room,
};

static void on_session_ready(Session *trunk)
{
    session_journal_ready(trunk->sandbox);
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

static void on_session_prepare(Session *trunk)
{
    Controller *controller = trunk->all->userdata;

    prepare_session(&controller->front, trunk);
}

static bool on_session_closes(Session *trunk)
{
    Controller *controller = trunk->all->userdata;

    return call_last(&controller->calls, trunk);
}

static bool on_bounds(void *userdata, uid_t user, UserBounds *ret)
{
    const Controller *controller = userdata;

    return net_bounds(&controller->net, user, ret);
}

static void on_session_woken(Session *trunk, const Problem *failure)
{
    Controller *controller = trunk->all->userdata;

    defer_release_woken(&controller->front, trunk, failure);
}

const SessionsEvents controller_sessions_events = {
    .bounds = on_bounds,
    .closes = on_session_closes,
    .ready = on_session_ready,
    .prepare = on_session_prepare,
    .branched = on_session_branched,
    .back = session_journal_back,
    .woken = on_session_woken,
    .committed = session_journal_committed,
    .gone = on_session_gone,
};
