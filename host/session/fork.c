#include "host/session/fork.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/session/internal.h"
#include "host/session/order.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* The supervisors see to the time themselves. */
#define ANSWER_SECONDS (SAVE_SECONDS + 30.0)

typedef struct Fork Fork;

/* The first turn of a new session. */
typedef struct LoadOrder {
    Order order;
    Fork *fork;
    size_t which;
    bool started; /* its turn has come */
    bool asked;   /* for the copy */
    bool copied;
    bool loaded;
} LoadOrder;

typedef struct SaveOrder {
    Order order; /* of the origin */
    Fork *fork;
} SaveOrder;

struct Fork {
    Sessions *all;
    Request *request; /* NULL once it is answered */
    char place[64];   /* of the memory, in the files of all */
    uint64_t execution_count;
    SaveOrder *save; /* NULL once the origin goes on */
    bool saved;
    bool passes;     /* the memory goes through a pipe, if it can be written */
    bool has_image;  /* the new sandboxes have the image that the origin began with */
    bool shares;     /* the memory goes without what is in that */
    int memory;      /* the copy of that; -1: it is not there yet, or in the files */
    Problem untaken; /* why there is none */
    size_t n;
    LoadOrder *loads[LIMIT_FORKS]; /* NULL once it is over */
    Problem failure;
    LoopTimer settles;
};

/* Does what follows from what has happened, when nobody's turn is in the midst of it. */
static void on_settles(LoopTimer *timer);

static void settle_soon(Fork *fork)
{
    loop_timer_set(fork->all->loop, &fork->settles, clock_now(), on_settles);
}

static void fail(Fork *fork, const Problem *problem)
{
    if (fork->failure.code == ERR_NONE)
        fork->failure = *problem;
    settle_soon(fork);
}

/* ---- what the new sessions do ---- */

static bool has_memory(const Fork *fork)
{
    return fork->saved && (!fork->passes || fork->memory >= 0);
}

/* Once its turn has come, and all is there. */
static void send_load(LoadOrder *load)
{
    Fork *fork = load->fork;
    Guest *guest = load->order.to_guest.sandbox->guest;

    if (!load->started || !load->copied || !has_memory(fork))
        return;
    order_set_body(&load->order, MsgSaveOrder,
                   (&(MsgSaveOrder){.path = text_of(fork->place),
                                    .execution_count = fork->execution_count,
                                    .epoch = 1,
                                    .shares = fork->shares,
                                    .forks = true}));
    order_send(&load->order);
    if (fork->shares)
        guest_pass(guest, load->order.to_guest.sandbox->memory->fd, fork->passes);
    if (fork->passes)
        guest_pass(guest, fork->memory, false);
}

static void start_load(Order *order)
{
    LoadOrder *load = container_of(order, LoadOrder, order);

    load->started = true;
    send_load(load);
}

static int on_loaded(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    LoadOrder *load = container_of(order, LoadOrder, order);
    Session *session = order->to_guest.session;
    MsgLoaded said;
    int r = body_decode(&said, MsgLoaded, reply, problem);

    if (r < 0)
        return r;
    session_note(session, said.execution_count, session->epoch);
    log_info("session forked", "session=%s missing=%u", session->name, value_count(&said.missing));
    load->loaded = true;
    settle_soon(load->fork);
    return 0;
}

static void load_over(Order *order, const Problem *problem)
{
    LoadOrder *load = container_of(order, LoadOrder, order);

    load->fork->loads[load->which] = NULL;
    if (problem)
        fail(load->fork, problem);
}

static const OrderOps load_ops = {
    .kind = MSG_LOAD, .seconds = ANSWER_SECONDS, .start = start_load, .answer = on_loaded, .over = load_over};

/* ---- copying ---- */

typedef struct Copying {
    AsyncStep step; /* of the order that loads; of the memory, of the one that saves */
} Copying;

/* Frees it; returns what waits for it, or NULL. */
static GuestRequest *copying_over(Copying *copying)
{
    GuestRequest *waiting = copying->step.request;

    async_step_detach(&copying->step);
    free(copying);
    return waiting;
}

static void on_copied(void *userdata, FileServiceAnswer *answer)
{
    GuestRequest *waiting = copying_over(userdata);
    LoadOrder *load;

    if (!waiting)
        return;
    load = container_of(waiting, LoadOrder, order.to_guest);
    if (answer->problem) {
        fail(load->fork, answer->problem);
        return;
    }
    load->copied = true;
    settle_soon(load->fork);
    send_load(load);
}

/* Has the files copied, once the origin's are as they are to be and there is a place for them. */
static void copy(LoadOrder *load)
{
    Fork *fork = load->fork;
    const Sandbox *origin, *sandbox = load->order.to_guest.sandbox;
    Problem problem = PROBLEM_NULL;
    Copying *copying;

    if (!fork->save || !fork->saved || load->asked || sandbox->files.state != FILES_THERE)
        return;
    origin = fork->save->order.to_guest.sandbox;
    copying = calloc(1, sizeof(*copying));
    load->asked = true;
    if (copying)
        async_step_attach(&copying->step, &load->order.to_guest);
    if (copying &&
        file_service_ask(fork->all->sandboxes->file_service, sandbox->user, JOB_FORK,
                         &(JobFork){.id = text_of(sandbox->files.id), .from = text_of(origin->files.id)},
                         on_copied, copying) == 0)
        return;
    if (copying)
        async_step_detach(&copying->step);
    free(copying);
    problem_set(&problem, ERR_INTERNAL, "out of memory");
    fail(fork, &problem);
}

static void copy_all(Fork *fork)
{
    for (size_t i = 0; i < fork->n; i++)
        if (fork->loads[i])
            copy(fork->loads[i]);
}

void session_fork_placed(Session *root)
{
    GuestRequest *waiting;

    list_foreach (waiting, &root->sandbox->waiting, GuestRequest, link)
        if (order_is(waiting, &load_ops))
            copy(container_of(waiting, LoadOrder, order.to_guest));
}

/* ---- what the origin does ---- */

/* As much as a process may have a pipe hold. */
#define PIPE_SIZE (1 << 20)

static void use_memory(Fork *fork)
{
    for (size_t i = 0; i < fork->n; i++)
        if (fork->loads[i])
            send_load(fork->loads[i]);
    if (fork->saved && fork->passes && fork->untaken.code != ERR_NONE)
        fail(fork, &fork->untaken);
    settle_soon(fork);
}

static void on_taken(void *userdata, FileServiceAnswer *answer)
{
    GuestRequest *waiting = copying_over(userdata);
    Fork *fork;

    if (!waiting)
        return;
    fork = container_of(waiting, SaveOrder, order.to_guest)->fork;
    fork->memory = descriptors_take(&answer->descriptors, 0);
    if (answer->problem)
        fork->untaken = *answer->problem;
    use_memory(fork);
}

/* Has what is written to a pipe copied; returns its end for writing. -1: there is none. */
static int take_memory(GuestRequest *waiting)
{
    const Sandbox *origin = waiting->sandbox;
    const JobTakeMemory take = {.id = text_of(origin->files.id), .budget = origin->options.disk};
    Copying *copying = calloc(1, sizeof(*copying));
    int ends[2];

    if (!copying || pipe2(ends, O_CLOEXEC) < 0) {
        free(copying);
        return -1;
    }
    fcntl(ends[1], F_SETPIPE_SZ, PIPE_SIZE);
    async_step_attach(&copying->step, waiting);
    if (file_service_pass(origin->all->file_service, origin->user, JOB_TAKE_MEMORY, &take, ends[0], on_taken,
                          copying) == 0)
        return ends[1];
    async_step_detach(&copying->step);
    free(copying);
    close(ends[1]);
    return -1;
}

/* Without a pipe the memory is a file in /session, and copied with the others. */
static void start_save(Order *order)
{
    Fork *fork = container_of(order, SaveOrder, order)->fork;
    const Sandbox *origin = order->to_guest.sandbox;
    int pipe _cleanup_(closep) = origin->passes ? take_memory(&order->to_guest) : -1;

    fork->passes = pipe >= 0;
    fork->shares = fork->passes && fork->has_image && origin->shares;
    order_set_body(order, MsgSaveOrder,
                   (&(MsgSaveOrder){.branch = order->to_guest.session->branch,
                                    .path = text_of(fork->place),
                                    .execution_count = NO_UINT,
                                    .epoch = NO_UINT,
                                    .shares = fork->shares,
                                    .forks = true}));
    order_send(order);
    if (pipe >= 0)
        guest_pass(origin->guest, pipe, false);
}

static int on_saved(Order *order, const msgpack_object_map *reply, Problem *problem)
{
    Fork *fork = container_of(order, SaveOrder, order)->fork;
    MsgSaveReply said;
    int r = body_decode(&said, MsgSaveReply, reply, problem);

    if (r < 0)
        return r;
    fork->saved = true;
    fork->passes &= said.memory;
    fork->execution_count = order->to_guest.session->execution_count;
    copy_all(fork);
    use_memory(fork);
    return 0;
}

/* Its copies may be under way, or it is gone. */
static void save_over(Order *order, const Problem *problem)
{
    Fork *fork = container_of(order, SaveOrder, order)->fork;

    fork->save = NULL;
    if (problem)
        fail(fork, problem);
}

static const OrderOps save_ops = {
    .kind = MSG_SAVE, .seconds = ANSWER_SECONDS, .start = start_save, .answer = on_saved, .over = save_over};

/* ---- what becomes of it ---- */

static bool are_all(const Fork *fork, bool (*holds)(const LoadOrder *load))
{
    for (size_t i = 0; i < fork->n; i++)
        if (!fork->loads[i] || !holds(fork->loads[i]))
            return false;
    return true;
}

static bool is_copied(const LoadOrder *load)
{
    return load->copied;
}

static bool is_loaded(const LoadOrder *load)
{
    return load->loaded;
}

static void write_opened(Writer *w, const void *source)
{
    const Fork *fork = source;

    write_array(w, (uint32_t)fork->n);
    for (size_t i = 0; i < fork->n; i++)
        session_write_opened(fork->loads[i]->order.to_guest.session, w);
}

static void answer(Fork *fork)
{
    const MsgForked forked = {.sessions = {.write = write_opened, .source = fork}};

    request_answer(take(fork->request), MsgForked, &forked);
}

/* All are whole before the first turn that waits in one of them begins. */
static void finish(Fork *fork)
{
    for (size_t i = 0; i < fork->n; i++)
        session_made_whole(fork->loads[i]->order.to_guest.session);
    answer(fork);
    for (size_t i = 0; i < fork->n; i++) {
        Order *order = &fork->loads[i]->order;
        Session *session = order->to_guest.session;

        saved_place_remove(session->sandbox, fork->place);
        session_accept_files(session);
        order_reply(order, NULL);
    }
}

static void let_origin_go_on(Fork *fork)
{
    saved_place_remove(fork->save->order.to_guest.sandbox, fork->place);
    order_reply(&fork->save->order, NULL);
}

static void give_up(Fork *fork)
{
    Problem problem = fork->failure;

    if (fork->save && fork->saved)
        let_origin_go_on(fork);
    for (size_t i = 0; i < fork->n; i++)
        if (fork->loads[i])
            session_close(fork->loads[i]->order.to_guest.session, NULL,
                          "not all could be made that were asked for");
    problem_prefix(&problem, "no session was made");
    if (fork->request)
        request_fail(take(fork->request), &problem);
}

static bool is_over(const Fork *fork)
{
    for (size_t i = 0; i < fork->n; i++)
        if (fork->loads[i])
            return false;
    return !fork->save && !fork->request;
}

static void on_settles(LoopTimer *timer)
{
    Fork *fork = container_of(timer, Fork, settles);

    if (fork->failure.code != ERR_NONE) {
        give_up(fork);
    } else {
        if (fork->save && has_memory(fork) && are_all(fork, is_copied))
            let_origin_go_on(fork);
        if (!fork->save && fork->request && are_all(fork, is_loaded))
            finish(fork);
    }
    if (!is_over(fork))
        return;
    loop_timer_cancel(&fork->settles);
    closep(&fork->memory);
    free(fork);
}

/* ---- how it begins ---- */

static int copy_options(SessionOptions *ret, const SessionOptions *from, Text ttl_action,
                        const RequestDirectory *data, Problem *problem)
{
    Buf said _cleanup_(buf_deinit) = BUF_NULL;
    msgpack_unpacked unpacked;
    MsgOptions options = session_options_to_wire(from);
    int r;

    if (ttl_action.data)
        options.ttl_action = ttl_action;
    if (data)
        options.data = text_of(data->path);
    if (body_encode(&said, MsgOptions, &options) < 0)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    msgpack_unpacked_init(&unpacked);
    r = msgpack_unpack_next(&unpacked, (const char *)buf_head(&said), said.size, NULL) ==
                MSGPACK_UNPACK_SUCCESS
            ? session_options_read(ret, &unpacked.data.via.map, problem)
            : problem_set(problem, ERR_INTERNAL, "out of memory");
    msgpack_unpacked_destroy(&unpacked);
    return r;
}

/* Returns the image that it began with; NULL: there is none, or it is not open. */
static MemoryImage *image_of(const Sandbox *origin)
{
    return origin->memory && origin->memory->fd >= 0 ? origin->memory : NULL;
}

static int check_name(const Session *origin, const MsgFork *asked, uint32_t i, Problem *problem)
{
    Text name = value_text(&asked->names, i);

    if (!name_valid(name))
        return problem_set(
            problem, ERR_BAD_REQUEST,
            "a session name has 1 to %u characters of A-Z a-z 0-9 . _ - and begins with a letter or digit",
            LIMIT_SESSION_NAME);
    if (sessions_holder(origin->all, origin->user, name))
        return problem_set(problem, ERR_SESSION_EXISTS,
                           "the session '%.*s' is open; close it first, or choose another name",
                           (int)name.size, name.data);
    return 0;
}

static int start_one(Fork *fork, const Session *origin, const MsgFork *asked, uint32_t i,
                     const RequestDirectory *data, Problem *problem)
{
    SessionOptions options _cleanup_(session_options_deinit) = {0};
    const Sandbox *sandbox = origin->sandbox;
    char name[LIMIT_SESSION_NAME + 1];
    const SandboxAssignment assignment = {.user = origin->user,
                                          .name = name,
                                          .forked = true,
                                          .restorer = fork->request->peer,
                                          .memory = image_of(sandbox),
                                          .data = data ? &data->fd : NULL,
                                          .packages = *sandbox->packages ? sandbox->packages : NULL};
    Text given = value_text(&asked->names, i);
    Session *session = NULL;
    LoadOrder *load;
    int r = check_name(origin, asked, i, problem);

    snprintf(name, sizeof(name), "%.*s", (int)MIN(given.size, LIMIT_SESSION_NAME), given.data);
    if (r == 0)
        r = copy_options(&options, &sandbox->options, asked->ttl_action, data, problem);
    if (r == 0)
        r = session_start(&session, origin->all, &assignment, NULL, &options, problem);
    if (!session)
        return r;
    load = order_new(sizeof(*load), &load_ops, session, NULL);
    if (!load) {
        session_close(session, NULL, "out of memory");
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    }
    load->fork = fork;
    load->which = i;
    fork->loads[i] = load;
    order_queue(&load->order);
    return 0;
}

static int queue_save(Fork *fork, Session *origin, Problem *problem)
{
    SaveOrder *save = order_new(sizeof(*save), &save_ops, origin, NULL);

    if (!save)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    fork->save = save;
    save->fork = fork;
    order_queue(&save->order);
    return 0;
}

void session_fork(Session *origin, Request *request, const MsgFork *asked,
                  const RequestDirectory *const *data)
{
    Fork *fork = calloc(1, sizeof(*fork));
    Problem problem = PROBLEM_NULL;
    int r = 0;

    if (!fork) {
        request_fail_text(request, ERR_INTERNAL, "out of memory");
        return;
    }
    fork->all = origin->all;
    fork->request = request;
    fork->has_image = image_of(origin->sandbox);
    fork->memory = -1;
    fork->n = value_count(&asked->names);
    snprintf(fork->place, sizeof(fork->place), SAVED_PLACES "fork-%" PRIu64,
             sandboxes_next_number(origin->all->sandboxes));
    for (uint32_t i = 0; r == 0 && i < fork->n; i++)
        r = start_one(fork, origin, asked, i, data[i], &problem);
    if (r == 0)
        r = queue_save(fork, origin, &problem);
    if (r < 0)
        fail(fork, &problem);
}
