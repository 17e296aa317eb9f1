#include "guest/supervisor/controller.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define PEER "limpet-guest/" LIMPET_VERSION

/* Answers */

void controller_answer_problem(Controller *controller, uint64_t id, const Problem *problem)
{
    const MsgError error = {.number = problem->code,
                            .name = text_of(error_name(problem->code)),
                            .message = text_of(problem->text)};

    link_say(&controller->link, MSG_ERROR, id, MsgError, &error);
}

void controller_answer(Controller *controller, uint64_t id, ErrorCode code, const char *what, const char *why)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s: %s", what, why);
    controller_answer_problem(controller, id, &problem);
}

void controller_send_record(Controller *controller)
{
    const Buf *record = &controller->supervisor->record;

    if (controller->welcomed && record->size > 0 && link_send(&controller->link, record) == -ENOMEM)
        log_error("no memory to send a record", "bytes=%zu", record->size);
}

/* Orders */

/* `auto` where it is absent. */
static CheckpointMode mode_of(Text word)
{
    if (text_equal(word, "always"))
        return CHECKPOINT_ALWAYS;
    return text_equal(word, "off") ? CHECKPOINT_OFF : CHECKPOINT_AUTO;
}

static int decode_environment(Environment *ret, const Supervisor *supervisor, const msgpack_object_map *set,
                              Problem *problem)
{
    int r = environment_init(ret, supervisor->options->directory, set, problem);

    return r == -ENOMEM ? problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM)) : r;
}

static int decode_welcome(Settings *ret, const Supervisor *supervisor, const MsgGuestWelcome *said,
                          Problem *problem)
{
    if (said->orphan_timeout <= 0)
        return problem_set(problem, ERR_BAD_REQUEST, "`orphan_timeout` is out of range");
    ret->checkpoint = mode_of(said->checkpoint);
    ret->output_limit = MIN(said->output_limit, LIMIT_OUTPUT); /* where they are absent, too */
    ret->spill_limit = MIN(said->spill_limit, LIMIT_SPILL);
    ret->checkpoint_budget = uint_or(said->checkpoint_budget, 0);
    ret->memory = uint_or(said->memory, 0);
    ret->orphan_timeout =
        isnan(said->orphan_timeout) ? supervisor->options->orphan_timeout : said->orphan_timeout;
    return decode_environment(&ret->environment, supervisor, said->env.map, problem);
}

static int handle_welcome(Controller *controller, const Message *message, Problem *problem)
{
    Supervisor *supervisor = controller->supervisor;
    Settings settings = {0};
    MsgGuestWelcome said;
    int r = body_decode(&said, MsgGuestWelcome, &message->body, problem);

    if (r == 0)
        r = decode_welcome(&settings, supervisor, &said, problem);
    if (r == 0)
        r = supervisor_configure(supervisor, &settings, said.imports.array ? &said.imports : NULL, problem);
    if (r < 0) {
        environment_deinit(&settings.environment);
        return r;
    }
    controller->welcomed = true;
    link_accepted(&controller->link);
    loop_timer_cancel(&controller->orphan);
    controller_send_record(controller);
    call_send_asks(supervisor);
    spare_tell(supervisor);
    return 0;
}

static int handle_claim(Controller *controller, const Message *message, Problem *problem)
{
    Supervisor *supervisor = controller->supervisor;
    Environment environment;
    MsgClaim said;
    int r = body_decode(&said, MsgClaim, &message->body, problem);

    if (r == 0 && !spare_is_one(&supervisor->spare))
        r = problem_set(problem, ERR_BAD_REQUEST, "it is a session already");
    if (r == 0)
        r = decode_environment(&environment, supervisor, said.env.map, problem);
    if (r == 0)
        supervisor_claim(supervisor, &environment, mode_of(said.checkpoint));
    return r;
}

static int handle_execute(Controller *controller, const Message *message, Problem *problem)
{
    MsgExecute body;
    int r = body_decode(&body, MsgExecute, &message->body, problem);

    if (r < 0)
        return r;
    if (body.timeout <= 0 || body.timeout > TIMEOUT_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "`timeout` is out of range");

    Call call = {.id = message->id,
                 .branch = uint_or(body.branch, 0),
                 .code = body.code,
                 .run_id = body.run_id,
                 .code_hash = uint_or(body.code_hash, 0),
                 .timeout = body.timeout,
                 .stream = body.stream,
                 .undo = text_equal(body.on_error, "rollback"),
                 .asks = !body.asks.data                  ? ASK_NOBODY
                         : text_equal(body.asks, "pause") ? ASK_PAUSE
                                                          : ASK_COUNT};
    return supervisor_execute(controller->supervisor, &call, problem);
}

static int handle_credit(Controller *controller, const Message *message, Problem *problem)
{
    MsgCredit body;
    int r = body_decode(&body, MsgCredit, &message->body, problem);

    if (r == 0)
        supervisor_credit(controller->supervisor, message->id, body.count);
    return r;
}

/* An error would be taken for the end of the call, whose id it has. */
static int handle_answer(Controller *controller, const Message *message)
{
    Problem problem = PROBLEM_NULL;

    if (supervisor_answer(controller->supervisor, message, &problem) < 0)
        log_warn("answer refused", "reason=%s", problem.text);
    return 0;
}

static int handle(Controller *controller, const Message *message, Problem *problem)
{
    Supervisor *supervisor = controller->supervisor;

    if (message->kind == MSG_GUEST_WELCOME)
        return handle_welcome(controller, message, problem);
    if (message->kind == MSG_STOP) {
        loop_stop(supervisor->loop, 0);
        return 0;
    }
    if (!controller->welcomed)
        return problem_set(problem, ERR_BAD_REQUEST, "%s before guest_welcome", message_name(message->kind));
    if (message->kind == MSG_CLAIM)
        return handle_claim(controller, message, problem);
    if (spare_is_one(&supervisor->spare))
        return problem_set(problem, ERR_BAD_REQUEST, "%s before claim", message_name(message->kind));
    switch (message->kind) {
    case MSG_EXECUTE:
        return handle_execute(controller, message, problem);
    case MSG_INTERRUPT:
        supervisor_interrupt(supervisor);
        return 0;
    case MSG_CREDIT:
        return handle_credit(controller, message, problem);
    case MSG_ANSWER:
        return handle_answer(controller, message);
    default:
        if (order_handler(message->kind))
            return order_handler(message->kind)(supervisor, message, problem);
        return problem_set(problem, ERR_BAD_REQUEST, "unexpected message %s", message_name(message->kind));
    }
}

/* The connection */

static void on_message(Link *link, const Message *message)
{
    Controller *controller = container_of(link, Controller, link);
    Problem problem = PROBLEM_NULL;

    if (handle(controller, message, &problem) == 0)
        return;
    log_warn("message refused", "kind=%s reason=%s", message_name(message->kind), problem.text);
    controller_answer_problem(controller, message->id, &problem);
}

static void write_branches(Writer *w, const void *source)
{
    const Supervisor *supervisor = source;
    Branch *branch;

    write_array(w, supervisor->branch_count);
    list_foreach (branch, (List *)&supervisor->branches, Branch, link)
        body_write(w, MsgGuestBranch,
                   (&(MsgGuestBranch){.branch = branch->number,
                                      .epoch = branch->epoch,
                                      .execution_count = branch->execution_count}));
}

static void on_open(Link *link)
{
    const Supervisor *supervisor = container_of(link, Controller, link)->supervisor;
    const Cell *cell = supervisor->cell;
    MsgGuestHello hello = {
        .protocol = PROTOCOL_VERSION,
        .session = text_of(link->session),
        .secret = {(const char *)link->secret, sizeof(link->secret)},
        .peer = text_of(PEER),
        .branches = {.write = write_branches, .source = supervisor},
        .has_running = cell,
    };

    if (cell)
        hello.running = (MsgGuestRunning){.id = cell->id,
                                          .branch = cell->branch_number,
                                          .run_id = text_of(cell->run_id),
                                          .code_hash = cell->code_hash};
    link_say(link, MSG_GUEST_HELLO, 0, MsgGuestHello, &hello);
}

static void on_orphan_due(LoopTimer *timer)
{
    log_info("no controller has come", "action=end");
    loop_stop(container_of(timer, Controller, orphan)->supervisor->loop, 0);
}

static int wait_for_controller(Controller *controller)
{
    Supervisor *supervisor = controller->supervisor;
    uint64_t due = clock_now() + clock_from_seconds(supervisor->settings.orphan_timeout);

    if (loop_timer_is_set(&controller->orphan))
        return 0;
    return loop_timer_set(supervisor->loop, &controller->orphan, due, on_orphan_due);
}

static void on_lost(Link *link)
{
    Controller *controller = container_of(link, Controller, link);

    controller->welcomed = false;
    if (wait_for_controller(controller) < 0)
        log_error("no memory for a timer", "purpose=orphan");
    supervisor_controller_lost(controller->supervisor);
}

int controller_init(Controller *controller, Supervisor *supervisor)
{
    int r = link_init(&controller->link, supervisor->loop);

    if (r < 0)
        return r;
    controller->supervisor = supervisor;
    controller->link.on_open = on_open;
    controller->link.on_message = on_message;
    controller->link.on_lost = on_lost;
    r = wait_for_controller(controller);
    if (r == 0)
        link_connect(&controller->link);
    return r;
}

void controller_deinit(Controller *controller)
{
    if (!controller->supervisor)
        return;
    loop_timer_cancel(&controller->orphan);
    link_deinit(&controller->link);
}
