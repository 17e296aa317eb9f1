#include <stdio.h>
#include <string.h>

#include "host/journal_sandbox.h"
#include "host/former.h"
#include "host/sandbox_parts.h"
#include "host/sessions.h"

static int check_new(const Session *origin, const char *path, Problem *problem)
{
    const Sandbox *sandbox = origin->sandbox;
    size_t n = 0;

    for (const List *at = sandbox->sessions.next; at != &sandbox->sessions; at = at->next)
        n++;
    if (sessions_holder(origin->controller, (Text){path, strlen(path)}))
        return problem_set(problem, ERR_BRANCH_EXISTS,
                           "a branch '%s' is open; choose another name, or close it first", path);
    if (n > LIMIT_BRANCHES)
        return problem_set(problem, ERR_TOO_LARGE, "'%s' has %u branches already; close one of them first",
                           sandbox->trunk->name, LIMIT_BRANCHES);
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
            "a branch's name has 1 to %u of A-Z a-z 0-9 . _ - and begins with a letter or digit",
            LIMIT_SESSION_NAME);
    size = snprintf(path, sizeof(path), "%s/%.*s", origin->name, (int)name.size, name.data);
    if (size > (int)LIMIT_SESSION_PATH)
        return problem_set(problem, ERR_BAD_REQUEST, "the branch's whole name would have more than %u bytes",
                           LIMIT_SESSION_PATH);
    r = check_new(origin, path, problem);
    if (r < 0)
        return r;
    branch = session_new(origin->controller, path);
    if (!branch)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    branch->sandbox = origin->sandbox;
    branch->branch = sandbox_next_number(origin->controller);
    branch->execution_count = origin->execution_count;
    list_append(&origin->sandbox->sessions, &branch->in_sandbox);
    sessions_add(origin->controller, branch);
    *ret = branch;
    return 0;
}

void session_branch_made(Session *branch)
{
    if (branch->state == SESSION_STARTING) {
        branch->state = SESSION_READY; /* first: a journal that is written anew has what is ready */
        journal_branch(branch);
        session_become_ready(branch);
    } else {
        sandbox_drop_branch(branch->sandbox, branch->branch);
    }
}

void session_end_branch(Session *branch, const Problem *problem)
{
    Controller *controller = branch->controller;
    Sandbox *sandbox = branch->sandbox;
    Farewell farewell;

    if (sandbox->state == SANDBOX_CLOSING)
        return;
    session_fail_openers(branch, problem);
    session_set_closing(branch, problem->text);
    sandbox_end_turns(sandbox, branch, problem->text);
    sandbox_end_running_order(sandbox, branch, problem);
    if (sandbox->state == SANDBOX_CLOSING) /* what came next could not be sent */
        return;
    former_add(sandbox, branch->branch, branch->name);
    farewell_init(&farewell);
    session_free(branch, &farewell);
    farewell_tell(&farewell, controller);
}

/* What closes a branch in the supervisor */

typedef struct CloseOrder {
    Order order; /* of the trunk: the branch has no turns any more */
    uint64_t branch;
} CloseOrder;

static int on_closed(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    order_reply(order, NULL);
    return 0;
}

/* Whether it could be closed or was not there any more: nobody uses it. */
static void on_over(Order *order, const Problem *problem)
{
    const CloseOrder *close = container_of(order, CloseOrder, order);
    Session *branch = sandbox_find_branch(order->turn.session->sandbox, close->branch);
    Problem closed = PROBLEM_NULL;

    problem_set(&closed, ERR_SESSION_CLOSED, "the branch was closed");
    if (branch)
        session_end_branch(branch, &closed);
}

static const OrderOps close_ops = {.kind = MSG_CLOSE, .answer = on_closed, .over = on_over};

void sandbox_drop_branch(Sandbox *sandbox, uint64_t branch)
{
    CloseOrder *close = order_new(sizeof(*close), &close_ops, sandbox->trunk, NULL);

    if (!close) {
        sandbox_close(sandbox, "out of memory");
        return;
    }
    close->branch = branch;
    order_say(&close->order, MsgBranchTarget, &(MsgBranchTarget){.branch = branch});
    sandbox_queue_first(sandbox, &close->order.turn);
    sandbox_next(sandbox);
}

/* One that is being made is dropped when it is. */
void session_close_branch(Session *branch, const char *reason)
{
    bool made = branch->state == SESSION_READY;

    session_set_closing(branch, reason);
    sandbox_end_turns(branch->sandbox, branch, reason);
    if (made)
        sandbox_drop_branch(branch->sandbox, branch->branch);
}
