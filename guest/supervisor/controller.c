#include "guest/supervisor/controller.h"

#include <errno.h>
#include <string.h>

#include "guest/supervisor/supervisor.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

#define PEER "limpet-guest/" LIMPET_VERSION

/* Answers */

static void answer_problem(Controller *controller, uint64_t id, const Problem *problem)
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
    answer_problem(controller, id, &problem);
}

void controller_reply_reset(Controller *controller, uint64_t id)
{
    LinkFrame frame;

    if (link_begin(&controller->link, &frame, MSG_REPLY, id, 1) < 0)
        return;
    write_key(&frame.writer, "epoch");
    write_uint(&frame.writer, controller->supervisor->epoch);
    link_end(&controller->link, &frame);
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
} WelcomeBody;

static int handle_welcome(Controller *controller, const Message *message, Problem *problem)
{
    static const Field fields[] = {
        FIELD(FIELD_MAP, WelcomeBody, env, false, 0),
        FIELD(FIELD_UINT, WelcomeBody, output_limit, false, LIMIT_OUTPUT),
        FIELD(FIELD_UINT, WelcomeBody, spill_limit, false, LIMIT_SPILL),
    };
    Supervisor *supervisor = controller->supervisor;
    WelcomeBody body = {.output_limit = LIMIT_OUTPUT, .spill_limit = LIMIT_SPILL};
    Environment environment = {0};
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

    if (r == 0)
        r = environment_init(&environment, supervisor->options->directory, body.env, problem);
    if (r == -ENOMEM)
        return problem_set(problem, ERR_INTERNAL, "%s", strerror(ENOMEM));
    if (r < 0)
        return r;
    controller->welcomed = true;
    link_accepted(&controller->link);
    loop_timer_cancel(&controller->orphan);
    controller_send_record(controller);
    supervisor_configure(supervisor, environment, body.output_limit, body.spill_limit);
    return 0;
}

typedef struct ExecuteBody {
    Text code;
    Text run_id;
    double timeout;
    bool stream;
    uint64_t execution_count; /* the supervisor counts; what the controller says is not used */
} ExecuteBody;

static int handle_execute(Controller *controller, const Message *message, Problem *problem)
{
    static const Field fields[] = {
        FIELD(FIELD_TEXT, ExecuteBody, code, true, LIMIT_CODE),
        FIELD(FIELD_TEXT, ExecuteBody, run_id, true, LIMIT_RUN_ID),
        FIELD(FIELD_DOUBLE, ExecuteBody, timeout, true, 0),
        FIELD(FIELD_BOOL, ExecuteBody, stream, false, 0),
        FIELD(FIELD_UINT, ExecuteBody, execution_count, false, 0),
    };
    ExecuteBody body = {0};
    int r = fields_decode(&body, fields, ARRAY_SIZE(fields), &message->body, problem);

    if (r < 0)
        return r;
    if (body.timeout <= 0 || body.timeout > TIMEOUT_MAXIMUM)
        return problem_set(problem, ERR_BAD_REQUEST, "`timeout` is out of range");

    Call call = {.id = message->id,
                 .code = body.code,
                 .run_id = body.run_id,
                 .timeout = body.timeout,
                 .stream = body.stream};
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
    switch (message->kind) {
    case MSG_EXECUTE:
        return handle_execute(controller, message, problem);
    case MSG_INTERRUPT:
        supervisor_interrupt(supervisor);
        return 0;
    case MSG_RESET:
        supervisor_reset(supervisor, message->id);
        return 0;
    case MSG_CREDIT:
        return handle_credit(controller, message, problem);
    default:
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
    answer_problem(controller, message->id, &problem);
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
    write_key(&frame.writer, "epoch");
    write_uint(&frame.writer, supervisor->epoch);
    write_key(&frame.writer, "execution_count");
    write_uint(&frame.writer, supervisor->execution_count);
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
    uint64_t due = clock_now() + clock_from_seconds(supervisor->options->orphan_timeout);

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
