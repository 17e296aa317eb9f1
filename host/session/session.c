#include "host/session/session.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/session/internal.h"
#include "host/session/limits.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* ---- opening ---- */

static MsgOpenReply say_opened(const Session *session)
{
    return (MsgOpenReply){
        .session = text_of(session->name),
        .instance = text_of(session->instance),
        .created = !session->announced,
        .engine = text_of(sandboxes_engine(session->all->sandboxes)),
        .has_options = true,
        .options = session_options_tell(&session->sandbox->options),
        .language = text_of(session->language[0] ? session->language : NULL),
    };
}

static void answer_open(Session *session, Request *request)
{
    const MsgOpenReply reply = say_opened(session);

    session->announced = true;
    request_answer(request, MsgOpenReply, &reply);
}

void session_write_opened(Session *session, Writer *w)
{
    const MsgOpenReply reply = say_opened(session);

    session->announced = true;
    body_write(w, MsgOpenReply, &reply);
}

void session_wait_open(Session *session, Request *request)
{
    if (session->state == SESSION_READY)
        answer_open(session, request);
    else
        list_append(&session->openers, &request->link);
}

void session_set_state(Session *session, SessionState state)
{
    session->all->saved += (size_t)(state == SESSION_SAVED) - (size_t)(session->state == SESSION_SAVED);
    session->state = state;
}

void session_become_ready(Session *session)
{
    Request *request;

    session_set_state(session, SESSION_READY);
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

Session *session_new(Sessions *all, uid_t user, const char *name)
{
    Session *session = calloc(1, sizeof(*session));

    if (!session)
        return NULL;
    snprintf(session->name, sizeof(session->name), "%s", name);
    session->user = user;
    session->all = all;
    session->epoch = 1;
    session->created = clock_unix();
    session->used = clock_now();
    list_init(&session->family);
    list_init(&session->in_family);
    list_init(&session->former);
    list_init(&session->stored);
    list_init(&session->openers);
    list_init(&session->closers);
    list_init(&session->waiters);
    list_init(&session->asleep);
    return session;
}

Session *session_free(Session *session)
{
    if (!session)
        return NULL;
    session_set_state(session, SESSION_CLOSING);
    sessions_remove(session);
    loop_timer_cancel(&session->idle_timer);
    list_remove(&session->in_family);
    former_deinit(session);
    buf_deinit(&session->last_words);
    free(session->cwd);
    free(session);
    return NULL;
}

void session_move_in(Session *session, Sandbox *sandbox)
{
    sandbox->trunk = session;
    session->sandbox = sandbox;
    memcpy(session->instance, sandbox->instance, sizeof(session->instance));
    session->created = sandbox->created;
    list_append(&session->family, &session->in_family);
}

/* A spare has imported modules, which packages are not to replace; of a template that is what was asked for.
 */
static int claim(Sandbox **ret, Sessions *all, Template *tmpl, const SandboxHolder *holder,
                 SessionOptions *options, Problem *problem)
{
    if ((*options->packages && !tmpl) || holder->packages)
        return 0;
    return pool_claim(ret, all->pool, tmpl, holder, options, &session_owner, problem);
}

/* The call that a container is for waits for packages, too. */
static void prepare(Session *trunk)
{
    trunk->sandbox->held = true;
    trunk->all->events->prepare(trunk);
}

/* In a spare where there is one, otherwise in a container that is made for it. */
static int find_sandbox(Session *session, Template *tmpl, const SandboxHolder *holder,
                        SessionOptions *options, Problem *problem)
{
    Sessions *all = session->all;
    Sandbox *sandbox = NULL;
    int r = claim(&sandbox, all, tmpl, holder, options, problem);
    bool claimed = sandbox;

    if (r == 0 && !claimed && tmpl)
        return -EAGAIN;
    if (r == 0 && !claimed)
        r = sandbox_start(&sandbox, all->sandboxes, holder, options, &session_owner, problem);
    if (r < 0)
        return r;
    session_move_in(session, sandbox);
    if (claimed && *session->sandbox->options.packages)
        prepare(session);
    else if (claimed)
        session_all_ready(session);
    if (tmpl)
        session_accept_files(session);
    return 0;
}

int session_start(Session **ret, Sessions *all, const SandboxHolder *holder, Template *tmpl,
                  SessionOptions *options, Problem *problem)
{
    Session *session;
    int r;

    if (limits_check(all, holder->user, options, problem) < 0)
        return -EPROTO;
    session = session_new(all, holder->user, holder->name);
    if (!session || sessions_add(session) < 0)
        r = problem_set(problem, ERR_INTERNAL, "out of memory");
    else
        r = find_sandbox(session, tmpl, holder, options, problem);
    if (r < 0) {
        session_free(session);
        return r;
    }
    *ret = session;
    return 0;
}

/* ---- ending ---- */

void farewell_init(Farewell *farewell)
{
    farewell->last_words = BUF_NULL;
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

void session_end(Session *session, Farewell *farewell)
{
    log_info("session closed", "session=%s calls=%llu", session->name,
             (unsigned long long)session->execution_count);
    move_all(&farewell->waiters, &session->waiters);
    move_all(&farewell->closers, &session->closers);
    farewell->last_words = session->last_words;
    session->last_words = BUF_NULL;
    session->all->events->gone(session);
    session_free(session);
}

void session_tell_waiters(List *waiters)
{
    SessionWaiter *waiter;

    list_foreach (waiter, waiters, SessionWaiter, link) {
        list_remove(&waiter->link);
        waiter->on_settled(waiter);
    }
}

void farewell_tell(Farewell *farewell)
{
    Request *request;

    list_foreach (request, &farewell->closers, Request, link)
        if (farewell->last_words.size > 0)
            request_reply(request, &farewell->last_words);
        else
            request_reply_empty(request);
    buf_deinit(&farewell->last_words);
    session_tell_waiters(&farewell->waiters);
}

/* With the trunk its branches are closed, too. */
static bool was_asked_to(const Session *session)
{
    return !list_empty(&session->closers) || !list_empty(&session->sandbox->trunk->closers);
}

/* Clients know its name. */
static bool was_open(const Session *session)
{
    return session->announced && session->name[0] != *PRIVATE_MARK && !session->hidden;
}

void session_note_end(const Session *session, const char *reason)
{
    Epitaphs *all = &session->all->epitaphs;

    epitaph_forget(all, session->user, text_of(session->name));
    if (!was_asked_to(session) && was_open(session))
        epitaph_write(all, session->user, session->name, session->instance, reason);
}

const Epitaph *session_epitaph(const Session *session)
{
    return epitaph_of(&session->all->epitaphs, session->user, session->name, session->instance);
}

void session_say_closed(const Session *session, const char *reason, Problem *ret)
{
    problem_set(ret, ERR_SESSION_CLOSED, "the session '%s' was closed: %s", session->name, reason);
}

void session_set_closing(Session *session, const char *reason)
{
    Problem problem = PROBLEM_NULL;

    if (session->state != SESSION_CLOSING)
        session_note_end(session, reason);
    session_set_state(session, SESSION_CLOSING);
    loop_timer_cancel(&session->idle_timer);
    session_say_closed(session, reason, &problem);
    session_fail_openers(session, &problem);
    session->all->events->woken(session, &problem);
}

/* Nothing runs in it, and something has: there may be something to do at its end. */
static bool has_end(const Session *trunk)
{
    const Sandbox *sandbox = trunk->sandbox;

    return trunk->state == SESSION_READY && trunk->execution_count > 0 && sandbox->state == SANDBOX_READY &&
           !sandbox->running && !sandbox->held && !sandbox->restorer && !sandbox->ephemeral;
}

bool session_close_gently(Session *trunk, const char *reason)
{
    Sandbox *sandbox = trunk->sandbox;
    Session *session;

    if (!has_end(trunk))
        return false;
    snprintf(sandbox->ending, sizeof(sandbox->ending), "%s", reason);
    list_foreach (session, &trunk->family, Session, in_family)
        session_set_closing(session, reason);
    if (!trunk->all->events->closes(trunk))
        sandbox_close(sandbox, reason);
    return true;
}

void session_close(Session *session, Request *request, const char *reason)
{
    if (request)
        list_append(&session->closers, &request->link);
    if (session->branch == 0 && *session->sandbox->ending)
        return; /* with the call that runs */
    if (session->branch == 0 && !session_close_gently(session, reason))
        sandbox_close(session->sandbox, reason);
    else if (session->branch != 0 && session->state != SESSION_CLOSING)
        session_close_branch(session, reason);
}

void session_wait_settled(Session *session, SessionWaiter *waiter)
{
    list_append(&session->waiters, &waiter->link);
}

/* ---- its turns ---- */

int session_check_queue(const Session *session, Problem *problem)
{
    if (sandbox_count_waiting(session->sandbox, session) < LIMIT_QUEUE)
        return 0;
    return problem_set(problem, ERR_BUSY,
                       "%u calls already wait for the session '%s'; wait until one of them ends", LIMIT_QUEUE,
                       session->name);
}

void session_note(Session *session, uint64_t execution_count, uint64_t epoch)
{
    session->execution_count = MAX(session->execution_count, execution_count);
    session->epoch = MAX(session->epoch, epoch);
}

bool session_is_busy(const Session *session)
{
    const Sandbox *sandbox = session->sandbox;

    return sandbox_count_waiting(sandbox, session) > 0 || sandbox_is_used_beside(sandbox, session) ||
           (sandbox->running && sandbox->running->session == session);
}

/* The trunk's time does not end while a branch is used. */
static bool is_used(const Session *session)
{
    return session_is_busy(session) || (session->branch == 0 && sandbox_is_busy(session->sandbox));
}

/* Saves or closes an idle session. One in use gets its time again when it rests. */
static void on_idle_due(LoopTimer *timer)
{
    Session *session = container_of(timer, Session, idle_timer);

    if (is_used(session))
        return;
    if (session->branch == 0 && strcmp(session->sandbox->options.ttl_action, "save") == 0)
        session_save_idle(session);
    else
        session_close(session, NULL, "it was idle for its ttl");
}

void session_start_ttl(Session *session)
{
    const Sandbox *sandbox = session->sandbox;

    if (sandbox->options.ttl > 0 && !sandbox->ephemeral && !sandbox->restorer)
        loop_timer_set(session->all->loop, &session->idle_timer,
                       clock_now() + clock_from_seconds(sandbox->options.ttl), on_idle_due);
}

void session_rest(Session *session)
{
    session->used = clock_now();
    session_start_ttl(session);
    if (session->branch != 0)
        session_start_ttl(session->sandbox->trunk);
}

const char *session_status(const Session *session)
{
    if (session->state == SESSION_STARTING)
        return "starting";
    if (session->state == SESSION_CLOSING)
        return "closing";
    if (session->state == SESSION_SAVED && !session_is_asleep(session))
        return "starting";
    return session_is_busy(session) ? "running" : "idle";
}

/* ---- as the owner of its sandbox ---- */

static bool is_in(const GuestHello *hello, const Session *session)
{
    for (size_t i = 0; i < hello->branch_count; i++)
        if (hello->branches[i].branch == session->branch)
            return true;
    return false;
}

/* A branch that was open, and that the supervisor does not have. */
static Session *first_lost(const Session *trunk, const GuestHello *hello)
{
    bool adopting = trunk->sandbox->state == SANDBOX_ADOPTING;
    Session *session;

    list_foreach (session, &trunk->family, Session, in_family)
        if (session->branch != 0 && (session->state == SESSION_READY || adopting) && !is_in(hello, session))
            return session;
    return NULL;
}

/* The end of one branch may be that of others, so that each is looked for from the start. */
void session_match(Session *trunk, const GuestHello *hello)
{
    Problem lost = PROBLEM_NULL;
    Session *session;

    for (size_t i = 0; i < hello->branch_count; i++) {
        const MsgGuestBranch *said = &hello->branches[i];

        session = session_find_branch(trunk, said->branch);
        if (session)
            session_note(session, said->execution_count, said->epoch);
        else
            session_drop_branch(trunk, said->branch);
    }
    problem_set(&lost, ERR_SESSION_CLOSED, "the branch was lost with its interpreter");
    while (!sandbox_is_ending(trunk->sandbox) && (session = first_lost(trunk, hello)))
        session_end_branch(session, &lost);
}

static void on_hello(Sandbox *sandbox, const GuestHello *hello)
{
    session_match(sandbox->trunk, hello);
    if (sandbox_is_ending(sandbox))
        return;
    sandbox_supervisor_ready(sandbox);
    sandbox_next(sandbox);
}

static bool take_held(Sandbox *sandbox)
{
    bool held = sandbox->held;

    sandbox->held = false;
    return held;
}

void session_all_ready(Session *trunk)
{
    Session *session;

    log_info("session ready", "session=%s image=%s", trunk->name, trunk->sandbox->options.image);
    list_foreach (session, &trunk->family, Session, in_family)
        session_become_ready(session);
    if (take_held(trunk->sandbox))
        sandbox_next(trunk->sandbox);
}

void session_prepare(Session *trunk)
{
    if (*trunk->sandbox->options.packages && !*trunk->sandbox->packages)
        prepare(trunk);
    else
        session_all_ready(trunk);
}

void session_fail(Session *trunk, const Problem *problem)
{
    session_fail_openers(trunk, problem);
    sandbox_fail_waiting(trunk->sandbox, problem);
    session_close(trunk, NULL, problem->text);
}

static void on_ready(Sandbox *sandbox)
{
    if (!sandbox->restorer)
        sandbox->trunk->all->events->ready(sandbox->trunk);
    session_prepare(sandbox->trunk);
}

static void on_failed(Sandbox *sandbox, const Problem *problem)
{
    log_warn("container failed", "session=%s reason=%s", sandbox->name, problem->text);
    session_fail_openers(sandbox->trunk, problem);
}

static void on_rested(Sandbox *sandbox, Session *session)
{
    session_rest(session);
}

static void on_closing(Sandbox *sandbox, const char *reason)
{
    Session *session;

    list_foreach (session, &sandbox->trunk->family, Session, in_family)
        session_set_closing(session, reason);
}

/* Nothing of the sandbox is left when those who waited for the end of its sessions are told. The trunk, whose
 * list it is, goes last. */
static void on_gone(Sandbox *sandbox)
{
    Session *trunk = sandbox->trunk, *session;
    Farewell farewell;

    farewell_init(&farewell);
    list_foreach (session, &trunk->family, Session, in_family)
        if (session != trunk)
            session_end(session, &farewell);
    session_end(trunk, &farewell);
    sandbox_free(sandbox);
    farewell_tell(&farewell);
}

/* Somebody may have come meanwhile. */
static void on_parked(Sandbox *sandbox)
{
    if (!list_empty(&sandbox->trunk->asleep))
        session_wake(sandbox->trunk);
}

static void on_placed(Sandbox *sandbox)
{
    session_fork_placed(sandbox->trunk);
}

const SandboxOwner session_owner = {
    .hello = on_hello,
    .placed = on_placed,
    .ready = on_ready,
    .failed = on_failed,
    .rested = on_rested,
    .closing = on_closing,
    .gone = on_gone,
    .parked = on_parked,
};
