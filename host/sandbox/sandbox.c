#include "host/sandbox/sandbox.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include "host/sandbox/data.h"
#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

/* ---- all of them ---- */

void sandboxes_init(Sandboxes *all)
{
    all->images = (MemoryImages){.opened = sandboxes_image_opened, .userdata = all};
    memory_images_init(&all->images);
    list_init(&all->list);
    list_init(&all->openings);
    cpu_yields_init(&all->cpu_yields);
}

void sandboxes_deinit(Sandboxes *all)
{
    cpu_yields_deinit(&all->cpu_yields);
}

uint64_t sandboxes_next_number(Sandboxes *all)
{
    if (all->last_number == 0)
        all->last_number = (uint64_t)(clock_unix() * 1e6);
    return ++all->last_number;
}

const char *sandboxes_engine(const Sandboxes *all)
{
    return all->engine->ops->name;
}

const char *sandboxes_image(const Sandboxes *all, const char *name)
{
    return all->engine->ops->image(all->engine, name);
}

bool sandboxes_isolate(const Sandboxes *all)
{
    return all->engine->ops->isolates;
}

size_t sandboxes_not_enforced(const Sandboxes *all, const char *ret[static SANDBOX_LIMITS])
{
    static const struct {
        ContainerLimit limit;
        const char *name;
    } limits[] = {{LIMIT_ON_MEMORY, "memory"}, {LIMIT_ON_CPUS, "cpus"}, {LIMIT_ON_PIDS, "pids"}};
    const EngineOps *ops = all->engine->ops;
    unsigned missing = ops->not_enforced ? ops->not_enforced(all->engine) : 0;
    size_t n = 0;

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        if (missing & limits[i].limit)
            ret[n++] = limits[i].name;
    if (!all->has_disks) {
        ret[n++] = "disk";
        ret[n++] = "files";
    }
    return n;
}

/* ---- one of them ---- */

bool instance_make(char ret[static INSTANCE_SIZE])
{
    uint64_t random;

    if (getrandom(&random, sizeof(random), 0) != sizeof(random))
        return false;
    snprintf(ret, INSTANCE_SIZE, "%016llx", (unsigned long long)random);
    return true;
}

/* ---- CPU yield ---- */

static int set_idle(CpuYield *cpu_yield, bool idle)
{
    Sandbox *sandbox = container_of(cpu_yield, Sandbox, cpu_yield);
    int r = sandbox->all->engine->ops->set_idle(sandbox->container, idle);

    if (r == 0)
        log_debug(idle ? "session steps aside" : "session is back", "session=%s", sandbox->name);
    return r;
}

static int processor_time(const CpuYield *cpu_yield, uint64_t *ret_nsec)
{
    const Sandbox *sandbox = container_of(cpu_yield, const Sandbox, cpu_yield);

    return sandbox->all->engine->ops->time(sandbox->container, ret_nsec);
}

static const CpuYieldOps cpu_yield_ops = {.set_idle = set_idle, .time = processor_time};

Sandbox *sandbox_new(Sandboxes *all, SandboxState state, bool ephemeral, SessionOptions *options,
                     const SandboxOwner *owner, void *userdata)
{
    Sandbox *sandbox = calloc(1, sizeof(*sandbox));

    if (!sandbox || !instance_make(sandbox->instance)) {
        free(sandbox);
        return NULL;
    }
    sandbox->all = all;
    sandbox->state = state;
    sandbox->user = all->paths->user;
    sandbox->ephemeral = ephemeral;
    sandbox->options = *options;
    *options = (SessionOptions){0};
    sandbox->owner = owner;
    sandbox->userdata = userdata;
    sandbox->awaits = AWAITS_CONTAINER | AWAITS_SUPERVISOR;
    sandbox->data = -1;
    sandbox->created = clock_unix();
    sandbox->used = clock_now();
    session_files_init(&sandbox->files, all->file_service);
    sandbox->files.user = sandbox->user;
    list_append(&all->list, &sandbox->link);
    cpu_yield_init(&sandbox->cpu_yield, &all->cpu_yields, &cpu_yield_ops);
    list_init(&sandbox->waiting);
    list_init(&sandbox->queries);
    list_init(&sandbox->programs);
    return sandbox;
}

void sandbox_free(Sandbox *sandbox)
{
    list_remove(&sandbox->link);
    cpu_yield_deinit(&sandbox->cpu_yield);
    loop_timer_cancel(&sandbox->start_timer);
    loop_timer_cancel(&sandbox->watchdog);
    loop_timer_cancel(&sandbox->patience);
    data_forget(sandbox->opening);
    close_fd(&sandbox->data);
    egress_forget(&sandbox->egress);
    memory_image_unref(sandbox->memory);
    guest_free(sandbox->guest);
    sandbox->all->events->over(sandbox);
    session_files_remove(&sandbox->files);
    session_options_deinit(&sandbox->options);
    free(sandbox);
}

/* ---- memory ---- */

int sandbox_memory(const Sandbox *sandbox, uint64_t *ret_bytes)
{
    if (sandbox->awaits & AWAITS_CONTAINER)
        return -ENOENT;
    return sandbox->all->engine->ops->memory(sandbox->container, ret_bytes, NULL);
}

/* those that were before now count for no call */
static void note_kills(Sandbox *sandbox)
{
    if (sandbox->all->engine->ops->memory(sandbox->container, NULL, &sandbox->oom_kills) < 0)
        sandbox->oom_kills = 0;
}

bool sandbox_has_killed(Sandbox *sandbox)
{
    uint64_t kills, before = sandbox->oom_kills;

    if (sandbox->all->engine->ops->memory(sandbox->container, NULL, &kills) < 0)
        return false;
    sandbox->oom_kills = kills;
    return kills > before;
}

/* ---- its life ---- */

static const char *const states[] = {
#define SANDBOX_STATE(state, awaits) #state,
#include "host/sandbox/sandbox_states.def"
};

static const bool moves[ARRAY_SIZE(states)][ARRAY_SIZE(states)] = {
#define SANDBOX_MOVE(from, event, to) [SANDBOX_##from][SANDBOX_##to] = true,
#include "host/sandbox/sandbox_states.def"
};

void sandbox_become(Sandbox *sandbox, SandboxState state)
{
    bool may = moves[sandbox->state][state];

    if (!may)
        log_error("a sandbox has made a move that there is not", "session=%s from=%s to=%s", sandbox->name,
                  states[sandbox->state], states[state]);
    assert(may);
    sandbox->state = state;
}

/* An adopted one keeps its count of the kernel's kills: its last call is judged by it. */
static void come_up(Sandbox *sandbox)
{
    SandboxState before = sandbox->state;

    sandbox_become(sandbox, before == SANDBOX_WARMING ? SANDBOX_SPARE : SANDBOX_READY);
    if (before == SANDBOX_ADOPTING)
        cpu_yield_adopted(&sandbox->cpu_yield);
    else if (before != SANDBOX_WARMING)
        note_kills(sandbox);
}

void sandbox_become_ready(Sandbox *sandbox)
{
    if (sandbox->state >= SANDBOX_SPARE || sandbox->awaits)
        return;
    loop_timer_cancel(&sandbox->start_timer);
    close_fd(&sandbox->data);
    come_up(sandbox);
    sandbox->used = clock_now();
    sandbox->owner->ready(sandbox);
    sandbox_next(sandbox);
    sandbox_send_queries(sandbox);
    sandbox_start_programs(sandbox);
}

void sandbox_supervisor_ready(Sandbox *sandbox)
{
    sandbox->awaits &= ~(unsigned)AWAITS_SUPERVISOR;
    sandbox_become_ready(sandbox);
}

/* The owner frees it. */
void sandbox_end(Sandbox *sandbox)
{
    Sandboxes *all = sandbox->all;

    sandbox->owner->gone(sandbox);
    all->events->gone(all->userdata);
}

/* Nothing can be said of it any more while it is taken apart. */
bool sandbox_leave(Sandbox *sandbox)
{
    bool parked = sandbox->state == SANDBOX_PARKED;

    if (!moves[sandbox->state][SANDBOX_LEFT])
        return false;
    log_info("session left", "session=%s container=%s", sandbox->name, sandbox->container_name);
    sandbox_become(sandbox, SANDBOX_LEFT);
    sandbox->all->events->over(sandbox);
    sandbox_leave_requests(sandbox);
    sandbox_fail_queries(sandbox, ERR_UNAVAILABLE, "the controller is shutting down");
    sandbox->memory = NULL;
    if (!parked) {
        sandbox->all->engine->ops->leave(sandbox->container);
        guest_leave(take(sandbox->guest));
    }
    session_files_leave(&sandbox->files);
    sandbox_end(sandbox);
    return true;
}

static void begin_closing(Sandbox *sandbox, const char *reason)
{
    char text[256];

    log_debug("session closing", "session=%s reason=%s", sandbox->name, reason);
    sandbox_become(sandbox, SANDBOX_CLOSING);
    sandbox->all->events->closing(sandbox);
    loop_timer_cancel(&sandbox->start_timer);
    loop_timer_cancel(&sandbox->watchdog);
    loop_timer_cancel(&sandbox->patience);
    egress_forget(&sandbox->egress);
    sandbox_end_all_requests(sandbox, reason);
    snprintf(text, sizeof(text), "the session was closed: %s", reason);
    sandbox_fail_queries(sandbox, ERR_SESSION_CLOSED, text);
    sandbox->owner->closing(sandbox, reason);
}

void sandbox_close(Sandbox *sandbox, const char *reason)
{
    if (sandbox_is_ending(sandbox))
        return;
    begin_closing(sandbox, reason);
    sandbox_remove_container(sandbox);
}

/* ---- messages of its supervisor ----
 *
 * Messages of a sandbox's supervisor, and the requests and the owner that they concern. */

static void violation(void *userdata, const char *what)
{
    Sandbox *sandbox = userdata;

    log_warn("supervisor broke the protocol", "session=%s what=%s", sandbox->name, what);
    sandbox_give_up_for(sandbox, "its supervisor broke the protocol");
}

static bool is_known(MessageKind kind)
{
    switch (kind) {
    case MSG_EXECUTED:
    case MSG_OUTPUT:
    case MSG_DISPLAY:
    case MSG_ASK:
    case MSG_PREPARED:
    case MSG_ERROR:
    case MSG_REPLY:
    case MSG_FILE_FAILED:
    case MSG_INSTALL:
        return true;
    default:
        return false;
    }
}

/* Asks for packages, unless the sandbox is nobody's session: then nobody can be asked. */
static int on_install(Sandbox *sandbox, const Message *message, Problem *problem)
{
    MsgInstallAsked asked;

    if (body_decode(&asked, MsgInstallAsked, &message->body, problem) < 0)
        return -EPROTO;
    if (sandbox->root)
        sandbox->all->events->asked(sandbox, message->id, asked.packages);
    return 0;
}

/* About a request that was sent, or else for the owner. */
static int deliver(Sandbox *sandbox, const Message *message, Problem *problem)
{
    GuestRequest *request;

    if (message->kind == MSG_INSTALL) /* whose ids are the supervisor's own */
        return on_install(sandbox, message, problem);
    request = sandbox_find_sent(sandbox, message->id);
    if (request)
        return request->ops->message(request, message, problem);
    return sandbox->owner->message(sandbox, message, problem);
}

static void on_message(void *userdata, const Message *message)
{
    Sandbox *sandbox = userdata;
    Problem problem = PROBLEM_NULL;

    if (sandbox->state >= SANDBOX_PARKING)
        return;
    if (!is_known(message->kind))
        violation(sandbox, message_name(message->kind));
    else if (deliver(sandbox, message, &problem) < 0)
        violation(sandbox, problem.text);
}

static ErrorCode error_code(uint64_t number)
{
    static const ErrorCode known[] = {
        ERR_NO_SUCH_CHECKPOINT, ERR_CHECKPOINT_FAILED, ERR_BRANCH_EXISTS, ERR_BUSY,        ERR_BAD_REQUEST,
        ERR_TOO_LARGE,          ERR_NO_SUCH_RUN,       ERR_NOT_LISTENING, ERR_SAVE_FAILED, ERR_RESTORE_FAILED,
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (known[i] == number)
            return known[i];
    return ERR_INTERNAL;
}

int sandbox_refusal(Problem *ret, const Message *message, Problem *problem)
{
    MsgError said;
    int r = body_decode(&said, MsgError, &message->body, problem);

    if (r < 0)
        return r;
    problem_set(ret, error_code(said.number), "%.*s", (int)said.message.size, said.message.data);
    if (ret->code == ERR_INTERNAL)
        problem_prefix(ret, "the supervisor of the session");
    return 0;
}

int sandbox_send(Sandbox *sandbox, MessageKind kind, uint64_t id)
{
    return guest_send(sandbox->guest, kind, id, MsgNothing, &(MsgNothing){0});
}

/* NAN where an image that knows no other one has the same. */
static double setup_timeout(const Sandbox *sandbox)
{
    double seconds = sandbox->all->options->template_setup_timeout;

    return sandbox->spare_spec.setup.data && seconds != SETUP_SECONDS ? seconds : NAN;
}

static int send_welcome(Sandbox *sandbox, uint64_t number, const GuestHello *hello)
{
    const SessionOptions *options = &sandbox->options;
    const bool begins = sandbox->state == SANDBOX_STARTING || sandbox->state == SANDBOX_WARMING;
    MsgGuestWelcome welcome = {
        .env = value_encoded(&options->env),
        .output_limit = LIMIT_OUTPUT,
        .spill_limit = LIMIT_SPILL,
        .checkpoint = text_of(options->checkpoint),
        .checkpoint_budget = options->memory / 2,
        .memory = options->memory,
        .orphan_timeout = MAX(sandbox->all->options->orphan_timeout, 1), /* never 0 */
        .setup_timeout = NAN,
    };
    int r;

    welcome.proxied = sandbox_is_proxied(sandbox);
    welcome.loads = sandbox->loads && hello->waits;
    welcome.shares = begins && sandbox->memory && !sandbox->loads && hello->waits;
    if (sandbox->state == SANDBOX_WARMING || sandbox->state == SANDBOX_SPARE) {
        welcome.imports = sandbox->spare_spec.imports;
        welcome.setup = sandbox->spare_spec.setup;
        welcome.setup_timeout = setup_timeout(sandbox);
        welcome.keeps = sandbox->spare_spec.keeps && hello->waits;
    }
    r = guest_send(sandbox->guest, MSG_GUEST_WELCOME, number, MsgGuestWelcome, &welcome);
    if (r == 0 && welcome.shares)
        guest_pass(sandbox->guest, sandbox->memory->fd, false);
    return r;
}

/* An honest one has no reason to connect as often within a minute. */
#define HELLOS_MAX 100

static bool connects_too_often(Sandbox *sandbox)
{
    uint64_t now = clock_now();

    if (now - sandbox->hellos_since > 60 * NSEC_PER_SEC) {
        sandbox->hellos_since = now;
        sandbox->hellos = 0;
    }
    return ++sandbox->hellos > HELLOS_MAX;
}

/* An interrupt may have been lost with the connection. */
static void interrupt_again(Sandbox *sandbox)
{
    const GuestRequest *request = sandbox->running;

    if (request && request->interrupted && request->state == REQUEST_SENT)
        sandbox_send(sandbox, MSG_INTERRUPT, request->number);
}

void sandbox_interrupt(Sandbox *sandbox)
{
    if (sandbox->running)
        sandbox->running->interrupted = true;
    interrupt_again(sandbox);
}

/* Answers that were under way when the connection broke do not come any more. What is sent through the new
 * one, behind its welcome, is answered there. */
static void on_hello(void *userdata, const GuestHello *hello)
{
    Sandbox *sandbox = userdata;
    uint64_t welcome = sandboxes_next_number(sandbox->all);

    if (sandbox->state >= SANDBOX_PARKING)
        return;
    /* An adopted container is not known yet, nor whether the kernel has killed for memory in it, by which the
     * supervisor's last call is judged; packages come before any code. The supervisor connects again. */
    if ((sandbox->state == SANDBOX_ADOPTING || sandbox_is_saving(sandbox) || *sandbox->packages) &&
        sandbox->awaits & AWAITS_CONTAINER) {
        guest_drop(sandbox->guest);
        return;
    }
    if (connects_too_often(sandbox)) {
        violation(sandbox, "connections, one after the other");
        return;
    }
    sandbox->passes = hello->passes;
    sandbox->shares = hello->shares;
    if (send_welcome(sandbox, welcome, hello) < 0) {
        sandbox_give_up_for(sandbox, "its supervisor cannot be reached");
        return;
    }
    if (sandbox_is_saving(sandbox))
        sandbox_begin_saving(sandbox, SAVE_SECONDS);
    sandbox_cut_off_requests(sandbox, welcome, hello);
    interrupt_again(sandbox);
    if (!sandbox_is_ending(sandbox) && sandbox->owner->hello)
        sandbox->owner->hello(sandbox, hello);
    if (sandbox->state == SANDBOX_READY)
        sandbox_resume(sandbox);
}

static void on_taken(void *userdata)
{
    sandbox_resume(userdata);
}

const GuestEvents sandbox_guest_events = {
    .hello = on_hello,
    .message = on_message,
    .taken = on_taken,
    .violation = violation,
};

/* ---- spares ----
 *
 * Sandboxes that are nobody's: how they begin, and become somebody's. */

int sandbox_start_spare(Sandbox **ret, Sandboxes *all, bool ephemeral, SessionOptions *options,
                        const SpareSpec *spec, const SandboxOwner *owner, void *userdata, Problem *problem)
{
    Sandbox *sandbox = sandbox_new(all, SANDBOX_WARMING, ephemeral, options, owner, userdata);
    int r;

    if (!sandbox)
        return problem_set(problem, ERR_INTERNAL, "out of memory");
    sandbox->spare_spec = *spec;
    sandbox->memory = memory_image_ref(spec->memory);
    snprintf(sandbox->name, sizeof(sandbox->name), PRIVATE_MARK "%s", sandbox->instance);
    snprintf(sandbox->packages, sizeof(sandbox->packages), "%s", spec->packages ? spec->packages : "");
    r = sandbox_begin(sandbox, NULL, problem);
    if (r == 0)
        *ret = sandbox;
    return r;
}

static int send_claim(Sandbox *sandbox, const SessionOptions *options)
{
    const MsgClaim claim = {.env = value_encoded(&options->env),
                            .checkpoint = text_of(options->checkpoint),
                            .proxied = sandbox_is_proxied(sandbox)};

    return guest_send(sandbox->guest, MSG_CLAIM, sandboxes_next_number(sandbox->all), MsgClaim, &claim);
}

int sandbox_activate(Sandbox *sandbox)
{
    if (send_claim(sandbox, &sandbox->options) < 0)
        return -EHOSTUNREACH;
    sandbox_become(sandbox, SANDBOX_READY);
    note_kills(sandbox);
    return 0;
}

/* All of it is written down before anyone is told. */
/* In place of the one with which it began as a spare. */
static void take_image(Sandbox *sandbox, MemoryImage *image)
{
    memory_image_ref(image);
    memory_image_unref(sandbox->memory);
    sandbox->memory = image;
}

static void become_assigned(Sandbox *sandbox, const SandboxAssignment *assignment, SessionOptions *options)
{
    snprintf(sandbox->name, sizeof(sandbox->name), "%s", assignment->name);
    sandbox->forked = sandbox->loads = assignment->forked;
    if (sandbox->forked)
        take_image(sandbox, assignment->memory);
    sandbox->restorer = assignment->restorer;
    sandbox->created = clock_unix();
    sandbox->used = clock_now();
    session_options_deinit(&sandbox->options);
    sandbox->options = *options;
    *options = (SessionOptions){0};
    sandbox_become(sandbox, sandbox->awaits ? SANDBOX_STARTING : SANDBOX_READY);
    sandbox->spare_spec = (SpareSpec){0};
    note_kills(sandbox);
    sandbox->all->events->assigned(sandbox);
    log_info("session ready", "session=%s image=%s container=%s", sandbox->name, sandbox->options.image,
             sandbox->container_name);
}

static void on_data(void *userdata, int result, const Problem *problem)
{
    Sandbox *sandbox = userdata;

    if (sandbox->state != SANDBOX_STARTING)
        return;
    sandbox->awaits &= ~(unsigned)AWAITS_DATA;
    if (result < 0)
        sandbox_make_anew(sandbox, problem);
    else if (send_claim(sandbox, &sandbox->options) < 0)
        sandbox_give_up_for(sandbox, "its supervisor cannot be reached");
    else
        sandbox_become_ready(sandbox);
}

/* 0; ATTACH_ASKED, and it is told later; or as sandbox_assign(). */
static int attach_data(Sandbox *sandbox, const SandboxAssignment *assignment, const SessionOptions *options,
                       Problem *problem)
{
    int data, r;

    if (!options->data)
        return 0;
    data = assignment->data ? fcntl(*assignment->data, F_DUPFD_CLOEXEC, 3) : -1;
    if (data < 0)
        return -EOPNOTSUPP; /* a container of its own is made when it is open */
    r = sandbox->all->engine->ops->attach_data(sandbox->container, data, &(AttachDone){on_data, sandbox},
                                               problem);
    if (r == ATTACH_ASKED) {
        sandbox->awaits = AWAITS_DATA;
        sandbox->data = take_fd(&data);
    }
    close_fd(&data);
    return r;
}

static void on_claimed(void *userdata, const Problem *failure)
{
    if (failure)
        sandbox_close(userdata, failure->text);
}

static int claim_files(Sandbox *sandbox, const char *name, Problem *problem)
{
    char published[PUBLISHED_ID_SIZE];
    const FilesSpec spec = sandbox_files_spec(sandbox, name, published);

    return session_files_claim(&sandbox->files, &spec, on_claimed, sandbox, problem);
}

int sandbox_assign(Sandbox *sandbox, const SandboxAssignment *assignment, SessionOptions *options,
                   Problem *problem)
{
    int r = attach_data(sandbox, assignment, options, problem);

    if (r < 0)
        return r;
    r = sandbox_serve_network(sandbox, assignment->name, options, problem);
    if (r < 0)
        return r;
    r = sandbox->awaits ? 0 : send_claim(sandbox, options);
    if (r < 0)
        return problem_set(problem, ERR_INTERNAL, "its supervisor cannot be reached");
    sandbox->user = sandbox->files.user = assignment->user;
    r = claim_files(sandbox, assignment->output_id ? assignment->output_id : assignment->name, problem);
    if (r == 0)
        become_assigned(sandbox, assignment, options);
    return r;
}

/* ---- taking over from an earlier controller ----
 *
 * Taking over a sandbox from an earlier controller. */

Sandbox *sandbox_restore(Sandboxes *all, uid_t user, const char *name, const char *instance, bool ephemeral,
                         double created, SessionOptions *options, const SandboxOwner *owner, void *userdata)
{
    Sandbox *sandbox = sandbox_new(all, SANDBOX_ADOPTING, ephemeral, options, owner, userdata);

    if (!sandbox)
        return NULL;
    sandbox->user = sandbox->files.user = user;
    sandbox->created = created;
    snprintf(sandbox->name, sizeof(sandbox->name), "%s", name);
    snprintf(sandbox->instance, sizeof(sandbox->instance), "%s", instance);
    sandbox_set_container_name(sandbox);
    return sandbox;
}

int sandbox_restore_files(Sandbox *sandbox, const char *id, bool mounts, Problem *problem)
{
    char published[PUBLISHED_ID_SIZE];
    FilesSpec spec =
        sandbox_files_spec(sandbox, sandbox->ephemeral ? sandbox->name + 1 : sandbox->name, published);

    spec.id = id;
    return session_files_adopt(&sandbox->files, &spec, mounts, sandbox_on_files, sandbox, problem);
}

void sandbox_files_amiss(Sandbox *sandbox, const Problem *failure)
{
    if (sandbox->state >= SANDBOX_RETURNING && sandbox->state <= SANDBOX_PARKED)
        log_warn("saved session is not whole", "session=%s reason=%s", sandbox->name, failure->text);
    else
        sandbox_close(sandbox, failure->text);
}

int sandbox_restore_link(Sandbox *sandbox, const char *link, const uint8_t *secret, Problem *problem)
{
    int r = guest_adopt(&sandbox->guest, sandbox->all, sandbox->files.id, link, secret, &sandbox_guest_events,
                        sandbox, problem);

    return r < 0 ? r : sandbox_serve_network(sandbox, sandbox->name, &sandbox->options, problem);
}

int sandbox_restore_container(Sandbox *sandbox, Problem *problem)
{
    return sandbox_get_container(sandbox, sandbox->all->engine->ops->adopt, -1, problem);
}

void sandbox_abandon(Sandbox *sandbox)
{
    sandbox_end(sandbox);
}
