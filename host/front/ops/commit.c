#include <stdio.h>

#include "host/front/ops.h"

typedef struct CommitOrder {
    Order order;   /* of the session that gets the variables */
    uint64_t from; /* the branch whose they are */
} CommitOrder;

/* Sends the commit, unless the branch was closed since it was asked for. */
static void start(Order *order)
{
    const CommitOrder *commit = container_of(order, CommitOrder, order);
    const Session *from = session_find_branch(order->turn.sandbox->trunk, commit->from);
    Problem problem = PROBLEM_NULL;

    if (from && from->state == SESSION_READY) {
        order_send(order);
        return;
    }
    problem_set(&problem, ERR_NO_SUCH_SESSION, "the branch was closed before the commit");
    order_fail(order, &problem);
}

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *session = order->turn.session;
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

static void over(Order *order, const Problem *problem)
{
    const CommitOrder *commit = container_of(order, CommitOrder, order);
    Session *from = session_find_branch(order->turn.sandbox->trunk, commit->from);
    Problem committed = PROBLEM_NULL;

    problem_set(&committed, ERR_SESSION_CLOSED, "the branch was committed");
    if (!problem && from)
        session_end_branch(from, &committed);
}

static const OrderOps commit_ops = {.kind = MSG_COMMIT, .start = start, .answer = answer, .over = over};

/* By its whole name or by the part behind the session's; one that shares the container and is not the trunk.
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

static void queue(Session *session, Session *from, Request *request)
{
    CommitOrder *commit = order_new(sizeof(*commit), &commit_ops, session, request);

    if (!commit)
        return;
    commit->from = from->branch;
    order_say(&commit->order, MsgCommitOrder,
              (&(MsgCommitOrder){.branch = session->branch, .from = from->branch}));
    order_queue(&commit->order);
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgCommit asked;
    Session *session, *from;

    if (!op_decode(request, &asked, MsgCommit, body))
        return;
    session = op_session(front, request, asked.session, asked.instance);
    from = session ? find_source(session, asked.branch) : NULL;
    if (from)
        queue(session, from, request);
    else if (session)
        request_fail_text(request, ERR_NO_SUCH_SESSION, "the session '%s' has no branch '%.*s'",
                          session->name, (int)asked.branch.size, asked.branch.data);
}

const Op op_commit = {.kind = MSG_COMMIT, .handle = handle};
