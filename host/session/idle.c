/* Sessions that are saved when they have been idle for their ttl: their variables go to a directory of
 * /session, and their container goes. */
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

static void stay(Session *trunk, const char *reason)
{
    log_info("idle session not saved", "session=%s reason=%s", trunk->name, reason);
}

/* Parks a session whose variables are saved. One that is in use again, or cannot be written down, goes on,
 * and the place of what was saved is removed. */
static void put_away(Session *trunk, uint64_t used)
{
    Sandbox *sandbox = trunk->sandbox;

    if (trunk->state != SESSION_READY)
        return;
    if (!can_be_saved(trunk)) {
        stay(trunk, "it is in use again");
        saved_place_remove(sandbox);
        return;
    }
    session_set_state(trunk, SESSION_SAVED);
    if (!sandbox_park(sandbox)) {
        session_set_state(trunk, SESSION_READY);
        stay(trunk, "its journal cannot be written");
        saved_place_remove(sandbox);
        return;
    }
    loop_timer_cancel(&trunk->idle_timer);
    trunk->used = used;
    log_info("idle session saved", "session=%s", trunk->name);
}

static int on_saved(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *trunk = order->turn.session;
    uint64_t used = trunk->used;

    order_reply(order, NULL);
    put_away(trunk, used);
    return 0;
}

static void on_refused(Order *order, const Problem *problem)
{
    stay(order->turn.session, problem->text);
    saved_place_remove(order->turn.sandbox);
    order_fail(order, problem);
}

static const OrderOps save_ops = {
    .kind = MSG_SAVE, .seconds = ANSWER_SECONDS, .answer = on_saved, .refused = on_refused};

/* Saves an idle session. One that cannot be saved has its whole time again. */
void session_save_idle(Session *trunk)
{
    Order *order = can_be_saved(trunk) ? order_new(sizeof(*order), &save_ops, trunk, NULL) : NULL;

    if (!order) {
        session_start_ttl(trunk);
        return;
    }
    order_say(order, MsgSaveOrder,
              (&(MsgSaveOrder){
                  .path = text_of(SAVED_PLACE), .execution_count = NO_UINT, .epoch = NO_UINT, .ends = true}));
    order_queue(order);
}
