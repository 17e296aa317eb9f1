#include "host/session/session.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "host/session/internal.h"
#include "host/session/limits.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static void rest(Session *session);

/* ---- by name ---- */

bool session_path_valid(Text path)
{
    while (path.data && path.size <= LIMIT_SESSION_PATH) {
        const char *slash = memchr(path.data, '/', path.size);
        size_t n = slash ? (size_t)(slash - path.data) : path.size;

        if (!name_valid((Text){path.data, n}))
            return false;
        if (!slash)
            return true;
        path = (Text){slash + 1, path.size - n - 1};
    }
    return false;
}

#define KEY_SIZE(name_size) (offsetof(SessionKey, name) + (name_size))

Session *sessions_holder(const Sessions *all, uid_t user, Text name)
{
    SessionKey key;
    Session *session = NULL;

    if (!name.data || name.size > LIMIT_SESSION_PATH)
        return NULL;
    memset(&key, 0, sizeof(key));
    key.user = user;
    memcpy(key.name, name.data, name.size);
    HASH_FIND(by_name, all->by_name, &key, KEY_SIZE(name.size), session);
    return session;
}

Session *sessions_find(const Sessions *all, uid_t user, Text name)
{
    Session *session = sessions_holder(all, user, name);

    return session && session->state != SESSION_CLOSING ? session : NULL;
}

int sessions_add(Session *session)
{
    Sessions *all = session->all;

    HASH_ADD_KEYPTR(by_name, all->by_name, &session->key, KEY_SIZE(strlen(session->name)), session);
    if (!session->by_name.tbl)
        return -ENOMEM;
    all->count++;
    return 0;
}

/* Also of one that was not added. */
static void sessions_remove(Session *session)
{
    if (!session->by_name.tbl)
        return;
    HASH_DELETE(by_name, session->all->by_name, session);
    session->all->count--;
}

/* ---- opening ---- */

/* The reply to `open`, and what it refers to. */
typedef struct Opened {
    const char *names[SANDBOX_LIMITS];
    TextList missing;
    MsgOpenReply reply;
} Opened;

static void say_opened(Opened *ret, Session *session)
{
    ret->missing = (TextList){ret->names, sandboxes_not_enforced(session->all->sandboxes, ret->names)};
    ret->reply = (MsgOpenReply){
        .session = text_of(session->name),
        .instance = text_of(session->instance),
        .created = !session->announced,
        .engine = text_of(sandboxes_engine(session->all->sandboxes)),
        .has_options = true,
        .options = session_options_to_wire_public(&session->sandbox->options),
        .language = text_of(session->language[0] ? session->language : NULL),
        .not_enforced = ret->missing.n ? value_texts(&ret->missing) : (Value){.write = NULL},
    };
    session->announced = true;
}

static void answer_open(Session *session, Request *request)
{
    Opened opened;

    say_opened(&opened, session);
    request_answer(request, MsgOpenReply, &opened.reply);
}

void session_write_opened(Session *session, Writer *w)
{
    Opened opened;

    say_opened(&opened, session);
    body_write(w, MsgOpenReply, &opened.reply);
}

void session_wait_open(Session *session, Request *request)
{
    if (session->state == SESSION_READY)
        answer_open(session, request);
    else
        list_append(&session->openers, &request->link);
}

static const char *const states[] = {
#define SESSION_STATE(state, awaits) #state,
#include "host/session/session_states.def"
};

static const bool moves[ARRAY_SIZE(states)][ARRAY_SIZE(states)] = {
#define SESSION_MOVE(from, event, to) [SESSION_##from][SESSION_##to] = true,
#include "host/session/session_states.def"
};

void session_set_state(Session *session, SessionState state)
{
    bool may = moves[session->state][state];

    if (!may)
        log_error("a session has made a move that there is not", "session=%s from=%s to=%s", session->name,
                  states[session->state], states[state]);
    assert(may);
    session->all->saved += (size_t)(state == SESSION_SAVED) - (size_t)(session->state == SESSION_SAVED);
    session->state = state;
}

void session_tell_ready(Session *session)
{
    Request *request;

    list_foreach (request, &session->openers, Request, link)
        answer_open(session, request);
    rest(session);
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
    list_init(&session->branches);
    list_init(&session->in_branches);
    list_init(&session->closed_branches);
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
    session->all->saved -= session->state == SESSION_SAVED;
    sessions_remove(session);
    loop_timer_cancel(&session->idle_timer);
    list_remove(&session->in_branches);
    closed_branches_deinit(session);
    buf_deinit(&session->last_words);
    buf_deinit(&session->unreported);
    free(session->cwd);
    free(session);
    return NULL;
}

void session_move_in(Session *session, Sandbox *sandbox)
{
    sandbox->root = session;
    session->sandbox = sandbox;
    memcpy(session->instance, sandbox->instance, sizeof(session->instance));
    session->created = sandbox->created;
    list_append(&session->branches, &session->in_branches);
}

/* A spare has imported modules, which packages are not to replace. */
static bool has_packages(const SessionOptions *options, const SandboxAssignment *assignment)
{
    return *options->packages || assignment->packages;
}

/* Takes a spare, if there is one. Of a template its packages and modules are what was asked for. */
static int claim(Sandbox **ret, Sessions *all, Template *tmpl, const SandboxAssignment *assignment,
                 SessionOptions *options, Problem *problem)
{
    if ((has_packages(options, assignment) && !tmpl) || assignment->packages)
        return 0;
    return pool_assign(ret, all->pool, tmpl, assignment, options, &session_owner, problem);
}

static int start_sandbox(Sandbox **ret, Sessions *all, const SandboxAssignment *assignment,
                         SessionOptions *options, Problem *problem)
{
    SandboxAssignment with_memory = *assignment;

    if (!has_packages(options, assignment) && !assignment->forked)
        with_memory.memory = pool_memory(all->pool, options, assignment->output_id != NULL);
    return sandbox_start(ret, all->sandboxes, &with_memory, options, &session_owner, problem);
}

/* In a spare where there is one, otherwise in a container that is made for it. */
static int find_sandbox(Session *session, Template *tmpl, const SandboxAssignment *assignment,
                        SessionOptions *options, Problem *problem)
{
    Sessions *all = session->all;
    Sandbox *sandbox = NULL;
    int r = claim(&sandbox, all, tmpl, assignment, options, problem);
    bool claimed = sandbox;

    if (r == 0 && !claimed && tmpl)
        return -EAGAIN;
    if (r == 0 && !claimed)
        r = start_sandbox(&sandbox, all, assignment, options, problem);
    if (r < 0)
        return r;
    session_move_in(session, sandbox);
    sandbox->held = claimed && *sandbox->options.packages;
    if (claimed && sandbox->state == SANDBOX_READY)
        session_prepare(session);
    if (tmpl)
        session_accept_files(session);
    return 0;
}

int session_start(Session **ret, Sessions *all, const SandboxAssignment *assignment, Template *tmpl,
                  SessionOptions *options, Problem *problem)
{
    Session *session;
    int r;

    if (limits_check(all, assignment->user, assignment->forked, options, problem) < 0)
        return -EPROTO;
    session = session_new(all, assignment->user, assignment->name);
    if (!session || sessions_add(session) < 0)
        r = problem_set(problem, ERR_INTERNAL, "out of memory");
    else
        r = find_sandbox(session, tmpl, assignment, options, problem);
    if (r < 0) {
        session_free(session);
        return r;
    }
    *ret = session;
    return 0;
}

/* ---- ending ---- */

void close_replies_init(CloseReplies *replies)
{
    replies->last_words = BUF_NULL;
    list_init(&replies->closers);
    list_init(&replies->waiters);
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

void session_end(Session *session, CloseReplies *replies)
{
    log_info("session closed", "session=%s calls=%llu", session->name,
             (unsigned long long)session->execution_count);
    move_all(&replies->waiters, &session->waiters);
    move_all(&replies->closers, &session->closers);
    replies->last_words = session->last_words;
    session->last_words = BUF_NULL;
    session->all->events->gone(session);
    session_free(session);
}

/* and empties it */
void close_replies_send(Sessions *all, CloseReplies *replies)
{
    Request *request;

    list_foreach (request, &replies->closers, Request, link)
        if (replies->last_words.size > 0)
            request_reply(request, &replies->last_words);
        else
            request_reply_empty(request);
    buf_deinit(&replies->last_words);
    all->events->settled(all->userdata, &replies->waiters);
}

/* With the root session its branches are closed, too. */
static bool was_asked_to(const Session *session)
{
    return !list_empty(&session->closers) || !list_empty(&session->sandbox->root->closers);
}

/* Clients know its name. */
static bool was_open(const Session *session)
{
    return session->announced && session->name[0] != *PRIVATE_MARK && !session->hidden;
}

void session_note_end(const Session *session, const char *reason)
{
    EndRecords *all = &session->all->end_records;

    end_record_forget(all, session->user, text_of(session->name));
    if (!was_asked_to(session) && was_open(session))
        end_record_write(all, session->user, session->name, session->instance, reason);
}

const EndRecord *session_end_record(const Session *session)
{
    return end_record_of(&session->all->end_records, session->user, session->name, session->instance);
}

void session_closed_problem(const Session *session, const char *reason, Problem *ret)
{
    problem_set(ret, ERR_SESSION_CLOSED, "the session '%s' was closed: %s", session->name, reason);
}

void session_set_closing(Session *session, const char *reason)
{
    Problem problem = PROBLEM_NULL;

    if (session->state != SESSION_CLOSING) {
        session_note_end(session, reason);
        session_set_state(session, SESSION_CLOSING);
    }
    loop_timer_cancel(&session->idle_timer);
    session_closed_problem(session, reason, &problem);
    session_fail_openers(session, &problem);
    session->all->events->woken(session, &problem);
}

/* Nothing runs in it, and something has: there may be something to do at its end. */
static bool has_end(const Session *root)
{
    const Sandbox *sandbox = root->sandbox;

    return root->state == SESSION_READY && root->execution_count > 0 && sandbox->state == SANDBOX_READY &&
           !sandbox->running && !sandbox->held && !sandbox->restorer && !sandbox->ephemeral;
}

bool session_close_gently(Session *root, const char *reason)
{
    Sandbox *sandbox = root->sandbox;
    Session *session;

    if (!has_end(root))
        return false;
    snprintf(sandbox->ending, sizeof(sandbox->ending), "%s", reason);
    list_foreach (session, &root->branches, Session, in_branches)
        session_set_closing(session, reason);
    if (!root->all->events->closes(root))
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

/* ---- what it is asked ---- */

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

    return sandbox_count_waiting(sandbox, session) > 0 || sandbox_has_program_in_use(sandbox, session) ||
           (sandbox->running && sandbox->running->session == session);
}

/* The root session's time does not end while a branch is used. */
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

/* nothing of it runs: its ttl counts */
static void rest(Session *session)
{
    session->used = clock_now();
    session_start_ttl(session);
    if (session->branch != 0)
        session_start_ttl(session->sandbox->root);
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
static Session *first_lost(const Session *root, const GuestHello *hello)
{
    bool adopting = root->sandbox->state == SANDBOX_ADOPTING;
    Session *session;

    list_foreach (session, &root->branches, Session, in_branches)
        if (session->branch != 0 && (session->state == SESSION_READY || adopting) && !is_in(hello, session))
            return session;
    return NULL;
}

/* The end of one branch may be that of others, so that each is looked for from the start. */
void session_match(Session *root, const GuestHello *hello)
{
    Problem lost = PROBLEM_NULL;
    Session *session;

    for (size_t i = 0; i < hello->branch_count; i++) {
        const MsgGuestBranch *said = &hello->branches[i];

        session = session_find_branch(root, said->branch);
        if (session)
            session_note(session, said->execution_count, said->epoch);
        else
            session_drop_branch(root, said->branch);
    }
    problem_set(&lost, ERR_SESSION_CLOSED, "the branch was lost with its interpreter");
    while (!sandbox_is_ending(root->sandbox) && (session = first_lost(root, hello)))
        session_end_branch(session, &lost);
}

static bool is_waking(const Sandbox *sandbox)
{
    return sandbox->root->state == SESSION_SAVED;
}

static void on_hello(Sandbox *sandbox, const GuestHello *hello)
{
    if (is_waking(sandbox)) {
        session_load(sandbox->root);
        return;
    }
    session_match(sandbox->root, hello);
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

void session_all_ready(Session *root)
{
    Session *session;

    log_info("session ready", "session=%s image=%s", root->name, root->sandbox->options.image);
    list_foreach (session, &root->branches, Session, in_branches) {
        session_set_state(session, SESSION_READY);
        session_tell_ready(session);
    }
    if (take_held(root->sandbox))
        sandbox_next(root->sandbox);
}

/* The call that a container is for waits for packages, too. */
void session_prepare(Session *root)
{
    Sandbox *sandbox = root->sandbox;

    sandbox->held |= *sandbox->options.packages && !*sandbox->packages;
    if (sandbox->held)
        root->all->events->prepare(root);
    else
        session_all_ready(root);
}

void session_fail(Session *root, const Problem *problem)
{
    session_fail_openers(root, problem);
    sandbox_fail_waiting(root->sandbox, problem);
    session_close(root, NULL, problem->text);
}

static int on_message(Sandbox *sandbox, const Message *message, Problem *problem)
{
    if (is_waking(sandbox))
        return session_on_load_message(sandbox->root, message, problem);
    if (message->kind == MSG_EXECUTED) /* nobody asks for it any more */
        sandbox_send(sandbox, MSG_SETTLED, message->id);
    return 0;
}

static void on_ready(Sandbox *sandbox)
{
    if (is_waking(sandbox)) {
        session_on_woken(sandbox->root);
        return;
    }
    if (!sandbox->restorer)
        sandbox->root->all->events->ready(sandbox->root);
    session_prepare(sandbox->root);
}

static void on_failed(Sandbox *sandbox, const Problem *problem)
{
    if (is_waking(sandbox)) {
        session_on_not_woken(sandbox->root, problem);
        return;
    }
    log_warn("container failed", "session=%s reason=%s", sandbox->name, problem->text);
    session_fail_openers(sandbox->root, problem);
    sandbox_fail_waiting(sandbox, problem);
}

static void on_rested(Sandbox *sandbox, Session *session)
{
    rest(session);
}

static void on_closing(Sandbox *sandbox, const char *reason)
{
    Session *session;

    list_foreach (session, &sandbox->root->branches, Session, in_branches)
        session_set_closing(session, reason);
}

/* Nothing of the sandbox is left when those who waited for the end of its sessions are told. The root
 * session, whose list it is, goes last. */
static void on_gone(Sandbox *sandbox)
{
    Session *root = sandbox->root, *session;
    Sessions *all = root->all;
    CloseReplies replies;

    close_replies_init(&replies);
    list_foreach (session, &root->branches, Session, in_branches)
        if (session != root)
            session_end(session, &replies);
    session_end(root, &replies);
    sandbox_free(sandbox);
    close_replies_send(all, &replies);
}

/* Somebody may have come meanwhile. */
static void on_parked(Sandbox *sandbox)
{
    if (!list_empty(&sandbox->root->asleep))
        session_wake(sandbox->root);
}

static void on_placed(Sandbox *sandbox)
{
    session_fork_placed(sandbox->root);
}

const SandboxOwner session_owner = {
    .hello = on_hello,
    .placed = on_placed,
    .message = on_message,
    .ready = on_ready,
    .failed = on_failed,
    .rested = on_rested,
    .closing = on_closing,
    .gone = on_gone,
    .parked = on_parked,
};

/* ---- being restored ----
 *
 * Sessions that a client is giving what was saved of others. Until they have it they are as long as its
 * connection is, nobody else gets them, and no later controller takes them over: all of it is restored, or
 * none, whoever dies meanwhile. */

bool session_is_unsettled(const Session *session)
{
    return session->state == SESSION_CLOSING || (session->branch == 0 && session->sandbox->restorer != 0);
}

void session_made_whole(Session *session)
{
    Sandbox *sandbox = session->sandbox;

    if (session->branch != 0 || sandbox->restorer == 0)
        return;
    sandbox->restorer = 0;
    session->all->events->ready(session);
    session->all->events->settled(session->all->userdata, &session->waiters);
}

/* A root session that does not end yet, or NULL. */
static Session *find_restored_by(const Sessions *all, Peer restorer)
{
    Session *session, *next;

    HASH_ITER (by_name, all->by_name, session, next)
        if (session->branch == 0 && session->state != SESSION_CLOSING &&
            session->sandbox->restorer == restorer)
            return session;
    return NULL;
}

/* With each others may be gone at once. */
void sessions_restorer_gone(Sessions *all, Peer restorer)
{
    Session *session;

    while ((session = find_restored_by(all, restorer)))
        session_close(session, NULL, "the connection over which it was restored has ended");
}
