/* Branches and contexts: branch, commit, context. */
#include <stdio.h>
#include <string.h>

#include "host/front/ops.h"
#include "host/session/session.h"

/* ---- what is made of a session: a branch, or a context ---- */

typedef struct BranchOrder {
    Order order;     /* of the session that it was asked of */
    Session *branch; /* in the making; it ends by this order or with its sandbox */
} BranchOrder;

static int answer_made(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    MsgBranchMade said;
    int r = body_decode(&said, MsgBranchMade, reply, problem);

    if (r < 0)
        return r;
    session_branch_made(container_of(order, BranchOrder, order)->branch, said.execution_count, said.epoch);
    order_reply(order, NULL);
    return 0;
}

static void made_over(Order *order, const Problem *problem)
{
    if (problem)
        session_end_branch(container_of(order, BranchOrder, order)->branch, problem);
}

static const OrderOps branch_ops = {.kind = MSG_BRANCH, .answer = answer_made, .over = made_over};
static const OrderOps context_ops = {.kind = MSG_CONTEXT, .answer = answer_made, .over = made_over};

/* Begins to make it: the client is answered as by `open`, when it is ready. NULL, and it has ended, when
 * there is no memory. */
static Order *begin_branch(Session *origin, Session *branch, const OrderOps *ops, Request *request)
{
    Problem problem = PROBLEM_NULL;
    BranchOrder *order;

    session_wait_open(branch, request);
    order = order_new(sizeof(*order), ops, origin, NULL);
    if (!order) {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        session_end_branch(branch, &problem);
        return NULL;
    }
    order->branch = branch;
    return &order->order;
}

/* ---- branch ---- */

static void make_branch(Session *origin, Request *request, const MsgBranch *asked)
{
    Problem problem = PROBLEM_NULL;
    Session *branch;
    Order *order;

    if (session_start_branch(&branch, origin, asked->name, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    order = begin_branch(origin, branch, &branch_ops, request);
    if (!order)
        return;
    order_set_body(order, MsgBranchOrder,
                   (&(MsgBranchOrder){
                       .branch = branch->branch, .from = origin->branch, .checkpoint = asked->checkpoint}));
    order_queue(order);
}

static void handle_branch(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgBranch asked;
    Session *origin = op_decode_session(front, request, &asked, MsgBranch, body);

    if (!origin)
        return;
    if (asked.checkpoint.data && !name_valid(asked.checkpoint))
        request_fail_text(request, ERR_NO_SUCH_CHECKPOINT,
                          "the session has no checkpoint with this id or name");
    else
        make_branch(origin, request, &asked);
}

const Op op_branch = {.kind = MSG_BRANCH, .handle = handle_branch};

/* ---- context ---- */

static void make_context(Session *origin, Request *request, Text name, Text language, Text cwd)
{
    Problem problem = PROBLEM_NULL;
    Session *context;
    Order *order;

    if (session_start_context(&context, origin, name, language, cwd, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    order = begin_branch(origin, context, &context_ops, request);
    if (!order)
        return;
    order_set_body(order, MsgContextOrder,
                   (&(MsgContextOrder){.branch = context->branch, .language = language, .cwd = cwd}));
    order_queue(order);
}

/* Attaches to a context. Properties that were not asked for may be anything. */
static void attach_context(Session *session, Request *request, bool any, Text language, Text cwd)
{
    const char *names[2];
    Problem problem = PROBLEM_NULL;
    size_t n = 0;

    if (!any && !text_equal(language.data ? language : text_of(""), session->language))
        names[n++] = "language";
    if (cwd.data && !text_equal(cwd, session->cwd ? session->cwd : "/session"))
        names[n++] = "cwd";
    if (n == 0) {
        session_wait_open(session, request);
        return;
    }
    problem_set(&problem, ERR_OPTIONS_DIFFER,
                "the context '%s' is open with another %s; attach without, or choose another name",
                session->name, names[0]);
    request_fail_options(request, &problem, names, n);
}

static Session *find_context(const Session *origin, Text name)
{
    char path[2 * LIMIT_SESSION_PATH];
    int size = snprintf(path, sizeof(path), "%s/%.*s", origin->name, (int)name.size, name.data);

    return sessions_find(origin->all, origin->user, (Text){path, (size_t)size});
}

static void handle_context(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgContext asked;
    Session *origin, *session;
    Text language, name;

    origin = op_decode_session(front, request, &asked, MsgContext, body);
    if (!origin)
        return;
    language = language_name(asked.language);
    name = asked.name.data ? asked.name : language.data ? language : text_of("python");
    if (!name_valid(name)) {
        request_fail_text(
            request, ERR_BAD_REQUEST,
            "the name of a context has 1 to %u characters of A-Z a-z 0-9 . _ - and begins with a "
            "letter or digit",
            LIMIT_SESSION_NAME);
        return;
    }
    /* A session is its own context of Python. */
    session = asked.name.data || language.data || origin->language[0] ? find_context(origin, name) : origin;
    if (session)
        attach_context(session, request, !asked.language.data, language, asked.cwd);
    else
        make_context(origin, request, name, language, asked.cwd);
}

const Op op_context = {.kind = MSG_CONTEXT, .handle = handle_context};

/* ---- commit ---- */

typedef struct CommitOrder {
    Order order;   /* of the session that gets the variables */
    uint64_t from; /* the branch whose they are */
} CommitOrder;

/* Sends the commit, unless the branch was closed since it was asked for. */
static void start_commit(Order *order)
{
    const CommitOrder *commit = container_of(order, CommitOrder, order);
    const Session *from = session_find_branch(order->to_guest.sandbox->root, commit->from);
    Problem problem = PROBLEM_NULL;

    if (from && from->state == SESSION_READY) {
        order_send(order);
        return;
    }
    problem_set(&problem, ERR_NO_SUCH_SESSION, "the branch was closed before the commit");
    order_fail(order, &problem);
}

static int answer_commit(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *session = order->to_guest.session;
    MsgCommitReply said;
    int r = body_decode(&said, MsgCommitReply, reply, problem);

    if (r < 0)
        return r;
    session_note(session, said.execution_count, said.epoch);
    session->all->events->committed(session, container_of(order, CommitOrder, order)->from);
    said = (MsgCommitReply){.execution_count = session->execution_count, .epoch = session->epoch};
    order_answer(order, MsgCommitReply, &said);
    return 0;
}

static void commit_over(Order *order, const Problem *problem)
{
    const CommitOrder *commit = container_of(order, CommitOrder, order);
    Session *from = session_find_branch(order->to_guest.sandbox->root, commit->from);
    Problem committed = PROBLEM_NULL;

    problem_set(&committed, ERR_SESSION_CLOSED, "the branch was committed");
    if (!problem && from)
        session_end_branch(from, &committed);
}

static const OrderOps commit_ops = {
    .kind = MSG_COMMIT, .start = start_commit, .answer = answer_commit, .over = commit_over};

/* By its whole name or by the part behind the session's; one that shares the container and is not the root
 * session.
 */
static Session *find_source(const Session *session, Text name)
{
    char path[2 * LIMIT_SESSION_PATH + 2];
    int size = snprintf(path, sizeof(path), "%s/%.*s", session->name, (int)name.size, name.data);
    Session *found = sessions_find(session->all, session->user, (Text){path, (size_t)size});

    if (!found)
        found = sessions_find(session->all, session->user, name);
    return found && found != session && found->branch != 0 && found->sandbox == session->sandbox ? found
                                                                                                 : NULL;
}

static void queue_commit(Session *session, Session *from, Request *request)
{
    CommitOrder *commit = order_new(sizeof(*commit), &commit_ops, session, request);

    if (!commit)
        return;
    commit->from = from->branch;
    order_set_body(&commit->order, MsgCommitOrder,
                   (&(MsgCommitOrder){.branch = session->branch, .from = from->branch}));
    order_queue(&commit->order);
}

static void handle_commit(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgCommit asked;
    Session *session, *from;

    session = op_decode_session(front, request, &asked, MsgCommit, body);
    from = session ? find_source(session, asked.branch) : NULL;
    if (from)
        queue_commit(session, from, request);
    else if (session)
        request_fail_text(request, ERR_NO_SUCH_SESSION, "the session '%s' has no branch '%.*s'",
                          session->name, (int)asked.branch.size, asked.branch.data);
}

const Op op_commit = {.kind = MSG_COMMIT, .handle = handle_commit};
