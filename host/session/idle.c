/* Sessions that are saved, when they have been idle for their ttl or when a client says so: their memory and
 * their variables go to a directory of /session, and their container goes. */
#include "host/session/internal.h"
#include "host/session/order.h"
#include "host/session/saved_place.h"
#include "proto/base/log.h"

/* The supervisor sees to the time itself. */
#define ANSWER_SECONDS (SAVE_SECONDS + 30.0)

/* Its branches end at a time of their own, which comes first. */
static bool is_alone(const Session *trunk)
{
    return trunk->family.next->next == &trunk->family;
}

static bool can_be_saved(const Session *trunk)
{
    const Sandbox *sandbox = trunk->sandbox;

    return sandbox->state == SANDBOX_READY && is_alone(trunk) && sandbox_is_quiet(sandbox);
}

static void note_stay(const Session *trunk, const char *reason)
{
    log_info("idle session not saved", "session=%s reason=%s", trunk->name, reason);
}

/* The place of what was saved is removed. */
static void stay(Session *trunk, Request *request, ErrorCode code, const char *reason)
{
    note_stay(trunk, reason);
    saved_place_remove(trunk->sandbox, SAVED_PLACE);
    if (request)
        request_fail_text(request, code, "the session '%s' stays awake: %s", trunk->name, reason);
}

/* Parks a session whose variables are saved. One that is in use again, or cannot be written down, goes on. */
static void put_away(Session *trunk, uint64_t used, Request *request)
{
    Sandbox *sandbox = trunk->sandbox;

    if (!can_be_saved(trunk)) {
        stay(trunk, request, ERR_BUSY, "it is in use again");
        return;
    }
    session_set_state(trunk, SESSION_SAVED);
    if (!sandbox_park(sandbox)) {
        session_set_state(trunk, SESSION_READY);
        stay(trunk, request, ERR_SAVE_FAILED, "its journal cannot be written");
        return;
    }
    loop_timer_cancel(&trunk->idle_timer);
    trunk->used = used;
    log_info("idle session saved", "session=%s", trunk->name);
    if (request)
        request_reply_empty(request);
}

static int on_saved(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *trunk = order->turn.session;
    Request *request = order->request;
    uint64_t used = trunk->used;
    Problem closed = PROBLEM_NULL;

    if (trunk->state != SESSION_READY) {
        session_say_closed(trunk, "it ended while it was saved", &closed);
        order_fail(order, &closed);
        return 0;
    }
    order->request = NULL;
    order_reply(order, NULL);
    put_away(trunk, used, request);
    return 0;
}

static void on_refused(Order *order, const Problem *problem)
{
    note_stay(order->turn.session, problem->text);
    saved_place_remove(order->turn.sandbox, SAVED_PLACE);
    order_fail(order, problem);
}

static const OrderOps save_ops = {
    .kind = MSG_SAVE, .seconds = ANSWER_SECONDS, .answer = on_saved, .refused = on_refused};

static void save(Order *order)
{
    order_say(order, MsgSaveOrder,
              (&(MsgSaveOrder){
                  .path = text_of(SAVED_PLACE), .execution_count = NO_UINT, .epoch = NO_UINT, .ends = true}));
    order_queue(order);
}

/* Saves an idle session. One that cannot be saved has its whole time again. */
void session_save_idle(Session *trunk)
{
    Order *order = can_be_saved(trunk) ? order_new(sizeof(*order), &save_ops, trunk, NULL) : NULL;

    if (order)
        save(order);
    else
        session_start_ttl(trunk);
}

void session_sleep(Session *trunk, Request *request)
{
    Order *order;

    if (session_is_asleep(trunk))
        request_reply_empty(request);
    else if (trunk->state == SESSION_SAVED)
        request_fail_text(request, ERR_BUSY, "the session '%s' is being woken; try again then", trunk->name);
    else if (session_is_unsettled(trunk))
        request_fail_text(request, ERR_BUSY, "the session '%s' is being restored; try again then",
                          trunk->name);
    else if (!is_alone(trunk))
        request_fail_text(
            request, ERR_BUSY,
            "the session '%s' has branches or contexts, which cannot be saved; close them first",
            trunk->name);
    else if ((order = order_new(sizeof(*order), &save_ops, trunk, request)))
        save(order);
}
