/* Branches and contexts of a session: sessions that live in its sandbox. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "host/session/internal.h"
#include "host/session/order.h"
#include "host/session/session.h"

/* ---- closed branches, for the checkpoints of them that are still kept ---- */

typedef struct ClosedBranch {
    List link;
    uint64_t branch;
    char name[LIMIT_SESSION_PATH + 1];
} ClosedBranch;

static void forget_closed(ClosedBranch *closed)
{
    list_remove(&closed->link);
    free(closed);
}

/* The oldest is forgotten when there are more than there can be checkpoints. */
static void closed_branch_add(Session *root, uint64_t branch, const char *name)
{
    ClosedBranch *closed = calloc(1, sizeof(*closed));
    size_t n = 0;

    if (!closed)
        return;
    closed->branch = branch;
    snprintf(closed->name, sizeof(closed->name), "%s", name);
    list_append(&root->closed_branches, &closed->link);
    for (const List *at = root->closed_branches.next; at != &root->closed_branches; at = at->next)
        n++;
    if (n > LIMIT_CHECKPOINTS)
        forget_closed(list_entry(list_first(&root->closed_branches), ClosedBranch, link));
}

void closed_branches_deinit(Session *root)
{
    ClosedBranch *closed;

    list_foreach (closed, &root->closed_branches, ClosedBranch, link)
        forget_closed(closed);
}

const char *session_branch_name(const Session *root, uint64_t branch, char buffer[static BRANCH_NAME_SIZE])
{
    const Session *session = session_find_branch(root, branch);
    const ClosedBranch *closed;

    if (session)
        return session->name;
    list_foreach (closed, &root->closed_branches, ClosedBranch, link)
        if (closed->branch == branch)
            return closed->name;
    snprintf(buffer, BRANCH_NAME_SIZE, "%s/%" PRIu64, root->name, branch);
    return buffer;
}

/* ---- languages of contexts ---- */

/* From the descriptions in guest/languages, when this is built. */
static const struct {
    const char *alias, *name;
} aliases[] = {
#define ALIAS(alias, name) {alias, name},
#include "languages.inc"
#undef ALIAS
};

static bool is_same(Text asked, const char *alias)
{
    return asked.size == strlen(alias) && strncasecmp(asked.data, alias, asked.size) == 0;
}

Text language_name(Text asked)
{
    Text name = asked;

    for (size_t i = 0; i < ARRAY_SIZE(aliases); i++)
        if (asked.data && is_same(asked, aliases[i].alias))
            name = text_of(aliases[i].name);
    return text_equal(name, "python") ? (Text){0} : name;
}

/* ---- open branches ---- */

static int check_new(const Session *origin, const char *path, Problem *problem)
{
    const Session *root = origin->sandbox->root;
    size_t n = 0;

    for (const List *at = root->branches.next; at != &root->branches; at = at->next)
        n++;
    if (sessions_holder(origin->all, origin->user, text_of(path)))
        return problem_set(problem, ERR_BRANCH_EXISTS,
                           "the branch '%s' is already open; choose another name, or close it first", path);
    if (n > LIMIT_BRANCHES)
        return problem_set(problem, ERR_TOO_LARGE, "'%s' already has %u branches; close one of them first",
                           root->name, LIMIT_BRANCHES);
    return 0;
}

int session_start_branch(Session **ret, Session *origin, Text name, Problem *problem)
{
    char path[2 * LIMIT_SESSION_PATH];
    Session *branch;
    int size, r;

    if (!name_valid(name))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "a branch name has 1 to %u characters of A-Z a-z 0-9 . _ - and begins with a letter or digit",
            LIMIT_SESSION_NAME);
    size = snprintf(path, sizeof(path), "%s/%.*s", origin->name, (int)name.size, name.data);
    if (size > (int)LIMIT_SESSION_PATH)
        return problem_set(problem, ERR_BAD_REQUEST, "the full name of the branch would exceed %u bytes",
                           LIMIT_SESSION_PATH);
    r = check_new(origin, path, problem);
    if (r < 0)
        return r;
    branch =
        session_restore_branch(origin->sandbox->root, sandboxes_next_number(origin->all->sandboxes), path);
    if (!branch)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    branch->execution_count = origin->execution_count;
    *ret = branch;
    return 0;
}

int session_set_place(Session *session, Text language, Text cwd)
{
    snprintf(session->language, sizeof(session->language), "%.*s", (int)language.size,
             language.data ? language.data : "");
    session->cwd = text_dup(cwd);
    return cwd.data && !session->cwd ? -ENOMEM : 0;
}

int session_start_context(Session **ret, Session *origin, Text name, Text language, Text cwd,
                          Problem *problem)
{
    Problem closed = PROBLEM_NULL;
    int r = session_start_branch(ret, origin, name, problem);

    if (r < 0)
        return r;
    (*ret)->execution_count = 0;
    if (session_set_place(*ret, language, cwd) == 0)
        return 0;
    problem_set(&closed, ERR_INTERNAL, "out of memory");
    session_end_branch(*ret, &closed);
    return problem_set(problem, ERR_INTERNAL, "out of memory");
}

Session *session_restore_branch(Session *root, uint64_t branch, const char *name)
{
    Session *session = session_new(root->all, root->user, name);

    if (!session || !instance_make(session->instance) || sessions_add(session) < 0)
        return session_free(session);
    session->sandbox = root->sandbox;
    session->branch = branch;
    list_append(&root->branches, &session->in_branches);
    return session;
}

Session *session_find_branch(const Session *root, uint64_t branch)
{
    Session *session;

    list_foreach (session, &root->branches, Session, in_branches)
        if (session->branch == branch)
            return session;
    return NULL;
}

/* Makes a branch READY before anybody is told: the journal, which writes down what is ready, then has it.
 * Drops one that is closing. */
void session_branch_made(Session *branch, uint64_t execution_count, uint64_t epoch)
{
    branch->execution_count = execution_count;
    branch->epoch = MAX(branch->epoch, epoch);
    if (branch->state == SESSION_STARTING) {
        session_set_state(branch, SESSION_READY);
        branch->all->events->branched(branch);
        session_tell_ready(branch);
    } else {
        session_drop_branch(branch->sandbox->root, branch->branch);
    }
}

void session_forget_branch(Session *branch)
{
    Sessions *all = branch->all;
    CloseReplies replies;

    closed_branch_add(branch->sandbox->root, branch->branch, branch->name);
    close_replies_init(&replies);
    session_end(branch, &replies);
    close_replies_send(all, &replies);
}

void session_end_branch(Session *branch, const Problem *problem)
{
    Sandbox *sandbox = branch->sandbox;

    if (sandbox_is_ending(sandbox))
        return;
    session_fail_openers(branch, problem);
    session_set_closing(branch, problem->text);
    sandbox_end_requests(sandbox, branch, problem->text);
    sandbox_fail_running(sandbox, branch, problem);
    if (!sandbox_is_ending(sandbox)) /* as when what came next could not be sent */
        session_forget_branch(branch);
}

/* ---- what closes a branch in the supervisor ---- */

typedef struct CloseOrder {
    Order order; /* of the root session: the branch has no requests any more */
    uint64_t branch;
} CloseOrder;

static int on_closed(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    order_reply(order, NULL);
    return 0;
}

/* Ends the branch, whether the supervisor closed it or did not have it any more: nobody uses it. */
static void on_over(Order *order, const Problem *problem)
{
    const CloseOrder *close = container_of(order, CloseOrder, order);
    Session *branch = session_find_branch(order->to_guest.session, close->branch);
    Problem closed = PROBLEM_NULL;

    problem_set(&closed, ERR_SESSION_CLOSED, "the branch was closed");
    if (branch)
        session_end_branch(branch, &closed);
}

static const OrderOps close_ops = {.kind = MSG_CLOSE, .answer = on_closed, .over = on_over};

static bool closes(const GuestRequest *to_guest, uint64_t branch)
{
    return order_is(to_guest, &close_ops) &&
           container_of(to_guest, CloseOrder, order.to_guest)->branch == branch;
}

/* A supervisor may tell of a branch again before it is asked to close it. */
static bool is_being_closed(const Sandbox *sandbox, uint64_t branch)
{
    const GuestRequest *to_guest;

    list_foreach (to_guest, (List *)&sandbox->waiting, GuestRequest, link)
        if (closes(to_guest, branch))
            return true;
    return sandbox->running && closes(sandbox->running, branch);
}

void session_drop_branch(Session *root, uint64_t branch)
{
    CloseOrder *close;

    if (is_being_closed(root->sandbox, branch))
        return;
    close = order_new(sizeof(*close), &close_ops, root, NULL);
    if (!close) {
        sandbox_close(root->sandbox, "out of memory");
        return;
    }
    close->branch = branch;
    order_set_body(&close->order, MsgBranchTarget, &(MsgBranchTarget){.branch = branch});
    sandbox_queue_first(root->sandbox, &close->order.to_guest);
    sandbox_next(root->sandbox);
}

/* Closes a branch; one that is being made is dropped once it is made. */
void session_close_branch(Session *branch, const char *reason)
{
    bool made = branch->state == SESSION_READY;

    session_set_closing(branch, reason);
    sandbox_end_requests(branch->sandbox, branch, reason);
    if (made)
        session_drop_branch(branch->sandbox->root, branch->branch);
}
