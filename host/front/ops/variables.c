/* Variables of a session: namespace, reset, save, load; and export, what it did. */
#include <string.h>

#include "host/front/ops.h"
#include "host/journal/session_journal.h"

/* ---- namespace ---- */

static int answer_namespace(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    MsgNamespace said;
    int r = body_decode(&said, MsgNamespace, reply, problem);

    if (r == 0)
        order_answer(order, MsgNamespace, &said);
    return r;
}

static const OrderOps namespace_ops = {.kind = MSG_NAMESPACE, .answer = answer_namespace};

static void handle_namespace(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = op_target(front, request, body);
    Order *order = session ? order_new(sizeof(*order), &namespace_ops, session, request) : NULL;

    if (!order)
        return;
    order_set_branch(order);
    order_queue(order);
}

const Op op_namespace = {.kind = MSG_NAMESPACE, .handle = handle_namespace};

/* ---- reset ---- */

static int answer_reset(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *session = order->to_guest.session;
    MsgEpoch said;
    int r = body_decode(&said, MsgEpoch, reply, problem);

    if (r < 0)
        return r;
    session_note(session, session->execution_count, said.epoch);
    session->all->events->back(session, 0);
    said.epoch = session->epoch;
    order_answer(order, MsgEpoch, &said);
    return 0;
}

static const OrderOps reset_ops = {.kind = MSG_RESET, .answer = answer_reset};

/* Begins a reset: it ends the session's call that runs, and goes before everything that waits. */
static void begin_reset(Session *session, Order *order)
{
    Call *running = call_running(session);

    sandbox_queue_first(session->sandbox, &order->to_guest);
    if (!running) {
        sandbox_next(session->sandbox);
        return;
    }
    asks_interrupt(running);
    order_send(order);
}

/* Refuses a reset for which too many others wait: it goes before a full queue of calls, but not before
 * resets. */
static Session *check_reset(Session *session, Request *request)
{
    if (!session || sandbox_count_waiting(session->sandbox, session) < 2 * LIMIT_QUEUE)
        return session;
    request_fail_text(request, ERR_BUSY, "%u resets already wait for the session '%s'", LIMIT_QUEUE,
                      session->name);
    return NULL;
}

static void handle_reset(Front *front, Request *request, const msgpack_object_map *body)
{
    Session *session = check_reset(op_target(front, request, body), request);
    Order *order = session ? order_new(sizeof(*order), &reset_ops, session, request) : NULL;

    if (!order)
        return;
    order_set_body(order, MsgReset, &(MsgReset){.branch = session->branch});
    begin_reset(session, order);
}

const Op op_reset = {.kind = MSG_RESET, .handle = handle_reset};

/* ---- save and load ----
 *
 * save and load: the variables of a session to a directory of its sandbox, and from there. What becomes of
 * that directory is the client's business, which moves it by `files`. */

/* The supervisor sees to the time itself. */
#define ANSWER_SECONDS (SAVE_SECONDS + 30.0)

static int answer_save(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    MsgSaveReply said;
    int r = body_decode(&said, MsgSaveReply, reply, problem);

    if (r == 0)
        order_answer(order, MsgSaveReply, &said);
    return r;
}

static int answer_load(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    MsgLoaded said;
    int r = body_decode(&said, MsgLoaded, reply, problem);

    if (r < 0)
        return r;
    session_note(order->to_guest.session, said.execution_count, order->to_guest.session->epoch);
    session_made_whole(order->to_guest.session);
    order_answer(order, MsgLoaded, &said);
    return 0;
}

static const OrderOps save_ops = {.kind = MSG_SAVE, .seconds = ANSWER_SECONDS, .answer = answer_save};
static const OrderOps load_ops = {.kind = MSG_LOAD, .seconds = ANSWER_SECONDS, .answer = answer_load};

static void begin_saving(Session *session, Request *request, const OrderOps *ops, MsgSaveOrder asked)
{
    Order *order = session ? order_new(sizeof(*order), ops, session, request) : NULL;

    if (!order)
        return;
    asked.branch = session->branch;
    asked.epoch = NO_UINT;
    order_set_body(order, MsgSaveOrder, &asked);
    order_queue(order);
}

static void handle_save(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgSave asked;

    if (op_decode(request, &asked, MsgSave, body))
        begin_saving(op_session(front, request, asked.session, asked.instance), request, &save_ops,
                     (MsgSaveOrder){.path = asked.path, .execution_count = NO_UINT, .memory = asked.memory});
}

static void handle_load(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgLoad asked;

    if (op_decode(request, &asked, MsgLoad, body))
        begin_saving(op_session(front, request, asked.session, asked.instance), request, &load_ops,
                     (MsgSaveOrder){.path = asked.path,
                                    .execution_count = asked.execution_count,
                                    .memory = asked.memory});
}

const Op op_save = {.kind = MSG_SAVE, .handle = handle_save};
const Op op_load = {.kind = MSG_LOAD, .handle = handle_load};

/* ---- export ---- */

#define REPLY_BYTES (1u << 20)

typedef struct Page {
    Buf entries; /* encoded */
    uint32_t count;
} Page;

static void write_page(Writer *w, const void *source)
{
    const Page *page = source;

    write_array(w, page->count);
    if (page->count > 0)
        write_encoded(w, &page->entries);
}

static void page_deinit(Page *page)
{
    buf_deinit(&page->entries);
}

static void handle_export(Front *front, Request *request, const msgpack_object_map *body)
{
    Page page _cleanup_(page_deinit) = {0};
    MsgExportReply reply = {.history = {.write = write_page, .source = &page}};
    Session *session;
    MsgExport asked;

    session = op_decode_session(front, request, &asked, MsgExport, body);
    if (!session)
        return;
    if (session->branch != 0) {
        request_fail_text(request, ERR_BAD_REQUEST, "'%s' is a branch; export its session", session->name);
        return;
    }
    reply.next = uint_or(asked.next, 0);
    if (history_read(session->sandbox, &reply.next, REPLY_BYTES, &page.entries, &page.count) < 0) {
        request_fail_text(request, ERR_BAD_REQUEST, "next: no entry of the history begins there");
        return;
    }
    if (page.count == 0)
        reply.next = NO_UINT;
    request_reply_with(request, SCHEMA(MsgExportReply), &reply);
}

const Op op_export = {.kind = MSG_EXPORT, .lets_sleep = true, .handle = handle_export};
