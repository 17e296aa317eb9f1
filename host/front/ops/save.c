/* save and load: the variables of a session to a directory of its sandbox, and from there. What becomes of
 * that directory is the client's business, which moves it by `files`. */
#include "host/front/ops.h"

/* The supervisor sees to the time itself. */
#define ANSWER_SECONDS (SAVE_SECONDS + 30.0)

static int answer_save(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    order_reply(order, NULL);
    return 0;
}

static int answer_load(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    MsgLoaded said;
    int r = body_decode(&said, MsgLoaded, reply, problem);

    if (r < 0)
        return r;
    session_note(order->turn.session, said.execution_count, order->turn.session->epoch);
    session_made_whole(order->turn.session);
    order_answer(order, MsgLoaded, &said);
    return 0;
}

static const OrderOps save_ops = {.kind = MSG_SAVE, .seconds = ANSWER_SECONDS, .answer = answer_save};
static const OrderOps load_ops = {.kind = MSG_LOAD, .seconds = ANSWER_SECONDS, .answer = answer_load};

static void begin(Session *session, Request *request, const OrderOps *ops, Text path, uint64_t count)
{
    Order *order = session ? order_new(sizeof(*order), ops, session, request) : NULL;

    if (!order)
        return;
    order_say(order, MsgSaveOrder,
              (&(MsgSaveOrder){
                  .branch = session->branch, .path = path, .execution_count = count, .epoch = NO_UINT}));
    order_queue(order);
}

static void handle_save(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgSave asked;

    if (op_decode(request, &asked, MsgSave, body))
        begin(op_session(front, request, asked.session, asked.instance), request, &save_ops, asked.path,
              NO_UINT);
}

static void handle_load(Front *front, Request *request, const msgpack_object_map *body)
{
    MsgLoad asked;

    if (op_decode(request, &asked, MsgLoad, body))
        begin(op_session(front, request, asked.session, asked.instance), request, &load_ops, asked.path,
              asked.execution_count);
}

const Op op_save = {.kind = MSG_SAVE, .handle = handle_save};
const Op op_load = {.kind = MSG_LOAD, .handle = handle_load};
