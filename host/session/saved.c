/* Sessions that are saved when they have been idle for their ttl, or when a client says so, and woken when
 * they are wanted again. Their memory goes to a directory of /session, from when on they are saved. Their
 * variables follow, for where the memory does not fit, and then their container goes: one that is wanted
 * before goes on in it. A woken one gets a new container, and before anything else happens in that it is
 * given what was saved. Until it is written down that it has that the session is saved: whatever goes wrong,
 * it is begun anew from what is on disk. */
#include <errno.h>

#include "host/session/checkpoint_files.h"
#include "host/session/internal.h"
#include "host/session/limits.h"
#include "host/session/order.h"
#include "proto/base/log.h"
#include "proto/schema.h"

#define SAVED_PLACE SAVED_PLACES "idle"

static void send_save(GuestRequest *running);

/* ---- the directory of the variables ---- */

static void removal_over(GuestRequest *request)
{
    Sandbox *sandbox = request->sandbox;

    sandbox_query_over(request);
    free(request);
    send_save(sandbox->running);
}

static int removal_answered(GuestRequest *request, const Message *message, Problem *problem)
{
    removal_over(request);
    return 0;
}

static void removal_failed(GuestRequest *request, const Problem *problem)
{
    removal_over(request);
}

static const GuestRequestOps removal_ops = {.message = removal_answered, .fail = removal_failed};

void saved_place_remove(Sandbox *sandbox, const char *place)
{
    const MsgFileAsk ask = {.has_remove = true, .remove = {.path = text_of(place), .recursive = true}};
    GuestRequest *request = calloc(1, sizeof(*request));

    if (!request)
        return;
    guest_request_init(request, &removal_ops, LANE_SHORT, sandbox, NULL);
    request->kind = MSG_FILES;
    if (body_encode(&request->body, MsgFileAsk, &ask) == 0 && sandbox_queue(sandbox, request) == 0)
        return;
    buf_deinit(&request->body);
    free(request);
}

/* ---- saving ---- */

/* The supervisor sees to the time itself. */
#define ANSWER_SECONDS (SAVE_SECONDS + 30.0)

/* Its branches end at a time of their own, which comes first. */
static bool is_alone(const Session *root)
{
    return root->branches.next->next == &root->branches;
}

static bool can_be_saved(const Session *root)
{
    const Sandbox *sandbox = root->sandbox;

    return sandbox->state == SANDBOX_READY && is_alone(root) && sandbox_is_quiet(sandbox);
}

static void note_stay(const Session *root, const char *reason)
{
    log_info("idle session not saved", "session=%s reason=%s", root->name, reason);
}

/* The place of what was saved is removed. */
static void stay(Session *root, Request *request, ErrorCode code, const char *reason)
{
    note_stay(root, reason);
    saved_place_remove(root->sandbox, SAVED_PLACE);
    if (request)
        request_fail_text(request, code, "the session '%s' stays awake: %s", root->name, reason);
}

/* Has the variables saved beside the memory. */
static void add_variables(Session *root)
{
    Sandbox *sandbox = root->sandbox;
    const MsgSaveOrder add = {
        .path = text_of(SAVED_PLACE), .execution_count = NO_UINT, .epoch = NO_UINT, .adds = true};

    root->load = sandboxes_next_number(sandbox->all);
    if (guest_send(sandbox->guest, MSG_SAVE, root->load, MsgSaveOrder, &add) < 0)
        sandbox_saved(sandbox);
}

/* Asks what is easily answered: one whose supervisor is gone, and nobody knows yet, is woken from what is on
 * disk. */
static void begin_to_return(Session *root)
{
    Sandbox *sandbox = root->sandbox;

    sandbox_call_back(sandbox);
    root->load = sandboxes_next_number(sandbox->all);
    if (sandbox_send(sandbox, MSG_CHECKPOINTS, root->load) < 0)
        sandbox_saved(sandbox);
}

/* Each that could not be saved is told of when the session wakes without its memory. */
static void variables_added(Session *root, const Message *message)
{
    log_debug(message->kind == MSG_REPLY ? "variables saved" : "variables not saved", "session=%s",
              root->name);
    sandbox_saved(root->sandbox);
}

/* Parks a session that is saved: with its memory, or with its variables. One that is in use again, or cannot
 * be written down, goes on. */
static void put_away(Session *root, uint64_t used, bool memory, Request *request)
{
    Sandbox *sandbox = root->sandbox;

    if (!can_be_saved(root)) {
        stay(root, request, ERR_BUSY, "it is in use again");
        return;
    }
    session_set_state(root, SESSION_SAVED);
    if (!sandbox_park(sandbox, memory)) {
        session_set_state(root, SESSION_READY);
        stay(root, request, ERR_SAVE_FAILED, "its journal cannot be written");
        return;
    }
    loop_timer_cancel(&root->idle_timer);
    root->used = used;
    log_info("idle session saved", "session=%s", root->name);
    if (memory)
        add_variables(root);
    if (request)
        request_reply_empty(request);
}

static int on_saved(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Session *root = order->to_guest.session;
    Request *request = order->request;
    uint64_t used = root->used;
    Problem closed = PROBLEM_NULL;
    MsgSaveReply said;

    if (body_decode(&said, MsgSaveReply, reply, problem) < 0)
        return -EPROTO;
    if (root->state != SESSION_READY) {
        session_closed_problem(root, "it ended while it was saved", &closed);
        order_fail(order, &closed);
        return 0;
    }
    buf_clear(&root->unreported);
    if (said.has_unreported && body_encode(&root->unreported, MsgUnreported, &said.unreported) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    order->request = NULL;
    order_reply(order, NULL);
    put_away(root, used, said.memory, request);
    return 0;
}

static void on_save_refused(Order *order, const Problem *problem)
{
    note_stay(order->to_guest.session, problem->text);
    saved_place_remove(order->to_guest.sandbox, SAVED_PLACE);
    order_fail(order, problem);
}

static bool is_removing(const Sandbox *sandbox)
{
    const GuestRequest *request;

    list_foreach (request, (List *)&sandbox->queries, GuestRequest, link)
        if (request->ops == &removal_ops)
            return true;
    return false;
}

/* Sends it, unless the place that it writes to is being removed: removal_over() does then. */
static void start_save(Order *order)
{
    if (!is_removing(order->to_guest.sandbox))
        order_send(order);
}

static const OrderOps save_ops = {.kind = MSG_SAVE,
                                  .seconds = ANSWER_SECONDS,
                                  .start = start_save,
                                  .answer = on_saved,
                                  .refused = on_save_refused};

static void send_save(GuestRequest *running)
{
    if (running && running->state == REQUEST_PREPARING && order_is(running, &save_ops))
        start_save(container_of(running, Order, to_guest));
}

static void save(Order *order)
{
    order_set_body(order, MsgSaveOrder,
                   (&(MsgSaveOrder){.path = text_of(SAVED_PLACE),
                                    .execution_count = NO_UINT,
                                    .epoch = NO_UINT,
                                    .ends = true,
                                    .shares = sandbox_shares_image(order->to_guest.sandbox)}));
    order_queue(order);
}

bool session_save(Session *root)
{
    bool can = root->state == SESSION_READY && is_alone(root);
    Order *order = can ? order_new(sizeof(*order), &save_ops, root, NULL) : NULL;

    if (order)
        save(order);
    return order;
}

/* Saves an idle session. One that cannot be saved has its whole time again. */
void session_save_idle(Session *root)
{
    if (!can_be_saved(root) || !session_save(root))
        session_start_ttl(root);
}

void session_sleep(Session *root, Request *request)
{
    Order *order;

    if (session_is_asleep(root))
        request_reply_empty(request);
    else if (root->state == SESSION_SAVED)
        request_fail_text(request, ERR_BUSY, "the session '%s' is being woken; try again then", root->name);
    else if (session_is_unsettled(root))
        request_fail_text(request, ERR_BUSY, "the session '%s' is being restored; try again then",
                          root->name);
    else if (!is_alone(root))
        request_fail_text(
            request, ERR_BUSY,
            "the session '%s' has branches or contexts, which cannot be saved; close them first", root->name);
    else if ((order = order_new(sizeof(*order), &save_ops, root, request)))
        save(order);
}

/* ---- waking ---- */

static void woken(Session *root, const Problem *failure)
{
    root->all->events->woken(root, failure);
}

/* The supervisor says nothing of a session before. Again where the connection broke. */
void session_load(Session *root)
{
    Sandbox *sandbox = root->sandbox;

    if (sandbox->state == SANDBOX_SAVING) {
        add_variables(root);
        return;
    }

    const MsgSaveOrder load = {.path = text_of(SAVED_PLACE),
                               .execution_count = root->execution_count,
                               .epoch = root->epoch,
                               .unreported = session_unreported(root),
                               .shares = sandbox->shares && sandbox->memory && sandbox->memory->fd >= 0};

    root->load = sandboxes_next_number(sandbox->all);
    if (guest_send(sandbox->guest, MSG_LOAD, root->load, MsgSaveOrder, &load) < 0)
        sandbox_give_up_for(sandbox, "its supervisor cannot be reached");
    else if (load.shares)
        guest_pass(sandbox->guest, sandbox->memory->fd, false);
}

/* Also where they are lost: the supervisor tells of it with the next call. */
static int on_loaded(Sandbox *sandbox, const Message *message, Problem *problem)
{
    MsgLoaded said;
    int r = body_decode(&said, MsgLoaded, &message->body, problem);

    if (r < 0)
        return r;
    log_info("session woken", "session=%s missing=%u", sandbox->name, value_count(&said.missing));
    sandbox_supervisor_ready(sandbox);
    return 0;
}

static int on_load_refused(Sandbox *sandbox, const Message *message, Problem *problem)
{
    Problem why = PROBLEM_NULL;
    int r = sandbox_refusal(&why, message, problem);

    if (r < 0)
        return r;
    sandbox_give_up(sandbox, &why);
    return 0;
}

/* Forgets what is saved of it, which is out of date. */
static void go_on(Session *root)
{
    session_set_state(root, SESSION_STARTING);
    root->all->events->ready(root);
    saved_place_remove(root->sandbox, SAVED_PLACE);
    buf_clear(&root->unreported);
    session_all_ready(root);
    woken(root, NULL);
}

int session_on_load_message(Session *root, const Message *message, Problem *problem)
{
    Sandbox *sandbox = root->sandbox;

    if (message->id != root->load || (message->kind != MSG_REPLY && message->kind != MSG_ERROR))
        return 0;
    switch (sandbox->state) {
    case SANDBOX_RETURNING:
        sandbox_returned(sandbox);
        go_on(root);
        return 0;
    case SANDBOX_SAVING:
        variables_added(root, message);
        return 0;
    default:
        return message->kind == MSG_REPLY ? on_loaded(sandbox, message, problem)
                                          : on_load_refused(sandbox, message, problem);
    }
}

/* Its checkpoints went with the container. */
void session_on_woken(Session *root)
{
    const Value none = {0};

    checkpoint_files_prune(root->sandbox, &none);
    go_on(root);
}

void session_on_not_woken(Session *root, const Problem *problem)
{
    Problem why = *problem;

    problem_prefix(&why, "the session is saved, and cannot be woken now");
    woken(root, &why);
}

void session_wake(Session *root)
{
    Sandbox *sandbox = root->sandbox;
    bool may_return = sandbox->state == SANDBOX_SAVING && !sandbox->awaits;
    Problem problem = PROBLEM_NULL;

    if (sandbox->state != SANDBOX_PARKED && !may_return)
        return; /* waking, or about to be */
    if (limits_check_wake(root->all, root->user, &sandbox->options, &problem) < 0)
        woken(root, &problem);
    else if (may_return)
        begin_to_return(root);
    else if (sandbox_wake(sandbox, &session_owner, &problem) < 0)
        session_on_not_woken(root, &problem);
}

Value session_unreported(const Session *root)
{
    return root->unreported.size > 0 ? value_encoded(&root->unreported) : (Value){0};
}

int session_keep_unreported(Session *root, const Value *said)
{
    Writer w;

    buf_clear(&root->unreported);
    if (!said->map)
        return 0;
    writer_init(&w, &root->unreported);
    write_object(&w, &(msgpack_object){.type = MSGPACK_OBJECT_MAP, .via.map = *said->map});
    return writer_finish(&w);
}

bool session_is_asleep(const Session *session)
{
    return session->state == SESSION_SAVED && session->sandbox->state >= SANDBOX_SAVING;
}

void session_restore_saved(Session *root)
{
    session_set_state(root, SESSION_SAVED);
}
