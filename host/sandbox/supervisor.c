/* Messages of a sandbox's supervisor, and the turns, errands and owner that they concern. */
#include <errno.h>
#include <math.h>

#include "host/sandbox/internal.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

static void give_up(Sandbox *sandbox, const char *reason)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, ERR_ENGINE_ERROR, "%s", reason);
    sandbox_give_up(sandbox, &problem);
}

static void violation(void *userdata, const char *what)
{
    Sandbox *sandbox = userdata;

    log_warn("supervisor broke the protocol", "session=%s what=%s", sandbox->name, what);
    give_up(sandbox, "its supervisor broke the protocol");
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
    if (sandbox->trunk)
        sandbox->all->events->asked(sandbox, message->id, asked.packages);
    return 0;
}

/* About a turn or an errand, or else for the owner. */
static int deliver(Sandbox *sandbox, const Message *message, Problem *problem)
{
    bool answers = message->kind != MSG_INSTALL; /* ids of an install are the supervisor's own */
    Turn *turn = answers ? sandbox_find_sent(sandbox, message->id) : NULL;
    Errand *errand = turn || !answers ? NULL : errands_find(sandbox, message->id);

    if (turn)
        return turn->ops->message(turn, message, problem);
    if (errand)
        return errand->ops->answer(errand, message, problem);
    if (message->kind == MSG_INSTALL)
        return on_install(sandbox, message, problem);
    if (sandbox->owner->message)
        return sandbox->owner->message(sandbox, message, problem);
    if (message->kind == MSG_EXECUTED) /* nobody asks for it any more */
        sandbox_send(sandbox, MSG_SETTLED, message->id);
    return 0;
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
    return guest_say(sandbox->guest, kind, id, MsgNothing, &(MsgNothing){0});
}

/* NAN where an image that knows no other one has the same. */
static double setup_timeout(const Sandbox *sandbox)
{
    double seconds = sandbox->all->options->template_setup_timeout;

    return sandbox->birth.setup.data && seconds != SETUP_SECONDS ? seconds : NAN;
}

static int send_welcome(Sandbox *sandbox, uint64_t number)
{
    const SessionOptions *options = &sandbox->options;
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

    welcome.proxied = sandbox_is_proxied(sandbox);
    if (sandbox->state == SANDBOX_WARMING || sandbox->state == SANDBOX_SPARE) {
        welcome.imports = sandbox->birth.imports;
        welcome.setup = sandbox->birth.setup;
        welcome.setup_timeout = setup_timeout(sandbox);
    }
    return guest_say(sandbox->guest, MSG_GUEST_WELCOME, number, MsgGuestWelcome, &welcome);
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
    const Turn *turn = sandbox->running;

    if (turn && turn->interrupted && turn->state == TURN_SENT)
        sandbox_send(sandbox, MSG_INTERRUPT, turn->number);
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
    if ((sandbox->state == SANDBOX_ADOPTING || *sandbox->packages) && sandbox->awaits & AWAITS_CONTAINER) {
        guest_drop(sandbox->guest);
        return;
    }
    if (connects_too_often(sandbox)) {
        violation(sandbox, "connections, one after the other");
        return;
    }
    if (send_welcome(sandbox, welcome) < 0) {
        give_up(sandbox, "its supervisor cannot be reached");
        return;
    }
    sandbox_disconnect_turns(sandbox, welcome, hello);
    errands_disconnect(sandbox, welcome);
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
