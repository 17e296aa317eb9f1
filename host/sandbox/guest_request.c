/* Scheduling of what a supervisor is asked: which request is sent next, and what becomes of those that are
 * not answered. */
#include <errno.h>
#include <string.h>

#include "host/link/envelope.h"
#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/limits.h"

/* ---- whether the supervisor takes more ---- */

/* Time for which a supervisor may take nothing. An honest one connects again within a second, and reads at
 * once. */
#define PATIENCE_SECONDS 60.0

static void on_impatient(LoopTimer *timer)
{
    sandbox_close(container_of(timer, Sandbox, patience), "its supervisor cannot be reached");
}

/* Returns whether a request that waits may be sent now; otherwise sandbox_resume() follows, or the
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

int guest_request_send(GuestRequest *request)
{
    Sandbox *sandbox = request->sandbox;
    Buf message _cleanup_(buf_deinit) = BUF_NULL;
    int r;

    request->state = REQUEST_SENT;
    request->number = sandboxes_next_number(sandbox->all);
    r = envelope_write(&message, request->kind, request->number, encoded_text(&request->body));
    buf_deinit(&request->body);
    return r < 0 ? r : guest_send_encoded(sandbox->guest, &message);
}

/* ---- queries ---- */

/* Each may hold a piece of a file. */
#define WAITING_MAX 64

static size_t count_queries(const Sandbox *sandbox, GuestLane lane, GuestRequestState state)
{
    const GuestRequest *request;
    size_t n = 0;

    list_foreach (request, (List *)&sandbox->queries, GuestRequest, link)
        n += request->lane == lane && request->state == state;
    return n;
}

static size_t count_waiting_queries(const Sandbox *sandbox)
{
    return count_queries(sandbox, LANE_SHORT, REQUEST_WAITING) +
           count_queries(sandbox, LANE_WATCH, REQUEST_WAITING) +
           count_queries(sandbox, LANE_PROCESS, REQUEST_WAITING);
}

/* Returns whether somebody waits for a process, and so uses the sandbox. */
static bool waits_for_process(const Sandbox *sandbox)
{
    return count_queries(sandbox, LANE_PROCESS, REQUEST_SENT) > 0;
}

/* Returns whether nothing but files is watched. */
static bool only_watches(const Sandbox *sandbox)
{
    return count_waiting_queries(sandbox) == 0 && count_queries(sandbox, LANE_SHORT, REQUEST_SENT) == 0 &&
           !waits_for_process(sandbox);
}

static void fail_query(GuestRequest *request, ErrorCode code, const char *text)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s", text);
    request->ops->fail(request, &problem);
}

static bool has_place(const Sandbox *sandbox, GuestLane lane)
{
    static const size_t places[] = {
        [LANE_SHORT] = LIMIT_FILE_REQUESTS,
        [LANE_WATCH] = LIMIT_WATCHES,
        [LANE_PROCESS] = 2 * LIMIT_PROCESSES, /* one writes to it while another reads */
    };

    return count_queries(sandbox, lane, REQUEST_SENT) < places[lane];
}

static GuestRequest *next_query(const Sandbox *sandbox)
{
    GuestRequest *request;

    list_foreach (request, (List *)&sandbox->queries, GuestRequest, link)
        if (request->state == REQUEST_WAITING && has_place(sandbox, request->lane))
            return request;
    return NULL;
}

void sandbox_send_queries(Sandbox *sandbox)
{
    GuestRequest *request;

    while (sandbox->state == SANDBOX_READY && (request = next_query(sandbox)) && takes(sandbox))
        if (guest_request_send(request) < 0)
            fail_query(request, ERR_INTERNAL, "the session's supervisor cannot be reached; try again");
}

static int queue_query(Sandbox *sandbox, GuestRequest *request)
{
    if (count_waiting_queries(sandbox) >= WAITING_MAX)
        return -EBUSY;
    list_append(&sandbox->queries, &request->link);
    sandbox_send_queries(sandbox);
    return 0;
}

/* Its session is not idle. Where something runs it will be told of its rest later. */
static void note_use(Sandbox *sandbox, GuestLane lane)
{
    sandbox->used = clock_now();
    if (lane != LANE_WATCH && sandbox->state == SANDBOX_READY && sandbox->root && !sandbox_is_busy(sandbox))
        sandbox->owner->rested(sandbox, sandbox->root);
}

void sandbox_query_over(GuestRequest *request)
{
    list_remove(&request->link);
    buf_deinit(&request->body);
    note_use(request->sandbox, request->lane);
    sandbox_send_queries(request->sandbox);
}

static GuestRequest *first_query_before(const Sandbox *sandbox, uint64_t number)
{
    GuestRequest *request;

    list_foreach (request, (List *)&sandbox->queries, GuestRequest, link)
        if (request->state == REQUEST_SENT && request->number < number)
            return request;
    return NULL;
}

static void cut_off_queries(Sandbox *sandbox, uint64_t number)
{
    GuestRequest *request;

    while ((request = first_query_before(sandbox, number)))
        fail_query(request, ERR_INTERNAL,
                   "the connection to the session's supervisor broke meanwhile; look whether it was done");
}

void sandbox_fail_queries(Sandbox *sandbox, ErrorCode code, const char *text)
{
    List *link;

    while ((link = list_first(&sandbox->queries)))
        fail_query(list_entry(link, GuestRequest, link), code, text);
}

/* ---- what there is ---- */

bool sandbox_is_busy(const Sandbox *sandbox)
{
    return sandbox->running || !list_empty(&sandbox->waiting) || sandbox_has_program_in_use(sandbox, NULL) ||
           waits_for_process(sandbox) || sandbox->installing > 0;
}

bool sandbox_is_quiet(const Sandbox *sandbox)
{
    return !sandbox_is_busy(sandbox) && list_empty(&sandbox->programs) && only_watches(sandbox);
}

size_t sandbox_count_waiting(const Sandbox *sandbox, const Session *session)
{
    const GuestRequest *request;
    size_t n = 0;

    list_foreach (request, (List *)&sandbox->waiting, GuestRequest, link)
        n += request->session == session;
    return n;
}

size_t sandbox_count_programs(const Sandbox *sandbox)
{
    size_t n = 0;

    for (const List *at = sandbox->programs.next; at != &sandbox->programs; at = at->next)
        n++;
    return n;
}

bool sandbox_has_program_in_use(const Sandbox *sandbox, const Session *session)
{
    const GuestRequest *request;

    list_foreach (request, (List *)&sandbox->programs, GuestRequest, link)
        if ((!session || request->session == session) &&
            !(request->ops->is_idle && request->ops->is_idle(request)))
            return true;
    return false;
}

GuestRequest *sandbox_running(const Sandbox *sandbox, const Session *session, const GuestRequestOps *kind)
{
    GuestRequest *request = sandbox->running;

    return request && request->session == session && request->ops == kind ? request : NULL;
}

static GuestRequest *find_sent(const List *requests, uint64_t number)
{
    GuestRequest *request;

    list_foreach (request, (List *)requests, GuestRequest, link)
        if (request->state == REQUEST_SENT && request->number == number)
            return request;
    return NULL;
}

GuestRequest *sandbox_find_sent(const Sandbox *sandbox, uint64_t number)
{
    GuestRequest *request = sandbox->running;

    if (request && request->state == REQUEST_SENT && request->number == number)
        return request;
    request = find_sent(&sandbox->waiting, number);
    if (!request)
        request = find_sent(&sandbox->programs, number);
    return request ? request : find_sent(&sandbox->queries, number);
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

void sandbox_resume(Sandbox *sandbox)
{
    loop_timer_cancel(&sandbox->patience);
    sandbox->guest->behind = false;
    sandbox_start_programs(sandbox);
    sandbox_next(sandbox);
    sandbox_send_queries(sandbox);
}

/* ---- one after the other ---- */

static void set_running(Sandbox *sandbox, GuestRequest *request)
{
    sandbox->running = request;
    if (request)
        cpu_yield_began(&sandbox->cpu_yield);
    else
        cpu_yield_ended(&sandbox->cpu_yield);
}

void sandbox_next(Sandbox *sandbox)
{
    GuestRequest *request;

    if (sandbox->state != SANDBOX_READY || sandbox->held || sandbox->running || list_empty(&sandbox->waiting))
        return;
    request = list_entry(list_first(&sandbox->waiting), GuestRequest, link);
    if (request->state != REQUEST_SENT && !takes(sandbox))
        return;
    list_remove(&request->link);
    if (request->state == REQUEST_WAITING)
        request->state = REQUEST_PREPARING;
    set_running(sandbox, request);
    request->ops->start(request);
}

static GuestRequest *first_waiting_program(const Sandbox *sandbox)
{
    GuestRequest *request;

    list_foreach (request, (List *)&sandbox->programs, GuestRequest, link)
        if (request->state == REQUEST_WAITING)
            return request;
    return NULL;
}

/* The start of one may end others, so that each is looked for from the start. */
void sandbox_start_programs(Sandbox *sandbox)
{
    GuestRequest *request;

    while (sandbox->state == SANDBOX_READY && (request = first_waiting_program(sandbox)) && takes(sandbox)) {
        request->state = REQUEST_PREPARING;
        request->ops->start(request);
    }
}

int sandbox_queue(Sandbox *sandbox, GuestRequest *request)
{
    switch (request->lane) {
    case LANE_EXCLUSIVE:
        list_append(&sandbox->waiting, &request->link);
        sandbox_next(sandbox);
        return 0;
    case LANE_PROGRAM:
        list_append(&sandbox->programs, &request->link);
        sandbox_start_programs(sandbox);
        return 0;
    default:
        return queue_query(sandbox, request);
    }
}

void sandbox_queue_first(Sandbox *sandbox, GuestRequest *request)
{
    list_append(sandbox->waiting.next, &request->link);
}

void sandbox_resume_request(Sandbox *sandbox, GuestRequest *request)
{
    if (request->lane == LANE_PROGRAM)
        list_append(&sandbox->programs, &request->link);
    else
        set_running(sandbox, request);
}

bool sandbox_take_out(GuestRequest *request)
{
    bool runs = request->sandbox->running == request;

    if (runs)
        set_running(request->sandbox, NULL);
    else
        list_remove(&request->link);
    return runs || (request->lane == LANE_PROGRAM && request->state != REQUEST_WAITING);
}

void sandbox_exclusive_over(Sandbox *sandbox, Session *session)
{
    sandbox->used = clock_now();
    if (sandbox->state != SANDBOX_READY)
        return;
    sandbox_unwatch(sandbox);
    if ((sandbox->ephemeral && list_empty(&sandbox->waiting)) || *sandbox->ending) {
        sandbox_close(sandbox, *sandbox->ending ? sandbox->ending : "its call has ended");
        return;
    }
    sandbox->owner->rested(sandbox, session);
    sandbox_next(sandbox);
}

void sandbox_program_over(Sandbox *sandbox, Session *session)
{
    sandbox->used = clock_now();
    if (sandbox->state == SANDBOX_READY)
        sandbox->owner->rested(sandbox, session);
}

/* ---- requests that are not answered ----
 *
 * What one request's end does may end others, so that each is looked for from the start. */

static GuestRequest *first_listed(const Sandbox *sandbox)
{
    const List *requests = list_empty(&sandbox->waiting) ? &sandbox->programs : &sandbox->waiting;

    return list_empty(requests) ? NULL : list_entry(requests->next, GuestRequest, link);
}

static GuestRequest *first_request(const Sandbox *sandbox)
{
    return sandbox->running ? sandbox->running : first_listed(sandbox);
}

static GuestRequest *first_in(const List *requests, const Session *session)
{
    GuestRequest *request;

    list_foreach (request, (List *)requests, GuestRequest, link)
        if (request->session == session)
            return request;
    return NULL;
}

static GuestRequest *first_request_of(const Sandbox *sandbox, const Session *session)
{
    GuestRequest *request = sandbox->running;

    if (request && request->session == session && !request->ops->outlives_session)
        return request;
    request = first_in(&sandbox->waiting, session);
    return request ? request : first_in(&sandbox->programs, session);
}

void sandbox_end_requests(Sandbox *sandbox, const Session *session, const char *reason)
{
    GuestRequest *request;

    while ((request = first_request_of(sandbox, session)))
        request->ops->end(request, reason);
}

void sandbox_end_all_requests(Sandbox *sandbox, const char *reason)
{
    GuestRequest *request;

    while ((request = first_request(sandbox)))
        request->ops->end(request, reason);
}

void sandbox_leave_requests(Sandbox *sandbox)
{
    GuestRequest *request;

    while ((request = first_request(sandbox)))
        request->ops->leave(request);
}

void sandbox_fail_running(Sandbox *sandbox, const Session *session, const Problem *problem)
{
    GuestRequest *request = sandbox->running;

    if (request && request->session == session)
        request->ops->fail(request, problem);
}

void sandbox_fail_waiting(Sandbox *sandbox, const Problem *problem)
{
    GuestRequest *request;

    while ((request = first_listed(sandbox)))
        request->ops->fail(request, problem);
}

/* A break of the connection: requests sent before the message `number` that `hello` does not tell of are cut
 * off. */
typedef struct Break {
    uint64_t number;
    const GuestHello *hello;
} Break;

static bool is_cut_off(const GuestRequest *request, Break at)
{
    return request->state == REQUEST_SENT && request->number < at.number && request->ops->cut_off &&
           !guest_hello_has(at.hello, request->number);
}

static GuestRequest *first_cut_off_in(const List *requests, Break at)
{
    GuestRequest *request;

    list_foreach (request, (List *)requests, GuestRequest, link)
        if (is_cut_off(request, at))
            return request;
    return NULL;
}

static GuestRequest *first_cut_off(const Sandbox *sandbox, Break at)
{
    GuestRequest *request = sandbox->running;

    if (request && is_cut_off(request, at))
        return request;
    request = first_cut_off_in(&sandbox->waiting, at);
    return request ? request : first_cut_off_in(&sandbox->programs, at);
}

void sandbox_cut_off_requests(Sandbox *sandbox, uint64_t number, const GuestHello *hello)
{
    Break at = {number, hello};
    GuestRequest *request;

    while ((request = first_cut_off(sandbox, at)))
        request->ops->cut_off(request);
    cut_off_queries(sandbox, number);
}
