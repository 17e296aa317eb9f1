#include "host/sandbox_parts.h"
#include "proto/base/clock.h"

/* The supervisor answers a call by its deadline and three seconds; this much later it counts as stuck. */
#define WATCHDOG_SLACK 8.0

static Call *call_of(Turn *turn)
{
    return turn && turn->kind == TURN_CALL ? container_of(turn, Call, turn) : NULL;
}

static Order *order_of(Turn *turn)
{
    return turn && turn->kind == TURN_ORDER ? container_of(turn, Order, turn) : NULL;
}

Call *sandbox_running_call(const Sandbox *sandbox)
{
    return call_of(sandbox->running);
}

Order *sandbox_sent_order(const Sandbox *sandbox, uint64_t number)
{
    Order *order = order_of(sandbox->running);
    Turn *turn;

    if (number == 0)
        return NULL;
    if (order && order->turn.number == number)
        return order;
    list_foreach (turn, &sandbox->turns, Turn, link)
        if (turn->number == number)
            return order_of(turn);
    return NULL;
}

static bool sent_before(const Turn *turn, uint64_t number)
{
    return turn->kind == TURN_ORDER && turn->number != 0 && turn->number < number;
}

Order *sandbox_order_sent_before(const Sandbox *sandbox, uint64_t number)
{
    Turn *turn = sandbox->running;

    if (turn && sent_before(turn, number))
        return order_of(turn);
    list_foreach (turn, &sandbox->turns, Turn, link)
        if (sent_before(turn, number))
            return order_of(turn);
    return NULL;
}

static void on_watchdog(LoopTimer *timer)
{
    sandbox_close(container_of(timer, Sandbox, watchdog), "its supervisor did not answer in time");
}

void sandbox_watch(Sandbox *sandbox, double seconds)
{
    loop_timer_set(sandbox->controller->loop, &sandbox->watchdog, clock_now() + clock_from_seconds(seconds),
                   on_watchdog);
}

void sandbox_watch_call(Sandbox *sandbox, const Call *call)
{
    sandbox_watch(sandbox, call->timeout + WATCHDOG_SLACK);
}

/* One that was sent while it waited has only its answer to come. */
static void start_order(Sandbox *sandbox, Order *order)
{
    if (order->turn.number != 0)
        sandbox_watch(sandbox, WATCHDOG_SLACK);
    else if (order->ops->start)
        order->ops->start(order);
    else
        order_send(order);
}

void sandbox_set_running(Sandbox *sandbox, Turn *turn)
{
    sandbox->running = turn;
    if (turn)
        courtesy_began(sandbox);
    else
        courtesy_ended(sandbox);
}

void sandbox_next(Sandbox *sandbox)
{
    Turn *turn;
    Call *call;

    if (sandbox->state != SANDBOX_READY || sandbox->running || list_empty(&sandbox->turns))
        return;
    turn = list_entry(list_first(&sandbox->turns), Turn, link);
    sandbox_unqueue(sandbox, turn);
    sandbox_set_running(sandbox, turn);
    call = call_of(turn);
    if (call) {
        sandbox_watch_call(sandbox, call);
        sandbox_start_call(sandbox, call);
    } else {
        start_order(sandbox, order_of(turn));
    }
}

void sandbox_queue(Sandbox *sandbox, Turn *turn)
{
    list_append(&sandbox->turns, &turn->link);
    turn->session->queued++;
    sandbox_next(sandbox);
}

void sandbox_queue_first(Sandbox *sandbox, Turn *turn)
{
    list_append(sandbox->turns.next, &turn->link);
    turn->session->queued++;
}

void sandbox_unqueue(Sandbox *sandbox, Turn *turn)
{
    list_remove(&turn->link);
    turn->session->queued--;
}

void sandbox_turn_over(Sandbox *sandbox, Session *session)
{
    if (sandbox->state != SANDBOX_READY)
        return;
    loop_timer_cancel(&sandbox->watchdog);
    if (sandbox->ephemeral) {
        sandbox_close(sandbox, "its call has ended");
        return;
    }
    session_rest(session);
    sandbox_next(sandbox);
}

static void end_turn(Turn *turn, const char *reason)
{
    Sandbox *sandbox = turn->session->sandbox;
    Problem problem = PROBLEM_NULL;
    Call *call = call_of(turn);
    bool ran = turn == sandbox->running;

    problem_set(&problem, ERR_SESSION_CLOSED, "the session '%s' was closed: %s", turn->session->name, reason);
    if (!call) {
        order_fail(order_of(turn), &problem);
        return;
    }
    if (ran) {
        sandbox_set_running(sandbox, NULL);
        turn->session->epoch++;
    } else {
        sandbox_unqueue(sandbox, turn);
    }
    if (ran || sandbox->ephemeral)
        sandbox_lose_call(call, ran, reason);
    else
        call_fail(call, &problem);
}

/* What one turn's end does may end others, so that each is looked for from the start. */
static Turn *first_turn(const Sandbox *sandbox, const Session *only)
{
    Turn *turn = sandbox->running;

    if (turn && (!only || (turn->session == only && turn->kind == TURN_CALL)))
        return turn;
    list_foreach (turn, &sandbox->turns, Turn, link)
        if (!only || turn->session == only)
            return turn;
    return NULL;
}

void sandbox_forget_turns(Sandbox *sandbox)
{
    Problem problem = PROBLEM_NULL;
    Turn *turn;

    problem_set(&problem, ERR_UNAVAILABLE, "the controller is shutting down");
    while ((turn = first_turn(sandbox, NULL))) {
        Call *call = call_of(turn);

        if (call && turn == sandbox->running)
            sandbox_set_running(sandbox, NULL);
        else if (call)
            sandbox_unqueue(sandbox, turn);
        if (call)
            call_forget(call);
        else
            order_fail(order_of(turn), &problem);
    }
}

void sandbox_end_turns(Sandbox *sandbox, const Session *only, const char *reason)
{
    Turn *turn;

    while ((turn = first_turn(sandbox, only)))
        end_turn(turn, reason);
}

void sandbox_end_running_order(Sandbox *sandbox, const Session *session, const Problem *problem)
{
    Order *order = order_of(sandbox->running);

    if (order && order->turn.session == session)
        order_fail(order, problem);
}
