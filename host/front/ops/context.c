#include <string.h>

#include "host/front/ops.h"
#include "host/session/language.h"

typedef struct ContextOrder {
    Order order;      /* of the session that it was asked of */
    Session *context; /* in the making; it ends by this order or with its sandbox */
} ContextOrder;

static Session *context_of(Order *order)
{
    return container_of(order, ContextOrder, order)->context;
}

static int answer(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    MsgBranchMade said;
    int r = body_decode(&said, MsgBranchMade, reply, problem);

    if (r < 0)
        return r;
    session_branch_made(context_of(order), said.execution_count, said.epoch);
    order_reply(order, NULL);
    return 0;
}

static void over(Order *order, const Problem *problem)
{
    if (problem)
        session_end_branch(context_of(order), problem);
}

static const OrderOps context_ops = {.kind = MSG_CONTEXT, .answer = answer, .over = over};

/* The client is answered as by `open`, when the context is ready. */
static void make(Session *origin, Request *request, Text name, Text language, Text cwd)
{
    Problem problem = PROBLEM_NULL;
    ContextOrder *order;
    Session *context;

    if (session_start_context(&context, origin, name, language, cwd, &problem) < 0) {
        request_fail(request, &problem);
        return;
    }
    session_wait_open(context, request);
    order = order_new(sizeof(*order), &context_ops, origin, NULL);
    if (!order) {
        problem_set(&problem, ERR_INTERNAL, "out of memory");
        session_end_branch(context, &problem);
        return;
    }
    order->context = context;
    order_say(&order->order, MsgContextOrder,
              (&(MsgContextOrder){.branch = context->branch, .language = language, .cwd = cwd}));
    order_queue(&order->order);
}

/* Attaches to a context. Properties that were not asked for may be anything. */
static void attach(Session *session, Request *request, bool any, Text language, Text cwd)
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

static Session *find(const Session *origin, Text name)
{
    char path[2 * LIMIT_SESSION_PATH];
    int size = snprintf(path, sizeof(path), "%s/%.*s", origin->name, (int)name.size, name.data);

    return sessions_find(origin->all, origin->user, (Text){path, (size_t)size});
}

static void handle(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgContext asked;
    Session *origin, *session;
    Text language, name;

    if (!op_decode(request, &asked, MsgContext, body))
        return;
    origin = op_session(front, request, asked.session, asked.instance);
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
    session = asked.name.data || language.data || origin->language[0] ? find(origin, name) : origin;
    if (session)
        attach(session, request, !asked.language.data, language, asked.cwd);
    else
        make(origin, request, name, language, asked.cwd);
}

const Op op_context = {.kind = MSG_CONTEXT, .handle = handle};
