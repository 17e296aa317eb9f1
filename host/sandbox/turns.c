/* Scheduling of what a supervisor is asked: turns, one after the other and beside these, and errands. */
#include <errno.h>
#include <string.h>

#include "host/link/envelope.h"
#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/limits.h"

static bool errands_only_watch(const Errands *errands);

static bool errands_wait_for_processes(const Errands *errands);

/* ---- turns ---- */

bool sandbox_is_busy(const Sandbox *sandbox)
{
    return sandbox->running || !list_empty(&sandbox->turns) || sandbox_is_used_beside(sandbox, NULL) ||
           errands_wait_for_processes(&sandbox->errands) || sandbox->installing > 0;
}

bool sandbox_is_quiet(const Sandbox *sandbox)
{
    return !sandbox_is_busy(sandbox) && list_empty(&sandbox->beside) && errands_only_watch(&sandbox->errands);
}

size_t sandbox_count_waiting(const Sandbox *sandbox, const Session *session)
{
    const Turn *turn;
    size_t n = 0;

    list_foreach (turn, (List *)&sandbox->turns, Turn, link)
        n += turn->session == session;
    return n;
}

size_t sandbox_count_beside(const Sandbox *sandbox)
{
    size_t n = 0;

    for (const List *at = sandbox->beside.next; at != &sandbox->beside; at = at->next)
        n++;
    return n;
}

bool sandbox_is_used_beside(const Sandbox *sandbox, const Session *session)
{
    const Turn *turn;

    list_foreach (turn, (List *)&sandbox->beside, Turn, link)
        if ((!session || turn->session == session) && !(turn->ops->is_idle && turn->ops->is_idle(turn)))
            return true;
    return false;
}

Turn *sandbox_running(const Sandbox *sandbox, const Session *session, const TurnOps *kind)
{
    Turn *turn = sandbox->running;

    return turn && turn->session == session && turn->ops == kind ? turn : NULL;
}

static Turn *find_sent(const List *turns, uint64_t number)
{
    Turn *turn;

    list_foreach (turn, (List *)turns, Turn, link)
        if (turn->state == TURN_SENT && turn->number == number)
            return turn;
    return NULL;
}

Turn *sandbox_find_sent(const Sandbox *sandbox, uint64_t number)
{
    Turn *turn = sandbox->running;

    if (turn && turn->state == TURN_SENT && turn->number == number)
        return turn;
    turn = find_sent(&sandbox->turns, number);
    return turn ? turn : find_sent(&sandbox->beside, number);
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

/* ---- whether the supervisor takes more ---- */

/* Time for which a supervisor may take nothing. An honest one connects again within a second, and reads at
 * once. */
#define PATIENCE_SECONDS 60.0

static void on_impatient(LoopTimer *timer)
{
    sandbox_close(container_of(timer, Sandbox, patience), "its supervisor cannot be reached");
}

/* Returns whether a turn or errand that waits may be sent now; otherwise sandbox_resume() follows, or the
 * sandbox's end. */
static bool takes(Sandbox *sandbox)
{
    bool waits = sandbox->guest->behind;

    if (guest_takes(sandbox->guest))
        return true;
    if (!waits)
        loop_timer_set(sandbox->all->loop, &sandbox->patience,
                       clock_now() + clock_from_seconds(PATIENCE_SECONDS), on_impatient);
    return false;
}

void sandbox_resume(Sandbox *sandbox)
{
    loop_timer_cancel(&sandbox->patience);
    sandbox->guest->behind = false;
    sandbox_start_beside(sandbox);
    sandbox_next(sandbox);
    errands_resume(sandbox);
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

    if (sandbox->state != SANDBOX_READY || sandbox->held || sandbox->running || list_empty(&sandbox->turns))
        return;
    turn = list_entry(list_first(&sandbox->turns), Turn, link);
    if (turn->state != TURN_SENT && !takes(sandbox))
        return;
    list_remove(&turn->link);
    if (turn->state == TURN_WAITING)
        turn->state = TURN_PREPARING;
    set_running(sandbox, turn);
    turn->ops->start(turn);
}

static Turn *first_waiting_beside(const Sandbox *sandbox)
{
    Turn *turn;

    list_foreach (turn, (List *)&sandbox->beside, Turn, link)
        if (turn->state == TURN_WAITING)
            return turn;
    return NULL;
}

/* The start of one may end others, so that each is looked for from the start. */
void sandbox_start_beside(Sandbox *sandbox)
{
    Turn *turn;

    while (sandbox->state == SANDBOX_READY && (turn = first_waiting_beside(sandbox)) && takes(sandbox)) {
        turn->state = TURN_PREPARING;
        turn->ops->start(turn);
    }
}

void sandbox_queue(Sandbox *sandbox, Turn *turn)
{
    if (turn->ops->beside) {
        list_append(&sandbox->beside, &turn->link);
        sandbox_start_beside(sandbox);
        return;
    }
    list_append(&sandbox->turns, &turn->link);
    sandbox_next(sandbox);
}

void sandbox_queue_first(Sandbox *sandbox, Turn *turn)
{
    list_append(sandbox->turns.next, &turn->link);
}

void sandbox_resume_turn(Sandbox *sandbox, Turn *turn)
{
    if (turn->ops->beside)
        list_append(&sandbox->beside, &turn->link);
    else
        set_running(sandbox, turn);
}

bool sandbox_take_out(Turn *turn)
{
    bool runs = turn->sandbox->running == turn;

    if (runs)
        set_running(turn->sandbox, NULL);
    else
        list_remove(&turn->link);
    return runs || (turn->ops->beside && turn->state != TURN_WAITING);
}

void sandbox_turn_over(Sandbox *sandbox, Session *session)
{
    sandbox->used = clock_now();
    if (sandbox->state != SANDBOX_READY)
        return;
    sandbox_unwatch(sandbox);
    if (sandbox->ephemeral || *sandbox->ending) {
        sandbox_close(sandbox, *sandbox->ending ? sandbox->ending : "its call has ended");
        return;
    }
    sandbox->owner->rested(sandbox, session);
    sandbox_next(sandbox);
}

void sandbox_beside_over(Sandbox *sandbox, Session *session)
{
    sandbox->used = clock_now();
    if (sandbox->state == SANDBOX_READY)
        sandbox->owner->rested(sandbox, session);
}

/* ---- turns that do not come to their end ----
 *
 * What one turn's end does may end others, so that each is looked for from the start. */

static Turn *first_listed(const Sandbox *sandbox)
{
    const List *turns = list_empty(&sandbox->turns) ? &sandbox->beside : &sandbox->turns;

    return list_empty(turns) ? NULL : list_entry(turns->next, Turn, link);
}

static Turn *first_turn(const Sandbox *sandbox)
{
    return sandbox->running ? sandbox->running : first_listed(sandbox);
}

static Turn *first_in(const List *turns, const Session *session)
{
    Turn *turn;

    list_foreach (turn, (List *)turns, Turn, link)
        if (turn->session == session)
            return turn;
    return NULL;
}

static Turn *first_turn_of(const Sandbox *sandbox, const Session *session)
{
    Turn *turn = sandbox->running;

    if (turn && turn->session == session && !turn->ops->outlives_session)
        return turn;
    turn = first_in(&sandbox->turns, session);
    return turn ? turn : first_in(&sandbox->beside, session);
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
    Turn *turn;

    while ((turn = first_listed(sandbox)))
        turn->ops->fail(turn, problem);
}

/* A break of the connection: turns sent before the message `number` that `hello` does not tell of are cut
 * off. */
typedef struct Break {
    uint64_t number;
    const GuestHello *hello;
} Break;

static bool is_cut_off(const Turn *turn, Break at)
{
    return turn->state == TURN_SENT && turn->number < at.number && turn->ops->disconnected &&
           !guest_hello_has(at.hello, turn->number);
}

static Turn *first_cut_off_in(const List *turns, Break at)
{
    Turn *turn;

    list_foreach (turn, (List *)turns, Turn, link)
        if (is_cut_off(turn, at))
            return turn;
    return NULL;
}

static Turn *first_cut_off(const Sandbox *sandbox, Break at)
{
    Turn *turn = sandbox->running;

    if (turn && is_cut_off(turn, at))
        return turn;
    turn = first_cut_off_in(&sandbox->turns, at);
    return turn ? turn : first_cut_off_in(&sandbox->beside, at);
}

void sandbox_disconnect_turns(Sandbox *sandbox, uint64_t number, const GuestHello *hello)
{
    Break at = {number, hello};
    Turn *turn;

    while ((turn = first_cut_off(sandbox, at)))
        turn->ops->disconnected(turn);
}

/* ---- errands ----
 *
 * Queue of a sandbox's errands: which one is sent next, and its end. */

/* Each may hold a piece of a file. */
#define WAITING_MAX 64

void errands_init(Errands *errands)
{
    *errands = (Errands){0};
    list_init(&errands->waiting);
    list_init(&errands->sent);
}

static void fail_errand(Errand *errand, ErrorCode code, const char *text)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s", text);
    errand->ops->failed(errand, &problem);
}

static bool has_place(const Errands *errands, const Errand *errand)
{
    static const size_t places[ERRAND_LANES] = {
        [ERRAND_SHORT] = LIMIT_FILE_REQUESTS,
        [ERRAND_WATCH] = LIMIT_WATCHES,
        [ERRAND_PROCESS] = 2 * LIMIT_PROCESSES, /* one writes to it while another reads */
    };

    return errands->sent_count[errand->lane] < places[errand->lane];
}

/* Returns whether somebody waits for a process, and so uses the sandbox. */
static bool errands_wait_for_processes(const Errands *errands)
{
    return errands->sent_count[ERRAND_PROCESS] > 0;
}

/* Returns whether no errand is under way that uses the sandbox. */
static bool errands_only_watch(const Errands *errands)
{
    return errands->waiting_count == 0 && errands->sent_count[ERRAND_SHORT] == 0 &&
           errands->sent_count[ERRAND_PROCESS] == 0;
}

static void send_errand(Errand *errand)
{
    Sandbox *sandbox = errand->sandbox;
    Errands *errands = &sandbox->errands;
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    list_remove(&errand->link);
    errands->waiting_count--;
    list_append(&errands->sent, &errand->link);
    errands->sent_count[errand->lane]++;
    errand->number = sandboxes_next_number(sandbox->all);
    r = envelope_write(&message, errand->kind, errand->number, encoded_text(&errand->body));
    buf_deinit(&errand->body);
    if (r == 0)
        r = guest_send(sandbox->guest, &message);
    if (r < 0)
        fail_errand(errand, ERR_INTERNAL, "the session's supervisor cannot be reached; try again");
}

/* The first one that may be sent. */
static Errand *next_waiting(const Errands *errands)
{
    Errand *errand;

    list_foreach (errand, (List *)&errands->waiting, Errand, link)
        if (has_place(errands, errand))
            return errand;
    return NULL;
}

void errands_resume(Sandbox *sandbox)
{
    Errand *errand;

    while (sandbox->state == SANDBOX_READY && (errand = next_waiting(&sandbox->errands)) && takes(sandbox))
        send_errand(errand);
}

int errand_begin(Errand *errand, Sandbox *sandbox)
{
    Errands *errands = &sandbox->errands;

    list_init(&errand->link);
    errand->sandbox = sandbox;
    if (errands->waiting_count >= WAITING_MAX)
        return -EBUSY;
    list_append(&errands->waiting, &errand->link);
    errands->waiting_count++;
    errands_resume(sandbox);
    return 0;
}

/* Its session is not idle. Where something runs it will be told of its rest later. */
static void note_use(const Errand *errand)
{
    Sandbox *sandbox = errand->sandbox;

    sandbox->used = clock_now();
    if (errand->lane != ERRAND_WATCH && sandbox->state == SANDBOX_READY && sandbox->trunk &&
        !sandbox_is_busy(sandbox))
        sandbox->owner->rested(sandbox, sandbox->trunk);
}

void errand_over(Errand *errand)
{
    Errands *errands = &errand->sandbox->errands;

    list_remove(&errand->link);
    if (errand->number == 0)
        errands->waiting_count--;
    else
        errands->sent_count[errand->lane]--;
    buf_deinit(&errand->body);
    note_use(errand);
    errands_resume(errand->sandbox);
}

Errand *errands_find(const Sandbox *sandbox, uint64_t number)
{
    Errand *errand;

    list_foreach (errand, (List *)&sandbox->errands.sent, Errand, link)
        if (errand->number == number)
            return errand;
    return NULL;
}

static Errand *first_before(const Errands *errands, uint64_t number)
{
    Errand *errand;

    list_foreach (errand, (List *)&errands->sent, Errand, link)
        if (errand->number < number)
            return errand;
    return NULL;
}

void errands_disconnect(Sandbox *sandbox, uint64_t number)
{
    Errand *errand;

    while ((errand = first_before(&sandbox->errands, number)))
        fail_errand(errand, ERR_INTERNAL,
                    "the connection to the session's supervisor broke meanwhile; look whether it was done");
}

static Errand *first_errand(const Errands *errands)
{
    const List *list = list_empty(&errands->sent) ? &errands->waiting : &errands->sent;

    return list_empty(list) ? NULL : list_entry(list_first((List *)list), Errand, link);
}

void errands_fail_all(Sandbox *sandbox, const Problem *problem)
{
    Errand *errand;

    while ((errand = first_errand(&sandbox->errands)))
        errand->ops->failed(errand, problem);
}
