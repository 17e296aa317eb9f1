#include <stdio.h>

#include "host/ops.h"
#include "host/session.h"
#include "host/sessions.h"

typedef struct CommitOrder {
    Order order;   /* of the session that gets the variables */
    uint64_t from; /* the branch whose they are */
} CommitOrder;

typedef struct Reply {
    uint64_t execution_count, epoch;
} Reply;

static const Field reply_fields[] = {
    FIELD(FIELD_UINT, Reply, execution_count, true, 0),
    FIELD(FIELD_UINT, Reply, epoch, true, 0),
};

/* It may have been closed since the commit was asked for. */
static void start(Order *order)
{
    const CommitOrder *commit = container_of(order, CommitOrder, order);
    const Session *from = sandbox_find_branch(order->turn.session->sandbox, commit->from);
    Problem problem = PROBLEM_NULL;

    if (from && from->state == SESSION_READY) {
        order_send(order);
        return;
    }
    problem_set(&problem, ERR_NO_SUCH_SESSION, "the branch was closed before it could be committed");
    order_fail(order, &problem);
}

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *session = order->turn.session;
    Buf body _cleanup_(buf_deinit) = BUF_NULL;
    Reply said = {0};
    Writer w;
    int r = fields_decode(&said, reply_fields, ARRAY_SIZE(reply_fields), reply, problem);

    if (r < 0)
        return r;
    session->epoch = MAX(session->epoch, said.epoch);
    session->execution_count = MAX(session->execution_count, said.execution_count);
    writer_init(&w, &body);
    write_map(&w, 2);
    write_key(&w, "execution_count");
    write_uint(&w, session->execution_count);
    write_key(&w, "epoch");
    write_uint(&w, session->epoch);
    writer_finish(&w);
    order_reply(order, &body);
    return 0;
}

static void over(Order *order, const Problem *problem)
{
    const CommitOrder *commit = container_of(order, CommitOrder, order);
    Session *from = sandbox_find_branch(order->turn.session->sandbox, commit->from);
    Problem committed = PROBLEM_NULL;

    problem_set(&committed, ERR_SESSION_CLOSED, "the branch was committed");
    if (!problem && from)
        session_end_branch(from, &committed);
}

static const OrderOps commit_ops = {.kind = MSG_COMMIT, .start = start, .answer = answer, .over = over};

typedef struct CommitRequest {
    Text session, instance;
    Text branch;
} CommitRequest;

static const Field fields[] = {
    FIELD(FIELD_TEXT, CommitRequest, session, true, 0),
    FIELD(FIELD_TEXT, CommitRequest, instance, false, 0),
    FIELD(FIELD_TEXT, CommitRequest, branch, true, LIMIT_SESSION_PATH),
};

/* By its whole name or by the part behind the session's; one that shares the container and is not the trunk.
 */
static Session *find_source(const Session *session, Text name)
{
    char path[2 * LIMIT_SESSION_PATH + 2];
    int size = snprintf(path, sizeof(path), "%s/%.*s", session->name, (int)name.size, name.data);
    Session *found = sessions_find(session->controller, (Text){path, (size_t)size});

    if (!found)
        found = sessions_find(session->controller, name);
    return found && found != session && found->branch != 0 && found->sandbox == session->sandbox ? found
                                                                                                 : NULL;
}

static void queue(Session *session, Session *from, Request *request)
{
    CommitOrder *commit = order_new(sizeof(*commit), &commit_ops, session, request);
    Writer w;

    if (!commit)
        return;
    commit->from = from->branch;
    writer_init(&w, &commit->order.body);
    write_map(&w, 2);
    write_key(&w, "branch");
    write_uint(&w, session->branch);
    write_key(&w, "from");
    write_uint(&w, from->branch);
    writer_finish(&w);
    session_order(session, &commit->order);
}

static void handle(Controller *controller, Request *request, const msgpack_object_map *body)
{
    CommitRequest asked = {0};
    Session *session, *from;

    if (!op_decode(request, &asked, fields, ARRAY_SIZE(fields), body))
        return;
    session = op_session(controller, request, asked.session, asked.instance);
    from = session ? find_source(session, asked.branch) : NULL;
    if (from)
        queue(session, from, request);
    else if (session)
        request_fail_text(request, ERR_NO_SUCH_SESSION, "the session '%s' has no branch '%.*s'",
                          session->name, (int)asked.branch.size, asked.branch.data);
}

const Op op_commit = {.kind = MSG_COMMIT, .handle = handle};
