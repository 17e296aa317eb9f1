#include "host/sandbox/internal.h"
#include "proto/base/clock.h"

bool sandbox_is_busy(const Sandbox *sandbox)
{
    return sandbox->running || !list_empty(&sandbox->turns);
}

size_t sandbox_count_waiting(const Sandbox *sandbox, const Session *session)
{
    const Turn *turn;
    size_t n = 0;

    list_foreach (turn, &sandbox->turns, Turn, link)
        n += turn->session == session;
    return n;
}

Turn *sandbox_running(const Sandbox *sandbox, const Session *session, const TurnOps *kind)
{
    Turn *turn = sandbox->running;

    return turn && turn->session == session && turn->ops == kind ? turn : NULL;
}

Turn *sandbox_find_sent(const Sandbox *sandbox, uint64_t number)
{
    Turn *turn = sandbox->running;

    if (turn && turn->state == TURN_SENT && turn->number == number)
        return turn;
    list_foreach (turn, &sandbox->turns, Turn, link)
        if (turn->state == TURN_SENT && turn->number == number)
            return turn;
    return NULL;
}

/* ---- the watchdog ---- */

static void on_watchdog(LoopTimer *timer)
{
    sandbox_close(container_of(timer, Sandbox, watchdog), "its supervisor did not answer in time");
}

void sandbox_watch(Sandbox *sandbox, double seconds)
{
    loop_timer_set(sandbox->all->loop, &sandbox->watchdog, clock_now() + clock_from_seconds(seconds),
                   on_watchdog);
}

void sandbox_unwatch(Sandbox *sandbox)
{
    loop_timer_cancel(&sandbox->watchdog);
}

/* ---- one after the other ---- */

static void set_running(Sandbox *sandbox, Turn *turn)
{
    sandbox->running = turn;
    if (turn)
        courtesy_began(&sandbox->courtesy);
    else
        courtesy_ended(&sandbox->courtesy);
}

void sandbox_next(Sandbox *sandbox)
{
    Turn *turn;

    if (sandbox->state != SANDBOX_READY || sandbox->running || list_empty(&sandbox->turns))
        return;
    turn = list_entry(list_first(&sandbox->turns), Turn, link);
    list_remove(&turn->link);
    if (turn->state == TURN_WAITING)
        turn->state = TURN_PREPARING;
    set_running(sandbox, turn);
    turn->ops->start(turn);
}

void sandbox_queue(Sandbox *sandbox, Turn *turn)
{
    list_append(&sandbox->turns, &turn->link);
    sandbox_next(sandbox);
}

void sandbox_queue_first(Sandbox *sandbox, Turn *turn)
{
    list_append(sandbox->turns.next, &turn->link);
}

void sandbox_resume_turn(Sandbox *sandbox, Turn *turn)
{
    set_running(sandbox, turn);
}

bool sandbox_take_out(Turn *turn)
{
    bool runs = turn->sandbox->running == turn;

    if (runs)
        set_running(turn->sandbox, NULL);
    else
        list_remove(&turn->link);
    return runs;
}

void sandbox_turn_over(Sandbox *sandbox, Session *session)
{
    sandbox->used = clock_now();
    if (sandbox->state != SANDBOX_READY)
        return;
    sandbox_unwatch(sandbox);
    if (sandbox->ephemeral) {
        sandbox_close(sandbox, "its call has ended");
        return;
    }
    sandbox->owner->rested(sandbox, session);
    sandbox_next(sandbox);
}

/* ---- turns that do not come to their end ----
 *
 * What one turn's end does may end others, so that each is looked for from the start. */

static Turn *first_turn(const Sandbox *sandbox)
{
    return sandbox->running              ? sandbox->running
           : list_empty(&sandbox->turns) ? NULL
                                         : list_entry(sandbox->turns.next, Turn, link);
}

static Turn *first_turn_of(const Sandbox *sandbox, const Session *session)
{
    Turn *turn = sandbox->running;

    if (turn && turn->session == session && !turn->ops->outlives_session)
        return turn;
    list_foreach (turn, &sandbox->turns, Turn, link)
        if (turn->session == session)
            return turn;
    return NULL;
}

void sandbox_end_turns(Sandbox *sandbox, const Session *session, const char *reason)
{
    Turn *turn;

    while ((turn = first_turn_of(sandbox, session)))
        turn->ops->end(turn, reason);
}

void sandbox_end_all_turns(Sandbox *sandbox, const char *reason)
{
    Turn *turn;

    while ((turn = first_turn(sandbox)))
        turn->ops->end(turn, reason);
}

void sandbox_leave_turns(Sandbox *sandbox)
{
    Turn *turn;

    while ((turn = first_turn(sandbox)))
        turn->ops->leave(turn);
}

void sandbox_fail_running(Sandbox *sandbox, const Session *session, const Problem *problem)
{
    Turn *turn = sandbox->running;

    if (turn && turn->session == session)
        turn->ops->fail(turn, problem);
}

void sandbox_fail_waiting(Sandbox *sandbox, const Problem *problem)
{
    while (!list_empty(&sandbox->turns)) {
        Turn *turn = list_entry(list_first(&sandbox->turns), Turn, link);

        turn->ops->fail(turn, problem);
    }
}

static bool is_cut_off(const Turn *turn, uint64_t number)
{
    return turn->state == TURN_SENT && turn->number < number && turn->ops->disconnected;
}

static Turn *first_cut_off(const Sandbox *sandbox, uint64_t number)
{
    Turn *turn = sandbox->running;

    if (turn && is_cut_off(turn, number))
        return turn;
    list_foreach (turn, &sandbox->turns, Turn, link)
        if (is_cut_off(turn, number))
            return turn;
    return NULL;
}

void sandbox_disconnect_turns(Sandbox *sandbox, uint64_t number)
{
    Turn *turn;

    while ((turn = first_cut_off(sandbox, number)))
        turn->ops->disconnected(turn);
}
