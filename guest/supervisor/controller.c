#include "guest/supervisor/controller.h"

#include <errno.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define PEER "limpet-guest/" LIMPET_VERSION

/* Answers */

void controller_answer_problem(Controller *controller, uint64_t id, const Problem *problem)
{
    LinkFrame frame;

    if (link_begin(&controller->link, &frame, MSG_ERROR, id, 3) < 0)
        return;
    write_key(&frame.writer, "number");
    write_uint(&frame.writer, problem->code);
    write_key(&frame.writer, "name");
    write_text(&frame.writer, error_name(problem->code));
    write_key(&frame.writer, "message");
    write_text(&frame.writer, problem->text);
    link_end(&controller->link, &frame);
}

void controller_answer(Controller *controller, uint64_t id, ErrorCode code, const char *what, const char *why)
{
    Problem problem = PROBLEM_NULL;

    problem_set(&problem, code, "%s: %s", what, why);
    controller_answer_problem(controller, id, &problem);
}

int controller_reply(Controller *controller, LinkFrame *frame, uint64_t id, size_t fields)
{
    return link_begin(&controller->link, frame, MSG_REPLY, id, fields);
}

void controller_send_record(Controller *controller)
{
    const Buf *record = &controller->supervisor->record;

    if (controller->welcomed && record->size > 0 && link_send(&controller->link, record) == -ENOMEM)
        log_error("no memory to send a record", "bytes=%zu", record->size);
}

/* Orders */

typedef struct WelcomeBody {
    const msgpack_object_map *env;
    uint64_t output_limit;
    uint64_t spill_limit;
    Text checkpoint;
    uint64_t checkpoint_budget;
    uint64_t memory;
    double orphan_timeout;
    const msgpack_object_array *imports;
} WelcomeBody;

static int parse_mode(CheckpointMode *ret, Text text, Problem *problem)
{
    static const char *const names[] = {
        [CHECKPOINT_AUTO] = "auto", [CHECKPOINT_ALWAYS] = "always", [CHECKPOINT_OFF] = "off"};

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (text_equal(text, names[i])) {
            *ret = (CheckpointMode)i;
            return 0;
        }
    }
    return problem_set(problem, ERR_BAD_REQUEST, "`checkpoint` must be auto, always or off");
}

static int decode_environment(Environment *ret, const Supervisor *supervisor, const msgpack_object_map *set,
                              Problem *problem)
{
    int r = environment_init(ret, supervisor->options->directory, set, problem);

    return r == -ENOMEM ? problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM)) : r;
}

static int decode_welcome(Settings *ret, const msgpack_object_array **ret_imports,
                          const Supervisor *supervisor, const Message *message, Problem *problem)
{
    static const Field fields[] = {
        FIELD(FIELD_MAP, WelcomeBody, env, false, 0),
        FIELD(FIELD_UINT, WelcomeBody, output_limit, false, LIMIT_OUTPUT),
        FIELD(FIELD_UINT, WelcomeBody, spill_limit, false, LIMIT_SPILL),
        FIELD(FIELD_TEXT, WelcomeBody, checkpoint, false, 0),
        FIELD(FIELD_UINT, WelcomeBody, checkpoint_budget, false, 0),
        FIELD(FIELD_UINT, WelcomeBody, memory, false, 0),
        FIELD(FIELD_DOUBLE, WelcomeBody, orphan_timeout, false, 0),
        FIELD(FIELD_ARRAY, WelcomeBody, imports, false, 0),
    };
    WelcomeBody body = {.output_limit = LIMIT_OUTPUT,
                        .spill_limit = LIMIT_SPILL,
                        .checkpoint = {"auto", 4},
                        .orphan_timeout = supervisor->options->orphan_timeout};
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

    if (r == 0)
        r = parse_mode(&ret->checkpoint, body.checkpoint, problem);
    if (r == 0 && body.orphan_timeout <= 0)
        r = problem_set(problem, ERR_BAD_REQUEST, "`orphan_timeout` is out of range");
    if (r < 0)
        return r;
    ret->output_limit = body.output_limit;
    ret->spill_limit = body.spill_limit;
    ret->checkpoint_budget = body.checkpoint_budget;
    ret->memory = body.memory;
    ret->orphan_timeout = body.orphan_timeout;
    *ret_imports = body.imports;
    return decode_environment(&ret->environment, supervisor, body.env, problem);
}

static int handle_welcome(Controller *controller, const Message *message, Problem *problem)
{
    Supervisor *supervisor = controller->supervisor;
    Settings settings = {0};
    const msgpack_object_array *imports = NULL;
    int r = decode_welcome(&settings, &imports, supervisor, message, problem);

    if (r == 0)
        r = supervisor_configure(supervisor, &settings, imports, problem);
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
    typedef struct ClaimBody {
        const msgpack_object_map *env;
        Text checkpoint;
    } ClaimBody;
    static const Field fields[] = {
        FIELD(FIELD_MAP, ClaimBody, env, false, 0),
        FIELD(FIELD_TEXT, ClaimBody, checkpoint, false, 0),
    };
    Supervisor *supervisor = controller->supervisor;
    ClaimBody body = {.checkpoint = {"auto", 4}};
    Environment environment;
    CheckpointMode mode = CHECKPOINT_AUTO;
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

    if (r == 0 && !spare_is_one(&supervisor->spare))
        r = problem_set(problem, ERR_BAD_REQUEST, "it is a session already");
    if (r == 0)
        r = parse_mode(&mode, body.checkpoint, problem);
    if (r == 0)
        r = decode_environment(&environment, supervisor, body.env, problem);
    if (r == 0)
        supervisor_claim(supervisor, &environment, mode);
    return r;
}

typedef struct ExecuteBody {
    uint64_t branch;
    Text code;
    uint64_t code_hash;
    double timeout;
    bool stream;
    Text run_id;
    Text on_error;
    Text asks;
} ExecuteBody;

static int handle_execute(Controller *controller, const Message *message, Problem *problem)
{
    static const Field fields[] = {
        FIELD(FIELD_UINT, ExecuteBody, branch, false, 0),
        FIELD(FIELD_TEXT, ExecuteBody, code, true, LIMIT_CODE),
        FIELD(FIELD_UINT, ExecuteBody, code_hash, false, 0),
        FIELD(FIELD_DOUBLE, ExecuteBody, timeout, true, 0),
        FIELD(FIELD_BOOL, ExecuteBody, stream, false, 0),
        FIELD(FIELD_TEXT, ExecuteBody, run_id, true, LIMIT_RUN_ID),
        FIELD(FIELD_TEXT, ExecuteBody, on_error, false, 0),
        FIELD(FIELD_TEXT, ExecuteBody, asks, false, 0),
    };
    ExecuteBody body = {.on_error = {"keep", 4}};
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

    if (r < 0)
        return r;
    if (body.timeout <= 0 || body.timeout > TIMEOUT_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "`timeout` is out of range");
    if (!text_equal(body.on_error, "keep") && !text_equal(body.on_error, "rollback"))
        return problem_set(problem, ERR_BAD_REQUEST, "`on_error` must be keep or rollback");
    if (body.asks.data && !text_equal(body.asks, "pause") && !text_equal(body.asks, "count"))
        return problem_set(problem, ERR_BAD_REQUEST, "`asks` must be pause or count");

    Call call = {.id = message->id,
                 .branch = body.branch,
                 .code = body.code,
                 .run_id = body.run_id,
                 .code_hash = body.code_hash,
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
    typedef struct CreditBody {
        uint64_t count;
    } CreditBody;
    static const Field fields[] = {FIELD(FIELD_UINT, CreditBody, count, true, LIMIT_CREDIT)};
    CreditBody body = {0};
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

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

static void write_branches(Writer *w, const Supervisor *supervisor)
{
    Branch *branch;

    write_array(w, supervisor->branch_count);
    list_foreach (branch, (List *)&supervisor->branches, Branch, link) {
        write_map(w, 3);
        write_key(w, "branch");
        write_uint(w, branch->number);
        write_key(w, "epoch");
        write_uint(w, branch->epoch);
        write_key(w, "execution_count");
        write_uint(w, branch->execution_count);
    }
}

static void write_running(Writer *w, const Cell *cell)
{
    if (!cell) {
        write_nil(w);
        return;
    }
    write_map(w, 4);
    write_key(w, "id");
    write_uint(w, cell->id);
    write_key(w, "branch");
    write_uint(w, cell->branch_number);
    write_key(w, "run_id");
    write_text(w, cell->run_id);
    write_key(w, "code_hash");
    write_uint(w, cell->code_hash);
}

static void on_open(Link *link)
{
    const Supervisor *supervisor = container_of(link, Controller, link)->supervisor;
    LinkFrame frame;

    if (link_begin(link, &frame, MSG_GUEST_HELLO, 0, 6) < 0)
        return;
    write_key(&frame.writer, "protocol");
    write_uint(&frame.writer, PROTOCOL_VERSION);
    write_key(&frame.writer, "session");
    write_text(&frame.writer, link->session);
    write_key(&frame.writer, "secret");
    write_bytes(&frame.writer, link->secret, sizeof(link->secret));
    write_key(&frame.writer, "peer");
    write_text(&frame.writer, PEER);
    write_key(&frame.writer, "branches");
    write_branches(&frame.writer, supervisor);
    write_key(&frame.writer, "running");
    write_running(&frame.writer, supervisor->cell);
    link_end(link, &frame);
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
